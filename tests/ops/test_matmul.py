"""Products that are large enough to be packed: sizes that no tile, panel or part of the depth divides."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import same_bits_for_any_threads

import qkv


def product(m, k, n, dtype):
    """A product and its two gradients, each with what it should be."""
    rng = np.random.default_rng(0)
    a, b, dy = (rng.normal(size=shape).astype(dtype) for shape in ((m, k), (k, n), (m, n)))
    left, right = qkv.tensor(a, requires_grad=True), qkv.tensor(b, requires_grad=True)
    y = qkv.matmul(left, right)
    y.backward(dy)
    a, b, dy = (x.astype("float64") for x in (a, b, dy))
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
