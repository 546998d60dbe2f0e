"""Dropout, drawn and with a given mask."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from helpers import close, gradients, layouts, same_bits_for_any_threads

import qkv
from qkv import _core
from qkv.testing import check_gradient


def drop(x, p, rng=None):
    return _core.dropout(x, p, rng)


def test_the_mask_is_that_of_bernoulli():
    x = np.random.default_rng(0).normal(size=(5, 7))
    keep = qkv.bernoulli(1 - 0.3, (5, 7), rng=qkv.Generator(11))
    for dtype in ("float32", "float64"):
        y = drop(x.astype(dtype), 0.3, qkv.Generator(11))
        assert y.dtype == dtype
        close(y, x * np.asarray(keep) / 0.7, "float32")
    qkv.manual_seed(5)
    first = drop(x, 0.3)
    qkv.manual_seed(5)
    assert (drop(x, 0.3) == first).all()
    assert (drop(x, 0.3) != first).any()


def test_nothing_is_drawn_at_the_ends():
    rng, untouched = qkv.Generator(3), qkv.Generator(3)
    x = np.array([1.0, -2.0, np.nan])
    assert drop(x, 0.0, rng).tolist()[:2] == [1.0, -2.0]
    gone = drop(x, 1.0, rng)
    assert (gone[:2] == 0).all()
    assert np.isnan(gone[2])
    assert rng.random64() == untouched.random64()


def test_the_gradient_goes_where_the_mask_is():
    x = np.random.default_rng(0).normal(size=(31, 37)).astype("f4")
    y, dx = gradients(lambda t: drop(t, 0.5, qkv.Generator(2)), x)
    dy = np.random.default_rng(99).standard_normal(x.shape).astype("f4")
    close(dx, np.where(y != 0, 2 * dy, 0), "float32")
    assert 0.4 < (y != 0).mean() < 0.6
    check_gradient(lambda t: drop(t, 0.5, qkv.Generator(2)), x.astype("f8"))


def test_given_mask():
    x = np.random.default_rng(0).normal(size=(2, 3, 5))
    keep = np.random.default_rng(1).random((3, 5)) < 0.6
    expected = x * keep / 0.75
    close(_core.dropout_with_mask(x, keep, 0.25), expected)
    close(_core.dropout_with_mask(x, np.broadcast_to(keep, x.shape), 0.25), expected)
    for variant in layouts(x):
        close(_core.dropout_with_mask(variant, keep, 0.25), expected)
    check_gradient(lambda t: _core.dropout_with_mask(t, keep, 0.25), x)
    assert (_core.dropout_with_mask(x, keep, 1.0) == 0).all()
    assert _core.dropout_with_mask(np.zeros((0, 5)), keep[:1], 0.5).shape == (0, 5)


def test_rejections():
    for p in (-0.1, 1.5, np.nan):
        with pytest.raises(
            ValueError, match=r"^dropout: p must be in 0\.\.1 because it is a probability; got p = "
        ):
            drop([1.0], p)
    with pytest.raises(ValueError, match=r"dropout: keep must broadcast to x \(2, 3\); got keep \(2,\)"):
        _core.dropout_with_mask(np.zeros((2, 3)), np.ones(2, bool), 0.5)
    with pytest.raises(TypeError, match="dropout: keep must be boolean"):
        _core.dropout_with_mask(np.zeros((2, 3)), np.ones((2, 3)), 0.5)


def test_any_number_of_threads():
    x = np.random.default_rng(0).normal(size=100_003).astype("f4")
    same_bits_for_any_threads(lambda: gradients(lambda t: drop(t, 0.4, qkv.Generator(1)), x))


VECTORS = [
    case
    for case in json.loads((Path(__file__).parents[1] / "data" / "rng_vectors.json").read_text())["cases"]
    if case["fn"] == "dropout_mask"
]


@pytest.mark.parametrize("case", VECTORS, ids=lambda case: f"seed{case['seed']}-p{case['args']['p']}")
def test_recorded_masks(case):
    ones = np.ones(case["args"]["n"])
    kept = drop(ones, case["args"]["p"], qkv.Generator(case["seed"])) != 0
    assert kept.astype(int).tolist() == case["values"]
