"""Activation functions."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import close, gradients, layouts, same_bits_for_any_threads

import qkv
from qkv import reference
from qkv.testing import check_gradient

NAMES = {
    "relu": {},
    "gelu": {},
    "gelu_tanh": {"approximate": "tanh"},
    "tanh": {},
    "sigmoid": {},
}


def of(module, name):
    function = getattr(module, name.split("_")[0])
    return lambda x: function(x, **NAMES[name])


def test_golden(golden):
    g = golden("X-ACT")
    for key, name in {"gelu_erf": "gelu", "gelu_tanh": "gelu_tanh"}.items():
        g.close(key, of(qkv, name)(g["x"]))
    for name in ("tanh", "sigmoid", "relu"):
        g.close(name, of(qkv, name)(g["x"]))


@pytest.mark.parametrize("name", NAMES)
def test_values_and_gradients(name):
    f, expected = of(qkv, name), of(reference, name)
    x = np.concatenate([np.linspace(-30, 30, 997), np.linspace(-2, 2, 499), [1e4, -1e4, 1e-8, -1e-8]])
    close(f(x), expected(x))
    x32 = x.astype("float32")
    assert f(x32).dtype == np.float32
    close(f(x32), expected(x32), "float32")
    check_gradient(f, np.random.default_rng(0).normal(size=(3, 7, 5)))
    check_gradient(f, np.array([-6.0, -3.0, 3.0, 6.0]))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_limits(name, dtype):
    f = of(qkv, name)
    x = np.array([np.inf, 1e30 if dtype == "float32" else 1e100, 0.0, np.nan], dtype)
    y = f(x)
    top = 1.0 if name in ("tanh", "sigmoid") else None
    assert y[0] == (top or np.inf)
    assert y[1] == (top or x[1])
    assert y[2] == (0.5 if name == "sigmoid" else 0)
    assert np.isnan(y[3])
    assert f(-x[1:2])[0] == (-1 if name == "tanh" else 0)
    _, slopes = gradients(f, np.array([800.0, -800.0], dtype))
    assert np.isfinite(slopes).all()


@pytest.mark.parametrize("name", NAMES)
def test_inputs_of_every_kind(name):
    f, x = of(qkv, name), np.random.default_rng(0).normal(size=(5, 7))
    for variant in layouts(x):
        close(f(variant), f(x))
    assert f(np.zeros((3, 0))).shape == (3, 0)
    close(f(1.5), of(reference, name)(1.5), "float32")
    assert f([1, 2]).dtype == np.float32
    assert f(x.astype("float16")).dtype == np.float16
    assert isinstance(f(qkv.tensor(x)), qkv.Tensor)


def test_relu_at_zero():
    x = qkv.tensor([0.0, -0.0, 2.0], requires_grad=True)
    y = qkv.relu(x)
    assert not np.signbit(y.numpy()).any()
    y.sum().backward()
    assert x.grad.tolist() == [0, 0, 1]


def test_sigmoid_keeps_small_digits():
    np.testing.assert_allclose(qkv.sigmoid(np.array([-700.0])), np.exp(-700.0), rtol=1e-14)
    np.testing.assert_allclose(qkv.sigmoid(np.float32([-80.0])), np.exp(-80.0), rtol=1e-6)


def test_unknown_form():
    with pytest.raises(ValueError, match=r"^gelu: approximate must be 'none' or 'tanh' .* got 'erf'$"):
        qkv.gelu([1.0], "erf")
    with pytest.raises(TypeError, match="relu: x must hold numbers"):
        qkv.relu(["a"])


@pytest.mark.parametrize("name", NAMES)
def test_any_number_of_threads(name):
    x = np.random.default_rng(0).normal(size=100_003).astype("float32")
    same_bits_for_any_threads(lambda: gradients(of(qkv, name), x))
