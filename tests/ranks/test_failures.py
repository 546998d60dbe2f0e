"""A rank that fails ends the job within seconds, with one message that names it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time

import pytest

from qkv.distributed import failure
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


RANK = """
import os, sys, time
from qkv.distributed import failure
os.environ["PMI_RANK"], os.environ["PMI_SIZE"] = sys.argv[1], "2"
failure.connect()
print(failure._process.pid if failure._process else 0, flush=True)
time.sleep(60)
"""


@pytest.fixture
def watched(request):
    """Give two processes that are watched like ranks, without a launcher, and the process that watches them."""
    ranks, started = [], []
    environment = {**os.environ, "SLURM_JOB_ID": f"{os.getpid()}-{request.node.name}"}
    try:
        for number in range(2):
            command = [sys.executable, "-c", RANK, str(number)]
            ranks.append(
                subprocess.Popen(
                    command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
                )
            )
            started.append(int(ranks[-1].stdout.readline()))
        assert started[0] != 0
        assert started[1] == 0
        yield ranks, started[0]
    finally:
        for rank in ranks:
            rank.kill()
            with rank:
                pass


@pytest.mark.skipif(sys.platform != "linux", reason="other systems need not tell events in their order")
def test_the_first_to_end_is_told_however_late_the_news(watched):
    ranks, sentinel = watched
    os.kill(sentinel, signal.SIGSTOP)
    for rank in reversed(ranks):
        rank.kill()
        rank.wait()
    os.kill(sentinel, signal.SIGCONT)
    errors = ranks[0].stderr.read()
    assert errors.startswith("qkv: rank 1 of 2 "), errors
    assert errors.count("\n") == 1


@pytest.mark.skipif(sys.platform != "linux", reason="needs the status of a process that is no child")
def test_ranks_that_the_launcher_leaves_are_ended(watched):
    ranks, _ = watched
    ranks[1].kill()
    assert ranks[0].wait(30) == -signal.SIGKILL


@pytest.mark.skipif(sys.platform == "win32", reason="pipes are read otherwise")
def test_who_ends_the_job_waits_until_its_message_was_read():
    reader, writer = os.pipe()
    os.write(writer, b"message")
    read = []
    thread = threading.Timer(0.3, lambda: read.append(os.read(reader, 64)))
    thread.start()
    try:
        failure.await_reader(writer)
        assert read == [b"message"]
    finally:
        thread.join()
        os.close(reader)
        os.close(writer)
