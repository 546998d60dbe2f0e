"""Starting programs on several ranks of this machine, more of them than it has cores if need be."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys

from .launch import INSTALL

# Who waits leaves its core to others, and Open MPI is told that more ranks than cores are meant.
VARIABLES = {
    "MPIR_CVAR_POLLS_BEFORE_YIELD": "1",
    "OMPI_MCA_mpi_yield_when_idle": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
}


def find_mpiexec(operation: str) -> str:
    """Return the launcher of MPI: what the variable MPIEXEC names, or what is beside Python or on the path.

    Raises
    ------
    ImportError
        If `mpi4py` or a launcher is missing.
    """
    beside = os.path.dirname(sys.executable)
    path = os.pathsep.join([beside, os.environ.get("PATH", "")])
    found = os.environ.get("MPIEXEC") or shutil.which("mpiexec", path=path)
    missing = "mpi4py" if importlib.util.find_spec("mpi4py") is None else "mpiexec" if found is None else None
    if missing is not None or found is None:
        raise ImportError(f"{operation}: {missing} must be installed to start several processes; {INSTALL}")
    return found


def environment(threads: int) -> dict[str, str]:
    """Return the environment of ranks with so many threads each."""
    return {**VARIABLES, **os.environ, "QKV_NUM_THREADS": str(threads)}
