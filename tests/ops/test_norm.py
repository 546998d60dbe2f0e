"""Layer normalisation and root-mean-square normalisation."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import close, gradients, layouts, same_bits_for_any_threads

import qkv
from qkv import _core, reference
from qkv.testing import check_gradient


@pytest.fixture
def random():
    return np.random.default_rng(0)


def layer_norm(x, weight=None, bias=None, shape=None, eps=1e-5):
    return _core.layer_norm(x, weight, bias, shape or x.shape[-1:], eps)


def rms_norm(x, weight=None, shape=None, eps=1e-6):
    return _core.rms_norm(x, weight, shape or x.shape[-1:], eps)


def test_golden(golden):
    g = golden("D3-18")
    g.close("layernorm_of_x", layer_norm(g["x"], g["g"], g["b"]))
    g.close("eps_1e-12", layer_norm(g["x"], g["g"], g["b"], eps=1e-12))
    x, sublayer, weight, bias = (qkv.tensor(g[k], requires_grad=True) for k in ("x", "sublayer", "g", "b"))
    y = layer_norm(x + sublayer, weight, bias)
    g.close("out", y)
    y.backward(g["G"])
    for key, t in {"x": x, "sublayer": sublayer, "g": weight, "b": bias}.items():
        g.close(f"grad.{key}", t.grad)


@pytest.mark.parametrize(
    ("shape", "normalized"), [((2, 3, 5), (5,)), ((2, 3, 5), (3, 5)), ((37,), (37,)), ((7, 131), (131,))]
)
def test_values_and_gradients(shape, normalized, random):
    x, w, b = random.normal(size=shape), random.normal(size=normalized), random.normal(size=normalized)
    for weight in (None, w):
        for bias in (None, b):
            expected = reference.layer_norm(x, weight, bias, normalized_shape=normalized)
            close(layer_norm(x, weight, bias, normalized), expected)
        expected = reference.rms_norm(x, weight, normalized_shape=normalized)
        close(rms_norm(x, weight, normalized), expected)
    close(
        layer_norm(x.astype("f4"), w.astype("f4"), b.astype("f4"), normalized),
        reference.layer_norm(x, w, b, normalized_shape=normalized),
        "float32 deep",
    )
    check_gradient(lambda t: layer_norm(t, None, None, normalized), x)
    check_gradient(lambda t, p, q: layer_norm(t, p, q, normalized), x, w, b)
    check_gradient(lambda t, q: layer_norm(t, None, q, normalized), x, b)
    check_gradient(lambda t: rms_norm(t, None, normalized), x)
    check_gradient(lambda t, p: rms_norm(t, p, normalized), x, w)


@pytest.mark.parametrize("offset", [1e3, 1e6, -3e7])
def test_far_from_zero(offset, random):
    x = (random.normal(size=(5, 517)) * abs(offset) / 500 + offset).astype("float32")
    expected = reference.layer_norm(x)  # of the same rounded numbers
    close(layer_norm(x), expected, "float32 deep")
    exact = gradients(layer_norm, x.astype("float64"))
    single = gradients(layer_norm, x)
    np.testing.assert_allclose(single[1], exact[1], rtol=1e-4, atol=1e-6 * np.abs(exact[1]).max())


def test_numbers_whose_squares_overflow(random):
    x = (random.normal(size=(2, 67)) * 1e30).astype("float32")
    close(layer_norm(x), reference.layer_norm(x), "float32")
    close(rms_norm(x), reference.rms_norm(x), "float32")


def test_edges(random):
    x = random.normal(size=(5, 7))
    for variant in layouts(x):
        close(layer_norm(variant), reference.layer_norm(x))
        close(rms_norm(variant), reference.rms_norm(x))
    assert (layer_norm(np.full((2, 3), 7.7)) == 0).all()
    assert layer_norm(np.array([[3.0]])).tolist() == [[0]]
    assert layer_norm(np.zeros((0, 5))).shape == (0, 5)
    assert np.isnan(layer_norm(np.array([[np.nan, 1.0], [2.0, 3.0]]))).tolist() == [[True] * 2, [False] * 2]
    assert layer_norm(x.astype("f4"), np.ones(7)).dtype == np.float64
    only_weight = qkv.tensor(np.ones(7), requires_grad=True)
    layer_norm(x, only_weight).sum().backward()
    close(only_weight.grad, layer_norm(x).sum(0))


def test_rejections():
    x = np.zeros((2, 3, 5))
    with pytest.raises(ValueError, match=r"^layer_norm: x must end in \(3,\) .* got x \(2, 3, 5\)$"):
        layer_norm(x, shape=(3,))
    with pytest.raises(ValueError, match=r"^rms_norm: x must end in \(1, 2, 3, 5\)"):
        rms_norm(x, shape=(1, 2, 3, 5))
    with pytest.raises(ValueError, match=r"layer_norm: weight must be \(5,\) .* got weight \(3,\)"):
        layer_norm(x, np.ones(3))
    with pytest.raises(ValueError, match=r"layer_norm: bias must be \(5,\) .* got bias \(1, 5\)"):
        layer_norm(x, None, np.ones((1, 5)))
    with pytest.raises(ValueError, match=r"eps must be at least 0 .* got eps = -1"):
        rms_norm(x, eps=-1)
    with pytest.raises(ValueError, match="normalized_shape must name at least one axis"):
        _core.layer_norm(x, None, None, (), 1e-5)


def test_any_number_of_threads(random):
    x, w, b = (random.normal(size=s).astype("f4") for s in ((997, 67), (67,), (67,)))
    same_bits_for_any_threads(lambda: gradients(layer_norm, x, w, b))
    same_bits_for_any_threads(lambda: gradients(rms_norm, x, w))


def add_layer_norm(x, residual, weight=None, bias=None, shape=None, eps=1e-5):
    return _core.add_layer_norm(x, residual, weight, bias, shape or x.shape[-1:], eps)


@pytest.mark.parametrize(
    ("shape", "normalized"), [((2, 3, 5), (5,)), ((3, 5, 7), (5, 7)), ((7, 131), (131,))]
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_normalisation_of_a_sum_is_that_of_the_sum(shape, normalized, dtype, random):
    x, residual = (random.normal(size=shape).astype(dtype) for _ in range(2))
    w, b = (random.normal(size=normalized).astype(dtype) for _ in range(2))
    for weight in (None, w):
        for bias in (None, b):
            expected = layer_norm(x + residual, weight, bias, normalized)
            np.testing.assert_array_equal(add_layer_norm(x, residual, weight, bias, normalized), expected)
    fused = gradients(lambda a, r, p, q: add_layer_norm(a, r, p, q, normalized), x, residual, w, b)
    composed = gradients(lambda a, r, p, q: layer_norm(a + r, p, q, normalized), x, residual, w, b)
    for one, other in zip(fused, composed, strict=True):
        np.testing.assert_array_equal(one, other)


def test_gradients_of_the_normalised_sum(random):
    x, residual = random.normal(size=(3, 17)), random.normal(size=(3, 17))
    w, b = random.normal(size=17), random.normal(size=17)
    check_gradient(add_layer_norm, x, residual, w, b)
    check_gradient(lambda t: add_layer_norm(t, residual, w), x)  # the residual wants none
    check_gradient(lambda t: add_layer_norm(x, t), residual)
    check_gradient(lambda t: add_layer_norm(t, t), x)  # the same Tensor twice


def test_rejections_of_the_normalised_sum(random):
    x = random.normal(size=(3, 5))
    with pytest.raises(
        ValueError, match=r"add_layer_norm: residual must have the shape of x \(3, 5\); got residual \(5,\)"
    ):
        add_layer_norm(x, random.normal(size=5))
    with pytest.raises(
        ValueError,
        match=r"add_layer_norm: weight must be \(5,\) because normalized_shape is; got weight \(3,\)",
    ):
        add_layer_norm(x, x, random.normal(size=3))
