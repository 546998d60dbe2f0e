"""silu, leaky_relu, elu and softplus against their formulas."""

from __future__ import annotations

import math

import numpy as np
import pytest
from helpers import close
from second_checks import check_second

import qkv
from qkv.testing import check_gradient

RANDOM = np.random.default_rng(3)
X = RANDOM.standard_normal((3, 5, 7)) * 3
FUNCTIONS = {
    "silu": (lambda x: qkv.silu(x), lambda x: x / (1 + np.exp(-x))),
    "leaky_relu": (lambda x: qkv.leaky_relu(x), lambda x: np.where(x > 0, x, 0.01 * x)),
    "leaky_relu 0.3": (lambda x: qkv.leaky_relu(x, 0.3), lambda x: np.where(x > 0, x, 0.3 * x)),
    "elu": (lambda x: qkv.elu(x), lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0)))),
    "elu 1.7": (
        lambda x: qkv.elu(x, alpha=1.7),
        lambda x: np.where(x > 0, x, 1.7 * np.expm1(np.minimum(x, 0))),
    ),
    "softplus": (lambda x: qkv.softplus(x), lambda x: np.logaddexp(0, x)),
    "softplus 2.5": (lambda x: qkv.softplus(x, beta=2.5), lambda x: np.logaddexp(0, 2.5 * x) / 2.5),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_and_gradients(name):
    f, formula = FUNCTIONS[name]
    close(f(X), formula(X))
    assert isinstance(f(qkv.tensor(X)), qkv.Tensor)
    assert f(X.astype("float32")).dtype == np.float32
    assert f(X.astype("float16")).dtype == np.float16
    assert f([1, 2]).dtype == np.float32
    check_gradient(f, X)
    check_second(f, X)
    assert np.isnan(f(np.array([np.nan]))).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["elu", "softplus", "silu"])
def test_digits_of_tiny_results(name, dtype):
    exact = {
        "elu": lambda x: x if x > 0 else math.expm1(x),
        "softplus": lambda x: max(x, 0.0) + math.log1p(math.exp(-abs(x))),
        "silu": lambda x: x / (1 + math.exp(-x)) if x > -700 else x * math.exp(x),
    }[name]
    x = np.concatenate(
        [-(10.0 ** np.linspace(-30, 1.9, 400)), 10.0 ** np.linspace(-30, 1.9, 400), [0.0]]
    ).astype(dtype)
    expected = np.array([exact(float(v)) for v in x])
    np.testing.assert_allclose(getattr(qkv, name)(x), expected, rtol=8 * np.finfo(dtype).eps, atol=1e-37)


def test_ends():
    ends = [-np.inf, np.inf]
    assert qkv.silu(ends).tolist() == [0, np.inf]
    assert qkv.softplus(ends).tolist() == [0, np.inf]
    assert qkv.elu(ends).tolist() == [-1, np.inf]
    assert qkv.leaky_relu(ends).tolist() == ends
    assert qkv.softplus([-1000.0, 1000.0]).tolist() == [0, 1000]


@pytest.mark.parametrize(("name", "slope"), [("leaky_relu", 0.01), ("elu", 1.0)])
def test_the_derivative_at_0_is_that_from_below(name, slope):
    t = qkv.tensor([0.0], requires_grad=True)
    getattr(qkv, name)(t).sum().backward()
    assert t.grad.item() == np.float32(slope)


def test_what_is_refused():
    for beta in (0, -1, np.inf, np.nan):
        with pytest.raises(ValueError, match=r"^softplus: beta must be a positive number; got"):
            qkv.softplus(X, beta)
    for name, number in (("leaky_relu", "negative_slope"), ("elu", "alpha"), ("softplus", "beta")):
        with pytest.raises(TypeError, match=rf"^{name}: {number} must be a number; got 'a'$"):
            getattr(qkv, name)(X, "a")
        with pytest.raises(TypeError, match=rf"^{name}: x must hold numbers; got dtype <U1$"):
            getattr(qkv, name)(["a"])


def test_pytorch_gives_the_same():
    torch = pytest.importorskip("torch")
    F = torch.nn.functional
    x = torch.tensor(X)
    for ours, theirs in (
        (qkv.silu(X), F.silu(x)),
        (qkv.leaky_relu(X, 0.2), F.leaky_relu(x, 0.2)),
        (qkv.elu(X, 0.7), F.elu(x, 0.7)),
        (qkv.softplus(X, 1.3), F.softplus(x, 1.3)),
    ):
        np.testing.assert_allclose(ours, theirs.numpy(), rtol=1e-12, atol=1e-15)
