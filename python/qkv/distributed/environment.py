"""What a launcher of MPI tells each process, which needs no MPI to be read."""

from __future__ import annotations

import os

# What the launchers of MPICH, Intel MPI and Microsoft MPI, Open MPI, MVAPICH, Cray and PMIx tell each process.
RANKS = ("PMI_RANK", "OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK", "PALS_RANKID", "PMIX_RANK")
SIZES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE")


def launched() -> bool:
    """Say whether a launcher of MPI started this process."""
    return any(name in os.environ for name in RANKS)


def told_rank() -> int:
    """Give the rank that the launcher told this process, without MPI; 0 without a launcher."""
    return next((int(os.environ[name]) for name in RANKS if name in os.environ), 0)


def told_size() -> int:
    """Give the number of processes that the launcher told this process; 1 if it told none."""
    return next((int(os.environ[name]) for name in SIZES if name in os.environ), 1)
