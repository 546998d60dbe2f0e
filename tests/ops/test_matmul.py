"""Products that are large enough to be packed: sizes that no tile, panel or part of the depth divides."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import close, same_bits_for_any_threads
from levels import each_level, run_at

import qkv


def product(m, k, n, dtype):
    """A product and its two gradients, each with what it should be."""
    rng = np.random.default_rng(0)
    a, b, dy = (rng.normal(size=shape).astype(dtype) for shape in ((m, k), (k, n), (m, n)))
    left, right = qkv.tensor(a, requires_grad=True), qkv.tensor(b, requires_grad=True)
    y = qkv.matmul(left, right)
    y.backward(dy)
    wider = (
        np.float64 if dtype == "float32" else np.longdouble
    )  # what it should be has no rounding of its own
    a, b, dy = (x.astype(wider) for x in (a, b, dy))
    return (y.numpy(), left.grad.numpy(), right.grad.numpy()), (a @ b, dy @ b.T, a.T @ dy), (k, n, m)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "shape", [(193, 1031, 67), (7, 4099, 149), (1021, 4099, 3), (3, 4099, 1021), (331, 131, 131)]
)
def test_large_products_and_their_gradients(shape, dtype):
    for result, expected, depth in zip(*product(*shape, dtype), strict=True):
        # Some times the rounding of a running sum of `depth` numbers of size 1, and far below one of them.
        np.testing.assert_allclose(result, expected, rtol=0, atol=8 * depth * np.finfo(dtype).eps)


@pytest.mark.parametrize("shape", [(193, 1031, 67), (7, 4099, 149)])
def test_equal_bits_for_any_number_of_threads(shape):
    same_bits_for_any_threads(lambda: product(*shape, "float32")[0])


@pytest.mark.parametrize("depth", [4096, 30_011])
def test_long_sums_lose_no_more_than_short_ones(depth):
    rng = np.random.default_rng(1)
    a, b = (rng.uniform(size=(depth, n)).astype("float32") for n in (64, 96))
    exact = a.T.astype("float64") @ b
    forward = qkv.matmul(np.ascontiguousarray(a.T), b)
    weight = qkv.tensor(np.zeros((64, 96), "float32"), requires_grad=True)
    (qkv.tensor(a) @ weight).backward(b)
    for result in (forward, weight.grad.numpy()):
        np.testing.assert_allclose(result, exact, rtol=2e-6)  # one running sum is off by 5e-6 and 1e-5


ONE_ROW = [
    (1, 1, 1),
    (1, 7, 1),
    (1, 5_003, 1),
    (1, 31, 67),
    (1, 1031, 2053),
    (1, 9001, 3),
    (61, 1031, 1),
    (5003, 3, 1),
]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", ONE_ROW)
def test_one_row_and_one_column(shape, dtype):
    for result, expected, depth in zip(*product(*shape, dtype), strict=True):
        np.testing.assert_allclose(result, expected, rtol=0, atol=8 * depth**0.5 * np.finfo(dtype).eps * 4)


def test_vectors_and_strided_operands():
    rng = np.random.default_rng(3)
    a, x, b = rng.standard_normal((37, 41)), rng.standard_normal(41), rng.standard_normal((41, 43))
    close(qkv.matmul(a, x), a @ x)
    close(qkv.matmul(x, b), x @ b)
    close(qkv.matmul(x, x), x @ x)
    close(qkv.matmul(a.T[::2].T, x[::2]), a[:, ::2] @ x[::2])
    close(qkv.matmul(np.zeros((0, 41)), x), np.zeros(0))
    close(qkv.matmul(np.zeros((3, 0)), np.zeros(0)), np.zeros(3))
    batch = rng.standard_normal((5, 1, 41))
    close(qkv.matmul(batch, b), batch @ b)
    close(qkv.matmul(batch, rng.standard_normal((5, 41, 1)) * 0 + x[:, None]), batch @ x[:, None])


def test_a_long_dot_loses_nothing():
    a, b = (np.random.default_rng(i).uniform(size=1_000_003).astype("float32") for i in (4, 5))
    np.testing.assert_allclose(qkv.matmul(a, b), a.astype("float64") @ b, rtol=2e-7)
    same_bits_for_any_threads(lambda: [qkv.matmul(a, b), qkv.matmul(b[:2053], np.outer(b[:2053], a[:1031]))])


AT_A_LEVEL = """
import numpy as np
import qkv

rng = np.random.default_rng(0)
for dtype, tolerance in (("float32", 2e-6), ("float64", 1e-14)):
    for m, k, n in ((1, 3, 5), (1, 257, 61), (1, 1031, 2063), (67, 1031, 1), (13, 5, 1), (1, 4099, 1)):
        a, b = rng.standard_normal((m, k)).astype(dtype), rng.standard_normal((k, n)).astype(dtype)
        exact, size = a.astype("float64") @ b, np.abs(a).astype("float64") @ np.abs(b)
        assert (np.abs(qkv.matmul(a, b) - exact) <= tolerance * size).all()
        weight, bias = qkv.tensor(np.ascontiguousarray(b.T), requires_grad=True), np.ones(n, dtype)
        layer = qkv.nn.Linear(k, n).to(dtype)
        layer.weight.copy_(weight.detach())
        layer.bias.copy_(bias)
        assert (np.abs(layer(a).numpy() - exact - 1) <= tolerance * (size + 1)).all()
    spoilt = a.copy()
    spoilt[0, 77] = np.nan
    assert np.isnan(qkv.matmul(spoilt, b)).all()
"""


@each_level()
def test_one_row_and_one_column_at_every_level(level):
    done = run_at(level, AT_A_LEVEL)
    assert done.returncode == 0, done.stderr
