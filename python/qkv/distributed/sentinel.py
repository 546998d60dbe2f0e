"""A small process beside each rank that says so when the rank is killed: nobody else is left to name it.

Run as a program, by path, so that it imports nothing but a part of the standard library:

    python -I -S sentinel.py PID RANK SIZE KEY

Its standard input comes from the rank, which writes a line before it ends in an orderly way. The first who claims a
failure of the job on a machine tells it; the ranks that the launcher ends after that are not told.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import tempfile
import time

VALID = 20.0  # seconds; a claim that is older belongs to an earlier job with the same key
ORDERLY = b"o"  # the rank ends by itself, or has told why


def claim_path(key: str) -> str:
    user = os.getuid() if hasattr(os, "getuid") else 0
    return os.path.join(tempfile.gettempdir(), f"qkv-failure-{user}-{key}")


def claim(key: str) -> bool:
    """Say whether this process is the first to tell of a failure of this job on this machine."""
    path = claim_path(key)
    for _ in range(3):
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            return True
        except FileExistsError:
            try:
                if time.time() - os.stat(path).st_mtime < VALID:
                    return False
                os.unlink(path)
            except FileNotFoundError:
                pass
        except OSError:  # no folder to write to: better told twice than not at all
            return True
    return False


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


def wait_for(pid: int) -> tuple[int, bool]:
    """Wait until the process ends; give its wait status, or 0 if it cannot be had, and whether it was orderly.

    A process that ends closes its pipe before the launcher hears of it and removes what is known of it.
    """
    poll = select.poll()
    poll.register(0, select.POLLIN | select.POLLHUP)
    handle = None
    try:
        handle = os.pidfd_open(pid)  # children of the rank may hold the pipe open
        poll.register(handle, select.POLLIN)
    except (AttributeError, OSError):
        pass
    said, status = b"", 0
    while True:
        ready = [number for number, _ in poll.poll()]
        if 0 in ready:
            part = os.read(0, 64)
            said += part
            if not part:
                status = status_of(pid)
                poll.unregister(0)
                if handle is None:
                    break
        if handle in ready:
            break
    status = status or status_of(pid)
    while 0 in [number for number, _ in poll.poll(0)] and (part := os.read(0, 64)):
        said += part
    return status, ORDERLY in said


def main(pid: int, rank: int, size: int, key: str) -> None:
    for stop in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(stop, signal.SIG_IGN)
    before = kills_for_memory()
    status, orderly = wait_for(pid)
    if not orderly:
        after = kills_for_memory()
        for_memory = before is not None and after is not None and after > before
        if claim(key):
            host = os.uname().nodename
            text = f"qkv: rank {rank} of {size} (process {pid} on {host}) {reason(status, for_memory)}; the job ends\n"
            os.write(2, text.encode())
            orderly = True
    if not orderly or not os.path.exists(claim_path(key)):
        return
    # Nobody is to wait for the end of this process while it waits to remove the claim.
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nowhere, number)
    time.sleep(VALID / 2)
    with contextlib.suppress(OSError):
        os.unlink(claim_path(key))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
