"""The end of a job in which one rank fails: within seconds, with one message that names the rank and the reason."""

from __future__ import annotations

import atexit
import os
import socket
import stat
import subprocess
import sys
import threading
import time
import traceback
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn

from . import sentinel
from .agreed import is_agreed
from .environment import RANKS, SIZES, job_key, told_rank, told_size

try:
    import fcntl
    import termios
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LONGEST = 400  # letters of an error's text in the message
HIGH = 200  # a file's number, above those that MPI opens
READ = 2.0  # seconds in which the launcher reads what a rank has written
WAIT = 10.0  # seconds in which the launcher ends the other ranks

at_end: list[Callable[[], None]] = []  # what a rank that ends well does before
_settled = False
_hooked = 0  # the process that has the hooks; its children are no ranks
_exit: SystemExit | None = None  # with which this rank ends, if it is a failure
_sentinel: socket.socket | None = None
_process: subprocess.Popen[bytes] | None = None  # that this rank has started for it


class _Exit(SystemExit):
    """What ``sys.exit`` raises: if nobody catches it, there is no frame above its end."""

    def __del__(self) -> None:
        global _exit
        try:
            sys._getframe(1)
        except ValueError:
            if threading.current_thread() is threading.main_thread():
                _exit = SystemExit(self.code)


_Exit.__name__ = "SystemExit"


def start() -> None:
    """If a launcher started several processes, watch this one from here on; no library of MPI is needed for it."""
    if told_size() > 1:
        tell_once()
        connect()


def tell_once() -> None:
    """From now on, a failure that nobody catches ends the whole job, and one rank of a machine tells it."""
    global _hooked
    if _hooked:
        return
    _hooked = os.getpid()
    before = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if os.getpid() == _hooked:
            end_job(error, lambda: before(kind, error, trace))
        before(kind, error, trace)

    def leave(status: Any = None, /) -> NoReturn:
        """Exit the interpreter by raising SystemExit(status)."""
        raise (SystemExit if status is None or status == 0 else _Exit)(status)

    sys.excepthook, sys.exit = hook, leave
    atexit.register(_at_end)


def settle() -> None:
    """Say that all ranks end with a failure that has been told."""
    global _settled
    _settled = True


def _at_end() -> None:
    if os.getpid() != _hooked:
        return
    if _exit is not None and not _settled:
        code = _exit.code
        end_job(_exit, status=code & 0xFF if isinstance(code, int) else 1)
    for tell in at_end:
        tell()
    _orderly(sentinel.ORDERLY if _settled else sentinel.ENDED)


def watch(world: Any) -> None:
    """Do that, and let the sentinel of this machine tell of this rank if it is killed."""
    if world.Get_size() > 1:  # of one rank there is nothing to tell
        tell_once()
        connect()


def connect() -> socket.socket | None:
    """Give the connection of this rank to the sentinel of its machine, which is started if there is none."""
    global _sentinel
    if _sentinel is None and hasattr(socket, "AF_UNIX"):
        with suppress(OSError):  # without it the launcher's own message is left
            _sentinel = introduced()
            os.register_at_fork(after_in_child=_leave)
    return _sentinel


def introduced() -> socket.socket:
    """Connect to the sentinel, and wait until it watches this rank."""
    global _process
    key = job_key()
    connection = ending_first(socket.socket(socket.AF_UNIX))
    end = time.monotonic() + sentinel.START
    while connection.connect_ex(sentinel.address(key)):
        if _process is None:
            _process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(Path(sentinel.__file__)), key],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,  # lives on when the launcher ends the rank
                env={name: value for name, value in os.environ.items() if name not in (*RANKS, *SIZES)},
            )
        if time.monotonic() > end:
            connection.close()
            raise TimeoutError("the sentinel does not answer")
        time.sleep(0.002)
    try:
        sentinel.peer(connection)  # another user's could keep failures secret
    except OSError:
        connection.close()
        raise
    rank, count = place()
    connection.settimeout(sentinel.START)
    connection.sendall(f"{rank} {count}".encode())
    connection.recv(1)
    return connection


def ending_first(connection: socket.socket) -> socket.socket:
    """Give the connection a high number: Linux closes the files of a process that ends from the highest down.

    Thus the sentinel hears of this rank before the launcher and the other ranks can hear and end themselves.
    """
    if fcntl is not None and connection.fileno() < HIGH:
        with suppress(OSError), connection:
            return socket.socket(fileno=fcntl.fcntl(connection.fileno(), fcntl.F_DUPFD_CLOEXEC, HIGH))
    return connection


def claim() -> bool:
    """Say whether this rank is the first of its machine to tell of a failure of this job."""
    return _asked(sentinel.CLAIM) != sentinel.NO.decode()  # better told twice than not at all


def ended() -> list[int]:
    """Give the ranks of this machine that have ended well."""
    return [int(rank) for rank in _asked(sentinel.WHO).split()]


def _asked(question: bytes) -> str:
    """Give the answer of the sentinel, or nothing if there is none."""
    connection, answer = connect(), b""
    with suppress(OSError):
        if connection is not None:
            connection.sendall(question)
            while not answer.endswith(b"\n"):
                more = connection.recv(1024)
                if not more:
                    break
                answer += more
    return answer.decode().strip()


def _leave() -> None:
    """Take a forked process, which is no rank, out of all this."""
    global _sentinel, _process
    if _sentinel is not None:
        _sentinel.close()
    _sentinel = _process = None


def _orderly(word: bytes = sentinel.ORDERLY) -> None:
    if _sentinel is not None:
        with suppress(OSError):
            _sentinel.sendall(word)


def running() -> Any:
    """Give MPI if it runs: after it is initialized and before it ends."""
    mpi = sys.modules.get("mpi4py.MPI")
    return mpi if mpi is not None and mpi.Is_initialized() and not mpi.Is_finalized() else None


def place() -> tuple[int, int]:
    """Give rank and size of the job, as far as they are known."""
    mpi = running()
    if mpi is not None:
        return int(mpi.COMM_WORLD.Get_rank()), int(mpi.COMM_WORLD.Get_size())
    return told_rank(), told_size()


def message(error: BaseException) -> str:
    """Give what names the rank and the reason."""
    rank, count = place()
    text = " ".join(str(error).split())
    text = text if len(text) <= LONGEST else text[:LONGEST] + "..."
    kind = "MemoryError (out of memory)" if isinstance(error, MemoryError) else type(error).__name__
    reason = f"raised {kind}: {text}" if text else f"raised {kind}"
    if is_agreed(error):
        return f"all {count} ranks {reason}"
    host = os.uname().nodename if hasattr(os, "uname") else "this machine"
    return f"rank {rank} of {count} (process {os.getpid()} on {host}) {reason}"


def await_reader(descriptor: int) -> None:
    """Wait until the launcher has read what stands in this pipe: MPICH's drops the rest when a rank aborts."""
    if fcntl is None or not stat.S_ISFIFO(os.fstat(descriptor).st_mode):
        return
    end = time.monotonic() + READ
    while time.monotonic() < end and any(fcntl.ioctl(descriptor, termios.FIONREAD, bytes(4))):
        time.sleep(0.005)
    time.sleep(0.05)  # and has passed it on


def end_job(
    reason: BaseException | str, show: Callable[[], object] | None = None, status: int = 1
) -> NoReturn:
    """Tell an error or what is said instead, unless another rank of this machine has told one; end all ranks."""
    first = place()[1] == 1 or claim()
    _orderly()  # what is to be told is told here
    if first:
        if show is not None:
            show()
        print(f"qkv: {reason if isinstance(reason, str) else message(reason)}; the job ends", file=sys.stderr)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
            await_reader(stream.fileno())
    if not first:
        time.sleep(WAIT)  # the launcher ends this rank; its status is the other's
    mpi = running()
    if mpi is not None:
        mpi.COMM_WORLD.Abort(status)
    os._exit(status)


@contextmanager
def together(comm: Any, *, trace: bool = True) -> Iterator[None]:
    """While this block runs, the ranks wait for each other: an exception that leaves it on one of them ends the job.

    One that all ranks raise leaves it as usual. `trace`: show where it was raised, too.
    """
    try:
        yield
    except BaseException as error:
        if comm.Get_size() > 1 and not is_agreed(error):
            caught = error

            def show() -> None:
                if trace:
                    traceback.print_exception(type(caught), caught, caught.__traceback__)

            end_job(caught, show)
        raise
