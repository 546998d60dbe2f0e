"""What a launcher tells each process, which needs no MPI to be read."""

from __future__ import annotations

import os

# What the launchers of MPICH, Intel MPI and Microsoft MPI, Open MPI, MVAPICH, Cray and PMIx tell each process.
RANKS = ("PMI_RANK", "OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK", "PALS_RANKID", "PMIX_RANK")
SIZES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE")
SLURM_SIZE = "SLURM_STEP_NUM_TASKS"  # of a step of srun, whether or not it speaks to a library of MPI


def _told(names: tuple[str, ...], otherwise: int) -> int:
    return next((int(os.environ[name]) for name in names if name in os.environ), otherwise)


def launched() -> bool:
    """Say whether a launcher of MPI started this process."""
    return any(name in os.environ for name in RANKS)


def told_rank() -> int:
    """Return the rank that the launcher told this process, without MPI; 0 without a launcher."""
    return _told(RANKS, 0)


def told_size() -> int:
    """Return the number of processes that the launcher told this process; 1 if it told none."""
    return _told((*SIZES, SLURM_SIZE) if launched() else SIZES, 1)


def slurm_size() -> int:
    """Return the number of processes that srun started without telling them of MPI; 1 if it did not."""
    return 1 if launched() else _told((SLURM_SIZE,), 1)
