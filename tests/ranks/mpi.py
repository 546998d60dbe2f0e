"""Runs the programs of this folder on several ranks, in processes of their own, with a time limit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from qkv.distributed import starting

PROGRAMS = Path(__file__).parent / "programs"
TESTS = PROGRAMS.parents[1]
SECONDS = 300  # of a program of seconds, on a machine that is busy with others

try:
    MPIEXEC, MISSING = starting.find_mpiexec("tests"), ""
except ImportError as error:
    MPIEXEC, MISSING = "", str(error)
if os.environ.get("QKV_SANITIZER") == "thread":
    MPIEXEC, MISSING = (
        "",
        "MPICH's library ends with a segmentation fault under ThreadSanitizer, without qkv, too",
    )
needs_mpi = pytest.mark.skipif(not MPIEXEC, reason=MISSING)


def environment(**more):
    """More ranks than cores, one thread each; Open MPI wants to be told, too, that root may."""
    return {
        **starting.environment(1),
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "PYTHONPATH": os.pathsep.join(filter(None, [str(TESTS), os.environ.get("PYTHONPATH", "")])),
        **more,
    }


class Job:
    """A program under mpiexec, or without it for 0 ranks."""

    def __init__(self, ranks, program, *arguments, **more):
        path = PROGRAMS / program
        command = [sys.executable, str(path) if path.exists() else program, *map(str, arguments)]
        if ranks:
            command = [MPIEXEC, "-n", str(ranks), *command]
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
        """Return (status, output, errors); what takes too long is killed, and an error."""
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
