"""Runs the programs of this folder on several ranks, in processes of their own, with a time limit."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parent / "programs"
TESTS = PROGRAMS.parents[1]
SECONDS = 300  # of a program of seconds, on a machine that is busy with others

BESIDE_PYTHON = os.path.dirname(sys.executable)
MPIEXEC = os.environ.get("MPIEXEC") or shutil.which(
    "mpiexec", path=os.pathsep.join([BESIDE_PYTHON, os.environ.get("PATH", "")])
)
MISSING = (
    "mpi4py is not installed"
    if importlib.util.find_spec("mpi4py") is None
    else "there is no mpiexec"
    if MPIEXEC is None
    else None
)
needs_mpi = pytest.mark.skipif(MISSING is not None, reason=f'{MISSING}; pip install "qkv[distributed]" mpich')


def environment(**more):
    """More ranks than cores, one thread each; and Open MPI wants to be told that this is meant, and that root may."""
    return {
        **os.environ,
        "QKV_NUM_THREADS": "1",
        "MPIR_CVAR_POLLS_BEFORE_YIELD": "1",  # MPICH: who waits leaves the core to others
        "OMPI_MCA_mpi_yield_when_idle": "1",
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_rmaps_base_oversubscribe": "1",
        "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
        "PYTHONPATH": os.pathsep.join(filter(None, [str(TESTS), os.environ.get("PYTHONPATH", "")])),
        **more,
    }


class Job:
    """A program under mpiexec, or without it for 0 ranks."""

    def __init__(self, ranks, program, *arguments, **more):
        path = PROGRAMS / program
        command = [sys.executable, str(path) if path.exists() else program, *map(str, arguments)]
        if ranks:
            command = [str(MPIEXEC), "-n", str(ranks), *command]
        self.begin = time.monotonic()
        self.process = subprocess.Popen(
            command,
            env=environment(**more),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def wait(self, seconds=SECONDS):
        """Give (status, output, errors); what takes too long is killed, and an error."""
        try:
            output, errors = self.process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            output, errors = self.process.communicate()
            raise AssertionError(f"the job did not end in {seconds} s\n{output}\n{errors}") from None
        return self.process.returncode, output, errors


def run(ranks, program, *arguments, seconds=SECONDS, **more):
    """Run a program to its end, which must be a success; give what it printed."""
    status, output, errors = Job(ranks, program, *arguments, **more).wait(seconds)
    assert status == 0, f"status {status}\n{output}\n{errors}"
    return output


def fails(ranks, program, *arguments, seconds=SECONDS, **more):
    """Run a program that must fail; give what it said."""
    status, output, errors = Job(ranks, program, *arguments, **more).wait(seconds)
    assert status != 0, f"it ended well\n{output}\n{errors}"
    return errors
