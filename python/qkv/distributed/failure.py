"""The end of a job in which one rank fails: within seconds, with one message that names the rank and the reason."""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
import time
import traceback
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any

from . import sentinel
from .agreed import is_agreed
from .environment import RANKS, SIZES, told_rank, told_size

if TYPE_CHECKING:
    from collections.abc import Iterator

# What names the job on a machine, if the launcher says it; otherwise the process that started all ranks here.
JOBS = ("PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "SLURM_STEP_ID")
LONGEST = 400  # letters of an error's text in the message
WAIT = 10.0  # seconds in which the launcher ends the other ranks

_hooked = False
_sentinel: subprocess.Popen[bytes] | None = None


def job_key() -> str:
    """Give what the ranks of this job on this machine have in common."""
    told = [os.environ[name] for name in JOBS if os.environ.get(name)] or [str(os.getppid())]
    text = "-".join([os.environ.get("SLURM_JOB_ID", "0"), *told])
    return "".join(c if c.isalnum() or c in "-_." else "_" for c in text)


def tell_once() -> None:
    """From now on, an exception that nobody catches ends the whole job, and one rank of a machine tells it."""
    global _hooked
    if _hooked:
        return
    _hooked = True
    before = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        end_job(error, lambda: before(kind, error, trace))

    sys.excepthook = hook


def watch(world: Any) -> None:
    """Do that, and start the process that tells of this rank if it is killed. Of one rank there is nothing to tell."""
    global _sentinel
    if world.Get_size() == 1 or _sentinel is not None:
        return
    tell_once()
    if sys.platform == "win32":
        return
    arguments = [str(os.getpid()), str(world.Get_rank()), str(world.Get_size()), job_key()]
    with suppress(OSError):  # without it the launcher's own message is left
        _sentinel = subprocess.Popen(
            [sys.executable, "-I", "-S", str(Path(sentinel.__file__)), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,  # lives on when the launcher ends the rank
            env={name: value for name, value in os.environ.items() if name not in (*RANKS, *SIZES)},
        )
        atexit.register(_orderly)


def _orderly() -> None:
    pipe: IO[bytes] | None = None if _sentinel is None else _sentinel.stdin
    if pipe is not None and not pipe.closed:
        with suppress(OSError):
            pipe.write(sentinel.ORDERLY)
            pipe.flush()


def place() -> tuple[int, int]:
    """Give rank and size of the job, as far as they are known."""
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi is not None and mpi.Is_initialized() and not mpi.Is_finalized():
        return int(mpi.COMM_WORLD.Get_rank()), int(mpi.COMM_WORLD.Get_size())
    return told_rank(), told_size()


def message(error: BaseException) -> str:
    """Give the line that names the rank and the reason."""
    rank, count = place()
    text = " ".join(str(error).split())
    text = text if len(text) <= LONGEST else text[:LONGEST] + "..."
    kind = "MemoryError (out of memory)" if isinstance(error, MemoryError) else type(error).__name__
    host = os.uname().nodename if hasattr(os, "uname") else "this machine"
    reason = f"{kind}: {text}" if text else kind
    return f"qkv: rank {rank} of {count} (process {os.getpid()} on {host}) raised {reason}; the job ends"


def end_job(error: BaseException, show: Any) -> None:
    """Tell the error, unless another rank of this machine has told one, and end all ranks."""
    first = sentinel.claim(job_key())
    _orderly()  # what is to be told is told here
    if first:
        show()
        print(message(error), file=sys.stderr)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    if not first:
        time.sleep(WAIT)  # the launcher ends this rank; its status is the other's
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi is not None and mpi.Is_initialized() and not mpi.Is_finalized():
        mpi.COMM_WORLD.Abort(1)
    os._exit(1)


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
