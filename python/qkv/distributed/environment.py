"""What a launcher tells each process, which needs no MPI to be read."""

from __future__ import annotations

import os
from contextlib import suppress

# What the launchers of MPICH, Intel MPI and Microsoft MPI, Open MPI, MVAPICH, Cray and PMIx tell each process.
RANKS = ("PMI_RANK", "OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK", "PALS_RANKID", "PMIX_RANK")
SIZES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE")
SLURM_SIZE = "SLURM_STEP_NUM_TASKS"  # of a step of srun, whether or not it speaks to a library of MPI
# What names the job on a machine, if the launcher says it; otherwise the process that started all ranks here.
JOBS = ("PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "SLURM_STEP_ID")
LONGEST_KEY = 80  # letters; the name of a socket has room for about 100


def _told(names: tuple[str, ...], otherwise: int) -> int:
    return next((int(os.environ[name]) for name in names if name in os.environ), otherwise)


def launched() -> bool:
    """Say whether a launcher of MPI started this process."""
    return any(name in os.environ for name in RANKS)


def told_rank() -> int:
    """Give the rank that the launcher told this process, without MPI; 0 without a launcher."""
    return _told(RANKS, 0)


def told_size() -> int:
    """Give the number of processes that the launcher told this process; 1 if it told none."""
    return _told((*SIZES, SLURM_SIZE) if launched() else SIZES, 1)


def slurm_size() -> int:
    """Give the number of processes that srun started without telling them of MPI; 1 if it did not."""
    return 1 if launched() else _told((SLURM_SIZE,), 1)


def job_key() -> str:
    """Give what the ranks of this job on this machine have in common."""
    told = [os.environ[name] for name in JOBS if os.environ.get(name)] or [str(_launcher())]
    text = "-".join([os.environ.get("SLURM_JOB_ID", "0"), *told])
    return "".join(c if c.isalnum() or c in "-_." else "_" for c in text)[-LONGEST_KEY:]


def _launcher() -> int:
    """Give the nearest process above this one, and above shells between them, that was told no rank itself."""
    process = os.getppid()
    names = [f"{name}=".encode() for name in RANKS]
    with suppress(OSError, ValueError):  # systems without /proc, and processes of others
        while process > 1:
            with open(f"/proc/{process}/environ", "rb") as file:
                if not any(entry.startswith(name) for entry in file.read().split(b"\0") for name in names):
                    break
            with open(f"/proc/{process}/stat", "rb") as file:
                process = int(file.read().rpartition(b")")[2].split()[1])
    return process
