"""A rank that fails ends the job within seconds, with one message that names it."""

from __future__ import annotations

import re
import time

import pytest

from ranks.mpi import Job, needs_mpi

REASONS = {
    "raise": "raised KeyError: 'no such word'",
    "system_exit": "raised SystemExit: 5",
    "exit": r"(ended with status 3|was killed or ended) without a word",
    "kill": r"was killed",
    "crash": r"was killed",
    "memory": r"raised MemoryError \(out of memory\)",
    "infinite": "raised FloatingPointError: Trainer.fit: the loss must be finite",
    "outside": "raised RuntimeError: outside of the training",
}


@needs_mpi
@pytest.mark.parametrize(
    ("kind", "ranks", "rank"), [(kind, 2 + 2 * (i % 2), 1) for i, kind in enumerate(REASONS)]
)
def test_the_rank_and_the_reason_are_named_once(kind, ranks, rank):
    job = Job(ranks, "failing.py", kind, rank)
    status, _, errors = job.wait(60)
    assert status != 0
    told = [line for line in errors.splitlines() if line.startswith("qkv: ")]
    assert len(told) == 1, errors
    assert re.match(rf"qkv: rank {rank} of {ranks} \(process \d+ on \S+\) {REASONS[kind]}", told[0]), errors
    assert errors.count("Traceback") == (kind not in ("exit", "kill", "crash")), errors


@needs_mpi
def test_a_stopped_job_leaves_nothing_behind():
    job = Job(2, "failing.py", "stop", 0)
    time.sleep(3)
    job.process.terminate()
    status, _, _ = job.wait(30)
    assert status != 0
