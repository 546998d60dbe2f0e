"""The rules of positions: at the ends of the integers, row after row; options that a fast kernel does not know."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers import close
from levels import each_level, run_at
from sweep import sweep

import qkv
from qkv.distributed.ring import Layout, Reach

FAR = sys.maxsize
CPP = Path(__file__).parents[2] / "cpp"
PROBLEM = CPP / "kernels" / "attention" / "problem.h"


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(4).standard_normal(shape)


def both_derivatives(window, **options):
    """Return output, gradients and second derivatives."""
    inputs = [qkv.tensor(normal(2, 5, 3), requires_grad=True) for _ in range(3)]
    y = qkv.scaled_dot_product_attention(*inputs, window=window, **options)
    first = qkv.grad((y * y).sum(), inputs, create_graph=True)
    second = qkv.grad(sum((g * g).sum() for g in first), inputs)
    return [np.asarray(x.detach()) for x in (y, *first, *second)]


@pytest.mark.parametrize("offset", [None, 3, -2])
def test_the_widest_window_is_no_window(offset):
    options = {"is_causal": True, "q_offset": offset}
    for wide in ((FAR, FAR), (FAR, -1), (-1, FAR)):
        for found, expected in zip(
            both_derivatives(wide, **options), both_derivatives(None, **options), strict=True
        ):
            assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize(("offset", "open_side"), [(FAR, 0), (-FAR - 1, 1)])
@pytest.mark.parametrize("unlimited", [True, False])
def test_no_position_overflows(offset, open_side, unlimited):
    window = [1, 1]
    window[open_side] = -1 if unlimited else 1
    found = both_derivatives(tuple(window), q_offset=offset)
    expected = both_derivatives(None) if unlimited else [np.zeros_like(x) for x in found]
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


@pytest.mark.parametrize("make", [qkv.nn.DotProductAttention, lambda **o: qkv.nn.AdditiveAttention(4, **o)])
def test_the_widest_window_of_layers_is_no_window(make):
    x = qkv.tensor(normal(2, 5, 3).astype("float32"), requires_grad=True)
    results = []
    for window in (None, (FAR, FAR)):
        qkv.manual_seed(0)
        y = make(window=window)(x, x, x)
        (g,) = qkv.grad((y * y).sum(), [x], create_graph=True)
        (h,) = qkv.grad((g * g).sum(), [x])
        results.append([np.asarray(t.detach()) for t in (y, g, h)])
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5)


COMPILER = next((path for name in ("c++", "g++", "clang++") if (path := shutil.which(name))), None)
ASKED = """
#include "problem.h"
using namespace qkv::kernels;
constexpr bool plain(bool asked) {
  AttentionProblem<float> p;
  p.unknown = asked;
  return is_plain(p);
}
static_assert(plain(false) && !plain(true));
"""


@pytest.mark.skipif(COMPILER is None, reason="no C++ compiler")
@pytest.mark.parametrize("struct", ["struct ProblemOptions", "struct KeyRules"])
def test_fast_kernels_step_aside_for_an_option_that_they_do_not_know(struct, tmp_path):
    for header in (PROBLEM, PROBLEM.with_name("key_rules.h")):
        before, found, after = header.read_text(encoding="utf8").partition(struct)
        if found:
            after = after.replace("{", "{\n  bool unknown = false;", 1)
        (tmp_path / header.name).write_text(
            (before + found + after).replace('"kernels/attention/key_rules.h"', '"key_rules.h"'),
            encoding="utf8",
        )
    (tmp_path / "asked.cpp").write_text(ASKED, encoding="utf8")
    run = subprocess.run(
        [COMPILER, "-std=c++20", "-fsyntax-only", f"-I{CPP}", "asked.cpp"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("window", [(-1, -1), (0, 0), (3, 1), (-1, 2), (4, FAR), (FAR, FAR)])
@sweep("offset", [0, -5, 4, FAR])
def test_ranks_exchange_the_keys_that_some_query_sees(causal, window, offset):
    ranks, queries, keys, longest = 3, 12, 17, 14
    reach = Reach((causal, *window), (offset, offset), longest, False)
    layout = Layout(ranks, queries, keys, False, reach)
    far = np.clip(offset, -(2**40), 2**40)
    options = {"q_offset": far, "window": tuple(min(n, 2**41) for n in window), "is_causal": causal}
    _, weights = qkv.reference.scaled_dot_product_attention(
        *(np.zeros((n, 1)) for n in (queries, keys, keys)), valid_lens=longest, return_weights=True, **options
    )
    for rank in range(ranks):
        for owner in range(ranks):
            expected = [
                (i, j)
                for i, rows in enumerate(layout.queries[rank])
                for j, columns in enumerate(layout.keys[owner])
                if weights[rows.begin : rows.end, columns.begin : columns.end].any()
            ]
            assert layout.pairs(rank, owner) == expected


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("queries", [3, 4, 13, 37, 70, 150])
def test_keys_that_end_one_row_after_the_other(queries, dtype):
    """Products leave out, vector by vector of rows, the keys that these may not see."""
    arrays = [normal(2, 2, n, 11).astype(dtype) for n in (queries, 150, 150)]
    lengths = np.sort(np.random.default_rng(3).integers(0, 151, (2, queries)), axis=1)
    tolerance = "same formula" if dtype == "float64" else "float32"
    for options in (
        {"is_causal": "lower_right"},
        {"valid_lens": lengths},
        {"is_causal": True, "window": (40, 0), "q_offset": [0, 60]},
    ):
        expected, expected_weights = qkv.reference.scaled_dot_product_attention(
            *arrays, **options, return_weights=True
        )
        output, weights = qkv.scaled_dot_product_attention(*arrays, **options, return_weights=True)
        close(output, expected, tolerance)
        close(weights, expected_weights, tolerance)
        assert qkv.scaled_dot_product_attention(*arrays, **options).tobytes() == output.tobytes()


@each_level()
def test_keys_that_end_one_row_after_the_other_at_every_level(level):
    done = run_at(
        level,
        "import test_attention_rules as t\n"
        "for dtype in ('float32', 'float64'):\n"
        "    for queries in (3, 4, 37, 70): t.test_keys_that_end_one_row_after_the_other(queries, dtype)",
    )
    assert done.returncode == 0, done.stderr
