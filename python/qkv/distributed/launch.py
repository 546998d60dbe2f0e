"""Who started this process: `mpiexec`, or nobody; told by the environment, so that one process needs no MPI."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from .._public import explained
from .environment import launched, slurm_size, told_size
from .waiting import watch

INSTALL = 'pip install "qkv[distributed]" mpich'


def world() -> Any:
    """Return the communicator of all processes of the job, or None if there is only this one.

    Raises
    ------
    ImportError
        If `mpiexec` started this process and `mpi4py` or its MPI library is missing.
    RuntimeError
        If `mpiexec` belongs to another MPI than the library, or `srun` to none: each process would be alone.
    """
    mpi: Any = sys.modules.get("mpi4py.MPI")
    if mpi is None and not launched():
        check_launcher(None)
        return None
    if mpi is None:
        try:
            mpi = importlib.import_module("mpi4py.MPI")
        except (ImportError, RuntimeError) as error:  # mpi4py without a library of MPI raises RuntimeError
            raise ImportError(
                "distributed: mpi4py and a library of MPI must be installed because mpiexec started this process; "
                f"{INSTALL} ({' '.join(str(error).split())})"
            ) from error
    check_launcher(mpi)
    watch()
    return mpi.COMM_WORLD


def check_launcher(mpi: Any) -> None:
    """Raise a RuntimeError if several processes were started and the library, if it is there, sees one."""
    told, by_slurm = told_size(), slurm_size()
    if max(told, by_slurm) == 1 or (mpi is not None and mpi.COMM_WORLD.Get_size() > 1):
        return
    if told > 1:
        library = mpi.Get_library_version().split(",")[0].splitlines()[0].strip()
        raise RuntimeError(
            f"distributed: mpiexec must belong to the MPI library that mpi4py loads, {library}, because each process "
            f"would be alone otherwise; got the mpiexec of another one, which started {told} processes"
        )
    raise RuntimeError(
        "distributed: srun must be given --mpi=pmix, or --mpi=pmi2 for MPICH (srun --mpi=list says what there is), "
        f"because each of its {by_slurm} processes would be alone and write the same files otherwise; got none"
    )


@explained
def rank() -> int:
    """Return the number of this process among those of the job, from 0.

    Returns
    -------
    int
        0 without ``mpiexec``.

    Raises
    ------
    ImportError
        If ``mpiexec`` started this process and `mpi4py` is missing.
    RuntimeError
        If ``mpiexec`` belongs to another MPI than the one that `mpi4py` loads.

    Examples
    --------
    >>> qkv.distributed.rank(), qkv.distributed.size(), qkv.distributed.is_main()
    (0, 1, True)
    """
    comm = world()
    return 0 if comm is None else int(comm.Get_rank())


@explained
def size() -> int:
    """Return the number of processes of the job.

    Returns
    -------
    int
        1 without ``mpiexec``.

    Raises
    ------
    ImportError, RuntimeError
        As :func:`rank`.

    Examples
    --------
    >>> qkv.distributed.size()
    1
    """
    comm = world()
    return 1 if comm is None else int(comm.Get_size())


@explained
def is_main() -> bool:
    """Say whether this is rank 0, which prints and writes files.

    Returns
    -------
    bool
        True without ``mpiexec``.

    Raises
    ------
    ImportError, RuntimeError
        As :func:`rank`.

    Examples
    --------
    >>> if qkv.distributed.is_main():
    ...     print("printed once")
    printed once
    """
    return rank() == 0
