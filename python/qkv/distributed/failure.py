"""The end of a job in which one rank fails: one line names the rank and the reason, and MPI ends the other ranks."""

from __future__ import annotations

import os
import platform
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, NoReturn

from .agreed import is_agreed

LONGEST = 400  # letters of an error's text in the line
STEP, STEPS = 0.5, 4  # seconds by which the next rank tells later, and how many ranks do so
AGREED_STEP = 2.5  # the same where all ranks fail
FORWARDED = 0.2  # seconds in which the launcher reads what was printed: it drops the rest when the job ends

_rank_process = 0  # that is watched; its children are no ranks
_settled = False
_CODE: Any = SystemExit.code


class _Exit(SystemExit):
    """What ``sys.exit`` raises for a failure. If nobody catches it, Python reads its code when no frame is left."""

    def _read(self) -> Any:
        if sys._getframe().f_back is None and not _settled and running() is not None:
            end_job(self)
        return _CODE.__get__(self)

    code: Any = property(_read, _CODE.__set__)


_Exit.__name__ = "SystemExit"


def watch() -> bool:
    """From now on a failure that nobody catches ends the whole job, if it has several ranks; True when that begins."""
    global _rank_process
    mpi = running()
    if _rank_process or mpi is None or mpi.COMM_WORLD.Get_size() == 1:
        return False
    _rank_process = os.getpid()
    before = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if running() is not None:
            end_job(error, lambda: before(kind, error, trace))
        before(kind, error, trace)

    def leave(status: Any = None, /) -> NoReturn:
        """Exit the interpreter by raising SystemExit(status)."""
        fails = status is not None and status != 0
        raise (_Exit if fails and threading.current_thread() is threading.main_thread() else SystemExit)(
            status
        )

    sys.excepthook, sys.exit = hook, leave
    return True


def settle() -> None:
    """Say that all ranks end with a failure that has been told."""
    global _settled
    _settled = True


def running() -> Any:
    """Return MPI if it runs in this process: it has begun and has not ended, and this is no child of a rank."""
    mpi: Any = sys.modules.get("mpi4py.MPI")
    runs = mpi is not None and _rank_process in (0, os.getpid()) and mpi.Is_initialized()
    return mpi if runs and not mpi.Is_finalized() else None


def message(error: BaseException, rank: int, count: int) -> str:
    """Return what names the rank and the reason."""
    text = " ".join(str(error).split())
    text = text if len(text) <= LONGEST else text[:LONGEST] + "..."
    kind = "MemoryError (out of memory)" if isinstance(error, MemoryError) else type(error).__name__
    reason = f"raised {kind}: {text}" if text else f"raised {kind}"
    if is_agreed(error):
        return f"all {count} ranks {reason}"
    return f"rank {rank} of {count} (process {os.getpid()} on {platform.node()}) {reason}"


def end_job(reason: BaseException | str, show: Callable[[], object] | None = None) -> NoReturn:
    """Tell an error, or what is said instead, and end all ranks.

    Where several ranks fail at once the first of them tells: it ends the others, which wait for that before they tell.
    """
    world, status = running().COMM_WORLD, 1
    if isinstance(reason, SystemExit) and isinstance(reason.code, int):
        status = reason.code & 0xFF or 1
    try:
        agreed = isinstance(reason, BaseException) and is_agreed(reason)
        time.sleep(min(world.Get_rank(), STEPS) * (AGREED_STEP if agreed else STEP))
        if isinstance(reason, BaseException):
            reason = message(reason, world.Get_rank(), world.Get_size())
        if show is not None:
            show()
        print(f"qkv: {reason}; the job ends", file=sys.stderr)
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        time.sleep(FORWARDED)
    finally:
        world.Abort(status)
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
            end_job(caught, (lambda: traceback.print_exception(caught)) if trace else None)
        raise
