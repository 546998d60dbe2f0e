"""Running sums and products: as exact as their numbers, along every axis, forwards and in gradients."""

import numpy as np
import pytest
from levels import each_level, run_at

import qkv
import qkv.torch as torch

RNG = np.random.default_rng(0)
# (outer, n, inner): a column, narrow and wide blocks of columns, some of them not whole.
SHAPES = [
    (1, 40007, 1),
    (3, 5003, 1),
    (1, 5003, 2),
    (2, 3001, 7),
    (1, 2003, 17),
    (2, 301, 1031),
    (1, 7, 4099),
]


@pytest.mark.parametrize("shape", SHAPES)
def test_sums_are_those_of_float64(shape):
    x = RNG.uniform(0, 1, shape).astype("f4")
    expected = x.astype("f8").cumsum(1)
    np.testing.assert_allclose(qkv.cumsum(x, 1), expected, rtol=1e-7)
    products = (1 + x * 1e-4).astype("f4")
    np.testing.assert_allclose(qkv.cumprod(products, 1), products.astype("f8").cumprod(1), rtol=1e-7)
    double = x.astype("f8")
    np.testing.assert_allclose(qkv.cumsum(double, 1), expected, rtol=1e-12)
    np.testing.assert_allclose(qkv.cumprod(1 + double * 1e-4, 1), (1 + double * 1e-4).cumprod(1), rtol=1e-12)


@pytest.mark.parametrize("shape", SHAPES)
def test_gradients_are_those_of_float64(shape):
    x = qkv.tensor(RNG.uniform(0.99, 1.01, shape).astype("f4"), requires_grad=True)
    dy = RNG.uniform(0, 1, shape).astype("f4")
    (dx,) = qkv.grad((qkv.cumsum(x, 1) * dy).sum(), [x])
    np.testing.assert_allclose(dx.numpy(), dy[:, ::-1].astype("f8").cumsum(1)[:, ::-1], rtol=1e-6)
    (dx,) = qkv.grad((qkv.cumprod(x, 1) * dy).sum(), [x])
    values = x.numpy().astype("f8")
    rest = (values.cumprod(1) * dy)[:, ::-1].cumsum(1)[:, ::-1] / values
    np.testing.assert_allclose(dx.numpy(), rest, rtol=2e-5)


def test_the_documented_sums():
    assert torch.full((1000000,), 0.1).cumsum(0)[-1] == pytest.approx(100000, rel=1e-7)
    assert qkv.cumsum(np.full(151936, 1 / 151936, np.float32))[-1] == pytest.approx(1, rel=1e-7)
    x = torch.ones(1000000, requires_grad=True)
    x.cumsum(0).mul(0.1).sum().backward()
    assert x.grad[0] == pytest.approx(100000, rel=1e-6)
    assert qkv.cumprod(np.full((2, 1000000), 1.000001, "f4"), 1)[:, -1] == pytest.approx(2.597, rel=1e-3)


def test_products_come_back_into_range():
    x = np.array([1e30, 1e30, 1e-30, 1e-30], "f4")
    np.testing.assert_allclose(qkv.cumprod(x), [1e30, np.inf, 1e30, 1], rtol=1e-5)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("inner", [1, 3, 19])
def test_first_entries_are_kept_as_they_are(dtype, inner):
    x = np.full((1, 5, inner), -0.0, dtype)
    x[0, 3] = [np.inf, np.nan, 1][: min(inner, 3)] + [2] * (inner - min(inner, 3))
    for f in (qkv.cumsum, qkv.cumprod):
        y = f(x, 1)
        assert np.signbit(y[:, 0]).all()
        with np.errstate(invalid="ignore"):
            np.testing.assert_array_equal(y, getattr(np, f.__name__)(x, 1))


@each_level()
def test_every_level(level):
    program = """
import numpy as np, qkv
rng = np.random.default_rng(1)
for shape in [(2, 501, 1), (2, 101, 5), (1, 67, 37)]:
    x = rng.uniform(0, 1, shape).astype("f4")
    np.testing.assert_allclose(qkv.cumsum(x, 1), x.astype("f8").cumsum(1), rtol=1e-7)
    np.testing.assert_allclose(qkv.cumprod(x, 1), x.astype("f8").cumprod(1), rtol=1e-7, atol=1e-45)
"""
    done = run_at(level, program)
    assert done.returncode == 0, done.stderr
