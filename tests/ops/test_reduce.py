"""Reductions over every choice of axes, and the functions of an axis, at each instruction-set level."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from helpers import close, same_bits_for_any_threads
from levels import each_level, run_at

import qkv
from qkv.testing import check_gradient

NAN, INF = np.nan, np.inf
REDUCTIONS = {
    "sum": lambda x, axis, keep: x.sum(axis, keepdims=keep),
    "mean": lambda x, axis, keep: x.mean(axis, keepdims=keep),
    "max": lambda x, axis, keep: x.max(axis, keepdims=keep),
}


def logsumexp(x, axis=None, keepdims=False):
    x = np.asarray(x, np.float64)
    with np.errstate(all="ignore"):
        top = x.max(axis, keepdims=True, initial=-INF)
        y = np.log(np.exp(x - np.where(np.isfinite(top), top, 0)).sum(axis, keepdims=True))
        y = np.where(np.isfinite(top), y + top, top)
    return y if keepdims else y.reshape(x.sum(axis).shape)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(7, 5, 3, 11), (1, 13, 1, 5), (67, 1, 71), (2, 1031), (1031, 2), (641, 7)])
def test_every_choice_of_axes(shape, dtype):
    x = np.random.default_rng(0).standard_normal(shape).astype(dtype)
    for count in range(len(shape) + 1):
        for axes in itertools.combinations(range(len(shape)), count):
            for f in REDUCTIONS.values():
                for keep in (False, True):
                    y = f(qkv.tensor(x), axes, keep)
                    expected = f(x.astype("float64"), axes, keep)
                    assert y.shape == expected.shape
                    close(y, expected, "float32 deep" if dtype == "float32" else "float64")
            y = qkv.logsumexp(x, axes)
            close(y, logsumexp(x, axes), "float32 deep" if dtype == "float32" else "float64")


def test_no_axes_give_a_copy():
    x = qkv.tensor(np.arange(5.0))
    y = x.sum(())
    y += 1
    np.testing.assert_array_equal(x.numpy(), np.arange(5.0))


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (5, 0, 7)])
def test_empty_axes(shape):
    x = np.zeros(shape, "float32")
    for axis in range(len(shape)):
        np.testing.assert_array_equal(qkv.tensor(x).sum(axis).numpy(), x.sum(axis))
        if shape[axis] == 0:
            assert (np.asarray(qkv.logsumexp(x, axis)) == -INF).all()
            with pytest.raises(ValueError, match="max: x must have at least one number"):
                qkv.tensor(x).max(axis)


def test_long_columns_lose_no_more_than_long_rows():
    x = np.random.default_rng(1).uniform(size=(60_013, 3)).astype("float32")
    exact = x.astype("float64").sum(0)
    for y in (qkv.tensor(x).sum(0), qkv.tensor(np.ascontiguousarray(x.T)).sum(1)):
        np.testing.assert_allclose(y.numpy(), exact, rtol=2e-6)


def test_the_same_bits_for_any_number_of_threads():
    x = qkv.tensor(np.random.default_rng(2).standard_normal((61, 67, 71)).astype("float32"))
    same_bits_for_any_threads(
        lambda: [x.sum(axis).numpy() for axis in (None, 0, 1, 2, (0, 2))] + [qkv.logsumexp(x, 0).numpy()]
    )


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("f", [qkv.softmax, qkv.log_softmax, qkv.logsumexp], ids=lambda f: f.__name__)
def test_gradients_along_every_axis(f, axis):
    check_gradient(lambda x: f(x, axis), np.random.default_rng(3).standard_normal((3, 5, 7)))


# Sizes around the lengths of vectors, blocks of columns and rows taken together; NaN and infinities anywhere.
PROGRAM = """
import numpy as np
import qkv
from test_reduce import logsumexp

assert qkv.config()["instruction_set"] == LEVEL
NAN, INF = np.nan, np.inf
rng = np.random.default_rng(0)

def softmax(x, axis):
    with np.errstate(all="ignore"):
        e = np.exp(x - x.max(axis, keepdims=True))
        return e / e.sum(axis, keepdims=True)

for dtype, tolerance in (("float32", 3e-6), ("float64", 1e-13)):
    for rows, columns in ((1, 1), (2, 3), (3, 17), (17, 2), (31, 37), (5, 1031), (1031, 5), (67, 2053), (257, 71)):
        x = rng.standard_normal((rows, columns)).astype(dtype)
        wide = x.astype("float64")
        t = qkv.tensor(x)
        for axis in (0, 1):
            n = x.shape[axis]
            np.testing.assert_allclose(t.sum(axis).numpy(), wide.sum(axis), rtol=0, atol=tolerance * n)
            np.testing.assert_array_equal(t.max(axis).numpy(), x.max(axis))
            np.testing.assert_allclose(qkv.logsumexp(x, axis), logsumexp(wide, axis), rtol=0, atol=2 * tolerance)
            np.testing.assert_allclose(qkv.softmax(x, axis), softmax(wide, axis), rtol=0, atol=tolerance)
            np.testing.assert_allclose(qkv.log_softmax(x, axis), np.log(softmax(wide, axis)), rtol=0,
                                       atol=4 * tolerance)
        np.testing.assert_array_equal(t.max().numpy(), x.max())
        for value in (NAN, INF, -INF):
            spoilt = x.copy()
            row, column = rng.integers(rows), rng.integers(columns)
            spoilt[row, column] = value
            t = qkv.tensor(spoilt)
            for axis in (0, 1):
                with np.errstate(all="ignore"):
                    np.testing.assert_array_equal(t.max(axis).numpy(), spoilt.max(axis))
                    found = np.asarray(qkv.logsumexp(spoilt, axis), "float64")
                    np.testing.assert_allclose(found, logsumexp(spoilt, axis), rtol=0, atol=2 * tolerance)
                    expected = softmax(spoilt.astype("float64"), axis)
                    np.testing.assert_allclose(qkv.softmax(spoilt, axis), expected, rtol=0, atol=tolerance)
        only = np.full((rows, columns), -INF, dtype)
        assert (qkv.logsumexp(only, 0) == -INF).all() and (qkv.logsumexp(only, 1) == -INF).all()
    x = rng.standard_normal(100_003).astype(dtype)
    x[77_777] = NAN
    assert np.isnan(qkv.tensor(x).max().numpy()) and np.isnan(qkv.tensor(x).sum().numpy())
"""


@each_level()
def test_rows_and_columns_at_every_level(level):
    done = run_at(level, f"LEVEL = {level!r}\n" + PROGRAM)
    assert done.returncode == 0, done.stderr
