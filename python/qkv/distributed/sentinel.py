"""A small process beside the ranks of a machine that names the rank which fails: a killed one cannot do so itself.

Run as a program, by path, so that it imports nothing but a part of the standard library:

    python -I -S sentinel.py KEY

Each rank connects to it and introduces itself: its number, the number of ranks. Which process and whose it is says the
system: those of other users are not heard, and none but the connected processes are ended. From then on a letter is a
message. A connection that ends without ORDERLY or ENDED is a rank that was killed. The first failure is told; those of
the ranks that the launcher ends after it are not, and those that it leaves are ended here.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import struct
import sys
import tempfile
import time

END = 5.0  # seconds after a failure in which the launcher ends the other ranks
LINGER = 10.0  # seconds after a failure in which ranks that were late do not tell another one
START = 10.0  # seconds in which the first rank connects
SILENCE = 2.0  # seconds in which who connects says which rank it is
ORDERLY = b"o"  # the rank ends by itself after a failure, or has told why
ENDED = b"e"  # the rank ends well
CLAIM = b"c"  # the rank has failed; may it tell? The answer is YES or NO in a line
WHO = b"w"  # which ranks have ended well? The answer is a line of their numbers
YES, NO = b"1", b"0"


def address(key: str) -> str:
    """Give the name of the socket of this job on this machine. Linux has names beside the file system."""
    user = os.getuid() if hasattr(os, "getuid") else 0
    name = f"qkv-{user}-{key}"
    return f"\0{name}" if sys.platform == "linux" else os.path.join(tempfile.gettempdir(), name)


def peer(connection: socket.socket) -> int:
    """Give the process at the other end.

    Raises
    ------
    OSError
        If it is another user's, or the system does not say.
    """
    if hasattr(socket, "SO_PEERCRED"):  # Linux
        found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("iII"))
        process: int
        process, user, _ = struct.unpack("iII", found)
    elif sys.platform == "darwin":
        local, credentials, number = 0, 1, 2  # SOL_LOCAL, LOCAL_PEERCRED, LOCAL_PEERPID
        _, user = struct.unpack("II", connection.getsockopt(local, credentials, 76)[:8])
        (process,) = struct.unpack("i", connection.getsockopt(local, number, 4))
    else:
        raise OSError("this system does not say whose process that is")
    if user != os.geteuid():
        raise PermissionError(f"process {process} is of user {user}")
    return process


def kills_for_memory() -> int | None:
    """Give how many processes the system has killed for want of memory so far, or None where it does not say."""
    try:
        with open("/proc/vmstat") as file:
            return next((int(line.split()[1]) for line in file if line.startswith("oom_kill ")), None)
    except (OSError, ValueError):
        return None


def status_of(pid: int) -> int:
    """Give the wait status of a process that ends and was not waited for yet; 0 where it cannot be had."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[-1])
    except (OSError, ValueError, IndexError):
        return 0


def reason(status: int, for_memory: bool) -> str:
    if for_memory:
        return "was killed because the system ran out of memory"
    if not status:
        return "was killed or ended without a word"
    if status & 0x7F:
        number = status & 0x7F
        try:
            return f"was killed by signal {number} ({signal.Signals(number).name})"
        except ValueError:
            return f"was killed by signal {number}"
    return f"ended with status {status >> 8} without a word"


class Rank:
    """A rank as its connection tells of it."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.pid = peer(connection)
        connection.settimeout(SILENCE)
        self.rank, self.size = map(int, connection.recv(64).split())
        connection.settimeout(None)
        self.orderly = False
        self.process = -1
        with contextlib.suppress(AttributeError, OSError):
            self.process = os.pidfd_open(self.pid)  # children of the rank may hold the connection open

    def answer(self, line: bytes) -> None:
        with contextlib.suppress(OSError):
            self.connection.sendall(line + b"\n")

    def kill(self) -> None:
        with contextlib.suppress(OSError):
            if self.process >= 0:
                signal.pidfd_send_signal(self.process, signal.SIGKILL)
            elif self.pid > 0:  # 0: of a part of the system that this one does not see
                os.kill(self.pid, signal.SIGKILL)

    def close(self) -> None:
        self.connection.close()
        if self.process >= 0:
            os.close(self.process)


class Sentinel:
    """Watches the ranks of one job on one machine.

    The launcher ends the other ranks within a millisecond of the first, and this process may be woken later than that:
    one selector for all connections tells their ends in the order in which they happened (epoll does).
    """

    def __init__(self, listener: socket.socket) -> None:
        self.events = selectors.DefaultSelector()
        self.events.register(listener, selectors.EVENT_READ)
        self.listener = listener
        self.ranks: list[Rank] = []
        self.told = False
        self.ended: list[int] = []
        self.fatal = False  # what was told ends the job, whatever the launcher does
        self.until: float | None = time.monotonic() + START
        self.killed_before = kills_for_memory()

    def run(self) -> None:
        while self.until is None or time.monotonic() < self.until or self.end_ranks():
            left = None if self.until is None else max(0.0, self.until - time.monotonic())
            for key, _ in self.events.select(left):
                if key.data is None:
                    self.welcome()
                elif key.data in self.ranks:
                    self.hear(key.data, ended=isinstance(key.fileobj, int))
                    if not self.ranks:
                        if not self.told:
                            return  # the job has ended well
                        self.until = time.monotonic() + LINGER
                        release_streams()

    def welcome(self) -> None:
        connection, _ = self.listener.accept()
        try:
            rank = Rank(connection)
        except (OSError, ValueError):  # it ended in the meantime, or is none of ours
            connection.close()
            return
        self.ranks.append(rank)
        if not self.told:
            self.until = None
        self.events.register(connection, selectors.EVENT_READ, rank)
        if rank.process >= 0:
            self.events.register(rank.process, selectors.EVENT_READ, rank)
        with contextlib.suppress(OSError):
            connection.sendall(YES)  # not before: the rank may end right after it

    def hear(self, rank: Rank, ended: bool) -> None:
        """Take what a rank says, or its end."""
        try:
            said = rank.connection.recv(64, socket.MSG_DONTWAIT)
        except BlockingIOError:
            said = b""
        except OSError:
            said, ended = b"", True
        else:
            ended = ended or not said
        rank.orderly = rank.orderly or ORDERLY in said or ENDED in said
        if ENDED in said:
            self.ended.append(rank.rank)
        if WHO in said:
            rank.answer(" ".join(map(str, self.ended)).encode())
        if CLAIM in said:
            rank.answer(NO if self.told else YES)
            self.fail(fatal=True)
        if ended:
            self.forget(rank)

    def fail(self, fatal: bool) -> None:
        if not self.told:
            self.told, self.fatal, self.until = True, fatal, time.monotonic() + END

    def end_ranks(self) -> bool:
        """Kill the ranks that wait for a failed one, if there are any: not every launcher does so."""
        if not self.fatal or not self.ranks:
            return False
        for rank in self.ranks:
            rank.kill()
        self.fatal, self.until = False, time.monotonic() + LINGER
        return True

    def forget(self, rank: Rank) -> None:
        status = status_of(rank.pid)  # first of all: the launcher removes what is known of the process
        self.events.unregister(rank.connection)
        if rank.process >= 0:
            self.events.unregister(rank.process)
        rank.close()
        self.ranks.remove(rank)
        if rank.orderly or self.told:
            return
        self.fail(fatal=status != 0)
        after = kills_for_memory()
        for_memory = self.killed_before is not None and after is not None and after > self.killed_before
        who = f"rank {rank.rank} of {rank.size} (process {rank.pid} on {os.uname().nodename})"
        with contextlib.suppress(OSError):
            os.write(2, f"qkv: {who} {reason(status, for_memory)}; the job ends\n".encode())


def release_streams() -> None:
    """Let nobody wait for the end of this process, who reads what it may say."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nowhere, number)


def main(key: str) -> None:
    for stop in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(stop, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as listener:
        try:
            listener.bind(address(key))
        except OSError:  # another rank has started one
            return
        listener.listen(1024)
        listener.settimeout(10)
        Sentinel(listener).run()
        if sys.platform != "linux":
            os.unlink(address(key))


if __name__ == "__main__":
    main(sys.argv[1])
