"""`qkv.sparsemax` and `qkv.entmax` against halving in float64, and what they promise."""

import numpy as np
import pytest
from sweep import sweep

import qkv
from qkv import reference
from qkv.testing import check_gradient

RNG = np.random.default_rng(5)
ALPHAS = (1.01, 1.2, 1.5, 1.9, 2.0, 3.0)


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("shape", [(1,), (2,), (7,), (5, 301), (3, 4, 33)])
@sweep("strength", [1e-4, 1.0, 30.0, 1e4])
def test_it_is_its_formula(alpha, shape, strength):
    x = strength * RNG.standard_normal(shape)
    for axis in range(-1, len(shape) - 1):
        wanted = reference.entmax(x, alpha, axis)
        got = qkv.entmax(x, alpha, axis)
        np.testing.assert_allclose(got, wanted, atol=2e-10 if alpha > 1.1 else 1e-8)
        np.testing.assert_allclose(got.sum(axis), 1, atol=1e-12)
        single = qkv.entmax(x.astype("float32"), alpha, axis)
        assert single.dtype == np.float32
        np.testing.assert_allclose(single, reference.entmax(x.astype("float32"), alpha, axis), atol=2e-6)


def test_the_ends():
    x = RNG.standard_normal((4, 50))
    assert (qkv.entmax(x, 1) == qkv.softmax(x)).all()
    assert (qkv.entmax(x, 2, 0) == qkv.sparsemax(x, axis=0)).all()
    np.testing.assert_allclose(qkv.entmax(x, 1.0001), qkv.softmax(x), atol=1e-3)
    assert (qkv.sparsemax(10 * x) == 0).mean() > 0.9
    assert qkv.sparsemax([[3, 1], [0, 0]]).tolist() == [[1, 0], [0.5, 0.5]]
    assert qkv.sparsemax(np.ones((3, 0))).shape == (3, 0)
    assert qkv.entmax(np.ones((0, 3))).shape == (0, 3)


@pytest.mark.parametrize("alpha", [1.5, 2.0, 3.0])
def test_extreme_numbers(alpha):
    inf = np.inf
    rows = np.array(
        [[1e300, -1e300, 0], [-inf, 2, -inf], [-inf, -inf, -inf], [inf, 0, 0], [np.nan, 0, 0], [0, np.nan, 9]]
    )
    got = qkv.entmax(rows, alpha)
    assert got[:2].tolist() == [[1, 0, 0], [0, 1, 0]]
    assert np.isnan(got[2:]).all()
    assert np.isfinite(qkv.entmax(np.float32([3e38, 3e38, -3e38]), alpha)).all()


@pytest.mark.parametrize("alpha", [1.2, 1.5, 1.99])
def test_gradients(alpha):
    x, factor = RNG.standard_normal((3, 6)), qkv.tensor(RNG.standard_normal((3, 6)))
    check_gradient(lambda x: (qkv.entmax(x, alpha) * factor).sum(), x)
    check_gradient(lambda x: (qkv.entmax(x, alpha, 0) * factor).sum(), x)
    t = qkv.tensor(x, requires_grad=True)

    def squares(t, **options):
        (g,) = qkv.grad((qkv.entmax(t, alpha) * factor).sum(), [t], **options)
        return (g * g).sum()

    (exact,) = qkv.grad(squares(t, create_graph=True), [t])
    direction, step = RNG.standard_normal(x.shape), 1e-6
    above, below = (qkv.tensor(x + sign * step * direction, requires_grad=True) for sign in (1, -1))
    measured = (float(squares(above)) - float(squares(below))) / (2 * step)
    assert float((exact * direction).sum()) == pytest.approx(measured, rel=1e-5, abs=1e-8)
    y = qkv.entmax(t, alpha)
    y.sum().backward()
    np.testing.assert_allclose(t.grad.numpy(), 0, atol=1e-12)


def test_against_a_row_of_nothing_but_zeros_behind_a_mask():
    scores = qkv.tensor([[0.5, 0.1, -np.inf]], requires_grad=True)
    qkv.sparsemax(scores)[0, 0].backward()
    assert scores.grad.tolist() == [[0.5, -0.5, 0]]


@pytest.mark.parametrize("call", [qkv.sparsemax, qkv.entmax, lambda x: qkv.entmax(x, 1.2, axis=0)])
def test_one_number_is_a_row_of_one(call):
    assert call(3.0) == call(np.float32(-2)) == 1.0
    assert np.shape(call(np.array(3.0))) == ()
    assert np.isnan(call(np.inf))
    x = qkv.tensor(2.0, requires_grad=True)
    call(x).backward()
    assert x.grad.numpy() == 0
    with pytest.raises(ValueError, match="axis must be from -1 to 0"):
        qkv.sparsemax(1.0, axis=1)


def test_rejections():
    with pytest.raises(ValueError, match=r"^entmax: alpha must be a number of at least 1; got 0\.5"):
        qkv.entmax([1.0, 2.0], 0.5)
    with pytest.raises(ValueError, match=r"^entmax: alpha must be a number of at least 1; got nan"):
        qkv.entmax([1.0, 2.0], np.nan)
    with pytest.raises(TypeError, match=r"^entmax: x must hold numbers"):
        qkv.entmax(np.array(["a"]), 2.0)
    with pytest.raises(ValueError, match=r"^sparsemax: axis must be from -1 to 0"):
        qkv.sparsemax([1.0], axis=3)
