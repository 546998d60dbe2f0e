"""A rank that fails ends the job within seconds, with one line that names it unless a signal killed it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time

import pytest

from ranks.mpi import Job, environment, needs_mpi

REASONS = {
    "raise": "raised KeyError: 'no such word'",
    "system_exit": "raised SystemExit: 5",
    **dict.fromkeys(("exit", "kill", "crash")),  # which is the launcher's to say
    "memory": r"raised MemoryError \(out of memory\)",
    "infinite": "raised FloatingPointError: Trainer.fit: the loss must be finite",
    "outside": "raised RuntimeError: outside of the training",
}


def lines_of(errors):
    return [line for line in errors.splitlines() if line.startswith("qkv: ")]


@needs_mpi
@pytest.mark.parametrize(
    ("kind", "ranks", "rank"),
    [
        pytest.param(kind, 2 + 2 * (i % 2), 1, marks=[] if kind in ("raise", "kill") else pytest.mark.slow)
        for i, kind in enumerate(REASONS)
    ],
)
def test_the_rank_and_the_reason_are_named_once(kind, ranks, rank):
    if kind in ("crash", "memory") and "QKV_SANITIZER" in os.environ:
        pytest.skip("a sanitizer answers a crash itself, and with limited memory it cannot start")
    job = Job(ranks, "failing.py", kind, rank)
    status, _, errors = job.wait(30)
    assert status != 0
    told = lines_of(errors)
    if REASONS[kind] is None:
        assert told == []
        return
    assert len(told) == 1, errors
    assert re.match(rf"qkv: rank {rank} of {ranks} \(process \d+ on \S+\) {REASONS[kind]}", told[0]), errors
    assert errors.count("Traceback") == 1, errors


@needs_mpi
def test_a_stopped_job_leaves_nothing_behind():
    job = Job(2, "failing.py", "stop", 0)
    time.sleep(3)
    job.process.terminate()
    status, _, _ = job.wait(30)
    assert status != 0


ALIKE = {
    "errors of their own": ("open('missing')", "rank 0 of 4 .* raised FileNotFoundError: .*missing"),
    "statuses": ("sys.exit(7)", "rank 0 of 4 .* raised SystemExit: 7"),
    "an error that they agree on": (
        "distributed.attention(*[qkv.randn(1, 3, 4)] * 3, comm, attn_mask=[1])",
        "all 4 ranks raised TypeError: attention: attn_mask must be boolean",
    ),
}


@needs_mpi
@pytest.mark.parametrize("name", ALIKE)
def test_ranks_that_fail_alike_are_told_once(name):
    call, said = ALIKE[name]
    program = f"import sys, qkv; from qkv import distributed; comm = distributed.launch.world(); {call}"
    status, _, errors = Job(4, "-c", program).wait(30)
    assert status != 0
    assert len(lines_of(errors)) == 1, errors
    assert re.match(f"qkv: {said}", lines_of(errors)[0]), errors


# What rank 1 does where nobody waits for it in functions of qkv, and what is said.
ENDS = {
    "raise": ("raise KeyError('no such word')", "raised KeyError: 'no such word'; the job ends"),
    "sys.exit": ("sys.exit(5)", "raised SystemExit: 5; the job ends"),
    "sys.exit with a text": ("sys.exit('no file')", "raised SystemExit: no file; the job ends"),
    "sys.exit in a function": ("(lambda: sys.exit(5))()", "raised SystemExit: 5; the job ends"),
    "an option that there is not": (
        "import argparse; argparse.ArgumentParser().parse_args(['--bogus'])",
        "raised SystemExit: 2; the job ends",
    ),
}


@needs_mpi
@pytest.mark.parametrize("name", ENDS)
def test_a_failure_while_others_wait_in_calls_of_their_own(name, tmp_path):
    call, said = ENDS[name]
    program = tmp_path / "job.py"
    program.write_text(
        "import sys\nfrom mpi4py import MPI\nfrom qkv import distributed\n"
        f"if distributed.rank() == 1:\n    {call}\nMPI.COMM_WORLD.Barrier()\n"
    )
    status, _, errors = Job(3, str(program)).wait(30)
    assert status != 0
    assert len(lines_of(errors)) == 1, errors
    assert re.fullmatch(rf"qkv: rank 1 of 3 \(process \d+ on \S+\) {said}", lines_of(errors)[0]), errors


CAUGHT = """
import contextlib, multiprocessing, sys, threading
from qkv import distributed

distributed.rank()
assert sys.exit.__doc__
for status in (5, "text", (1, 2)):
    try:
        sys.exit(status)
    except SystemExit as error:
        assert error.code == status, error.code
        error.code = 0
        assert error.code == 0
with contextlib.suppress(SystemExit):
    sys.exit(5)
thread = threading.Thread(target=sys.exit, args=(5,))  # ends the thread alone, without a word
thread.start()
thread.join()
child = multiprocessing.get_context("fork").Process(target=sys.exit, args=(6,))
child.start()
child.join()
assert child.exitcode == 6
sys.exit(0)
"""


@needs_mpi
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_an_exit_that_is_caught_or_not_of_the_rank_ends_nothing():
    status, output, errors = Job(2, "-c", CAUGHT).wait(60)
    assert (status, output, errors) == (0, "", "")


NOTHING = """
import os, subprocess, sys, threading, time

def state():
    return sys.excepthook, sys.exit, threading.active_count(), children()

def children():
    return open(f"/proc/self/task/{os.getpid()}/children").read() if sys.platform == "linux" else ""

before = state()
import qkv.distributed
try:
    qkv.nn.Lineer
except AttributeError:
    pass
assert state() == before
assert "mpi4py" not in sys.modules
qkv.distributed.positions(5, None)
assert state() == before
"""


@pytest.mark.parametrize("launched", [{}, {"PMI_RANK": "0", "PMI_SIZE": "2"}])
def test_nothing_starts_before_a_communicator_is_asked_for(launched):
    found = subprocess.run(
        [sys.executable, "-c", NOTHING], env=environment(**launched), capture_output=True, text=True
    )
    assert found.returncode == 0, found.stderr


@needs_mpi
def test_it_begins_with_a_communicator_of_several_ranks():
    program = (
        "import sys; before = sys.excepthook, sys.exit; import qkv; "
        "assert qkv.distributed.rank() < qkv.distributed.size(); "
        "assert ((sys.excepthook, sys.exit) == before) == (qkv.distributed.size() == 1)"
    )
    for ranks in (1, 2):
        status, _, errors = Job(ranks, "-c", program).wait(60)
        assert status == 0, errors


@needs_mpi
@pytest.mark.parametrize("call", ["open('missing')", "raise SystemExit(3)", "exit(3)"])
def test_mpi4py_ends_what_fails_before_a_communicator_is_asked_for(call, tmp_path):
    program = tmp_path / "job.py"
    program.write_text(
        "from mpi4py import MPI\nfrom qkv import distributed\n"
        f"if MPI.COMM_WORLD.rank == 1:\n    {call}\ndistributed.rank()\nMPI.COMM_WORLD.Barrier()\n"
    )
    status, _, errors = Job(3, "-m", "mpi4py", str(program)).wait(30)
    assert status != 0
    assert lines_of(errors) == []
