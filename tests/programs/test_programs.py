"""Random programs do in `qkv.torch`, and in the core where the spelling is the same, what they do in PyTorch."""

from __future__ import annotations

import os

import pytest

import qkv.torch

from .causes import CAUSES, known
from .running import DIALECTS, EXEMPT, category, replay, run, shrunk
from .statements import KINDS

torch = pytest.importorskip("torch")

STATEMENTS = int(os.environ.get("QKV_PROGRAM_STATEMENTS", 2000))  # 30,000 before a release
FIRST = int(os.environ.get("QKV_PROGRAM_SEED", 0))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_programs_do_what_they_do_with_pytorch(dialect):
    summary = run(FIRST, STATEMENTS, dialect, known(dialect))
    print(f"\n{dialect}, seeds from {FIRST}\n{summary.text()}")
    for seed, result in summary.wrong.items():
        least = shrunk(result, dialect)
        pytest.fail(f"seed {seed}: {result.wrong}; the least program that shows it:\n{least.text()}")
    exempt = {name.removeprefix("exempt: ") for name in summary.counts if name.startswith("exempt: ")}
    assert exempt <= set(EXEMPT)
    assert sum(summary.refused.values()) < 0.1 * summary.counts["programs"], "a refusal is no answer"
    assert summary.counts["skipped"] < 0.2 * STATEMENTS, "most statements should be legal in PyTorch"


SHOWN = [(name, dialect) for name, cause in CAUSES.items() for dialect in cause.dialects]


@pytest.mark.xfail(raises=AssertionError, reason="known, by cause")
@pytest.mark.parametrize(("name", "dialect"), SHOWN)
def test_known_cause(name, dialect):
    result = replay(CAUSES[name].program.strip().split("\n"), dialect)
    assert "skipped" not in result.counts or pytest.fail("PyTorch refuses the program")
    assert category(result) == ""


def test_what_is_wrong_is_found_and_made_short(monkeypatch):
    monkeypatch.setattr(qkv.torch.Tensor, "mul_", lambda t, other: t)
    summary = run(0, 500, "qkv.torch", known("qkv.torch"))
    assert summary.wrong
    result = next(iter(summary.wrong.values()))
    least = shrunk(result, "qkv.torch")
    assert category(least) == category(result)
    assert len(least.lines) < len(result.lines)
    assert any("mul_" in line or "*=" in line for line in least.lines)


def test_each_kind_of_statement_is_new():
    assert len({kind.name for kind in KINDS}) == len(KINDS)
