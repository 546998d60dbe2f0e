"""When anything goes wrong on one rank, the job ends within seconds, and one line says on which rank and what.

Of a rank that ends without a word the launcher says it.
"""

from __future__ import annotations

import os
import re
import time

import pytest
from models.folders import TEXTS, make_folder

from ranks.mpi import Job, needs_mpi

pytestmark = needs_mpi
RANKS = 3
SECONDS = 30  # in which a job ends; on a machine that is busy with others, three times as many
WAITED = "2"  # seconds that a rank may keep others waiting
LATE = "did not come while"
REASONS = {
    "raise": "raised KeyError: 'no such word'",
    "sys_exit": "raised SystemExit: 5",
    "sys_exit_text": "raised SystemExit: no such file",
    "ends": f"{LATE}|raised SystemExit",
    **dict.fromkeys(("exit", "kill", "crash")),  # the launcher's to say
    "memory": r"raised MemoryError \(out of memory\)",
    **dict.fromkeys(("stop", "sleep", "loop", "loop_in_c"), LATE),
}
# job, moments, kinds; each kind fails at each moment on one rank, in turn
FAILURES = [
    ("raw", ["import"], ["raise", "sys_exit", "sys_exit_text", "exit", "kill", "crash", "memory"]),
    ("train", ["start", "inside"], list(REASONS)),
    ("train", ["evaluate", "between"], ["raise", "sys_exit", "ends", "kill", "sleep", "stop"]),
    ("attend", ["start", "inside"], list(REASONS)),
    ("attend", ["between"], ["raise", "ends", "kill", "sleep"]),
    ("language_model", ["inside"], ["raise", "ends", "kill", "loop_in_c"]),
    ("language_model", ["between"], ["raise", "sys_exit", "ends", "sleep"]),
    ("embed", ["start", "inside"], ["raise", "sys_exit", "exit", "kill", "sleep", "stop"]),
]
# job, in what a rank disagrees, what is said
DISAGREEMENTS = [
    ("train", "order", "the batch must be equal on all ranks"),
    ("train", "last batch", "the batch must be equal on all ranks"),
    ("train", "fewer batches", "the number of batches in an epoch must be equal"),
    ("train", "rate", "the optimizer must be equal"),
    ("train", "rate changes", "the learning rates must be equal"),
    ("train", "frozen", "frozen parameters must be equal"),
    ("train", "no comm", LATE),
    ("train", "fewer calls", LATE),
    ("train", "steps", "steps must be equal"),
    ("attend", "order", "is_causal must be equal"),
    ("attend", "length", "must hold"),
    ("attend", "no backward pass", "waits in attention"),
    ("attend", "fewer calls", LATE),
    ("language_model", "heads", "sizes .* must be equal"),
    ("language_model", "no comm", "waits in"),
    ("language_model", "ids", "the batch must be equal"),
    ("embed", "model", "model must be equal"),
    ("embed", "texts", "input must be equal"),
    ("embed", "output", "output must be equal"),
    ("embed", "option", "raised SystemExit: 2"),
    ("embed", "no texts", "source must exist"),
]
SAMPLE = {
    ("raw", "import", "sys_exit"),
    ("train", "start", "ends"),
    ("train", "inside", "loop_in_c"),
    ("train", "none", "frozen"),
    ("attend", "inside", "stop"),
    ("attend", "none", "fewer calls"),
    ("language_model", "none", "no comm"),
    ("embed", "none", "texts"),
}


def cases():
    table = [
        (job, at, kind, REASONS[kind]) for job, moments, kinds in FAILURES for at in moments for kind in kinds
    ]
    table += [(job, "none", kind, said) for job, kind, said in DISAGREEMENTS]
    for i, case in enumerate(table):
        job, at, kind, said = case
        marks = [] if (job, at, kind) in SAMPLE else [pytest.mark.slow]
        yield pytest.param(
            job, i % RANKS, at, kind, said, marks=marks, id=f"{job}-{at}-{kind}".replace(" ", "_")
        )


CASES = list(cases())


def test_the_table_is_large():
    assert len(CASES) >= 80
    assert sum(not case.marks for case in CASES) == len(SAMPLE)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("embed")
    for name in ("model", "other model"):
        (path / name).mkdir()
        make_folder(path / name)
    (path / "other model" / "more.json").write_text("{}")
    for name, times in (("texts.txt", 6), ("other.txt", 7)):
        (path / name).write_text("\n".join(TEXTS * times), encoding="utf8")
    return path


@pytest.mark.parametrize(("job", "rank", "at", "kind", "said"), CASES)
def test_it_ends_with_one_message(folder, job, rank, at, kind, said):
    if job == "embed":
        pytest.importorskip("safetensors")
        pytest.importorskip("tokenizers")
    if kind in ("crash", "memory") and "QKV_SANITIZER" in os.environ:
        pytest.skip("a sanitizer answers a crash itself, and with limited memory it cannot start")
    begin = time.monotonic()
    started = Job(RANKS, "disturbed.py", job, rank, at, kind, folder, QKV_TIMEOUT=WAITED)
    status, output, errors = started.wait(3 * SECONDS)
    assert status != 0, f"{output}\n{errors}"
    assert time.monotonic() - begin < SECONDS
    told = [line for line in errors.splitlines() if line.startswith("qkv: ") and "qkv: error:" not in line]
    if said is None:
        assert told == []
        return
    assert len(told) == 1, errors
    assert re.search(said, told[0]), errors
    assert f"rank {rank}" in told[0], errors


def test_a_job_that_nothing_disturbs_ends_well(folder):
    status, output, errors = Job(
        RANKS, "disturbed.py", "train", 0, "none", "none", folder, QKV_TIMEOUT=WAITED
    ).wait()
    assert status == 0, f"{output}\n{errors}"
