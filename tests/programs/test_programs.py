"""Random programs print the same with `qkv.torch` as with PyTorch."""

from __future__ import annotations

import os

import pytest

import qkv.torch as ours

from .run import EXEMPT, fuzz

torch = pytest.importorskip("torch")

STATEMENTS = int(os.environ.get("QKV_PROGRAM_STATEMENTS", 2000))  # 30000 before a release
FIRST = int(os.environ.get("QKV_PROGRAM_SEED", 0))


@pytest.fixture
def double_precision():
    for library in (torch, ours):
        library.set_default_dtype(library.float64)
    yield
    for library in (torch, ours):
        library.set_default_dtype(library.float32)


@pytest.mark.usefixtures("double_precision")
def test_programs_do_what_they_do_with_pytorch():
    counts = fuzz(FIRST, STATEMENTS, torch, ours)
    print(dict(counts))
    assert counts["statements"] >= STATEMENTS
    assert counts["gradients"] > 0.6 * counts["programs"]
    exempt = {name.removeprefix("exempt: ") for name in counts if name.startswith("exempt: ")}
    assert exempt <= set(EXEMPT)
    assert sum(counts[f"exempt: {name}"] for name in exempt) < 0.1 * counts["programs"]
