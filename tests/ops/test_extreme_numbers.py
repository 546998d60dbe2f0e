"""Numbers at the ends of a dtype: an error that names the argument, or the right result; never NaN without a word."""

import re

import numpy as np
import pytest
from sweep import sweep

import qkv
from qkv import nn, optim

x = np.random.default_rng(0).standard_normal((2, 5, 8)).astype(np.float32)
TOO_LARGE = r"must be from -3\.4e38 to 3\.4e38 because the work is done in float32; got "

CALLS = {
    "scale": (
        "scaled_dot_product_attention",
        lambda a, v: qkv.scaled_dot_product_attention(a, a, a, scale=v),
    ),
    "softcap": (
        "scaled_dot_product_attention",
        lambda a, v: qkv.scaled_dot_product_attention(a, a, a, softcap=v),
    ),
    "masked_value": (
        "scaled_dot_product_attention",
        lambda a, v: qkv.scaled_dot_product_attention(a, a, a, masked_value=v),
    ),
    "masked_value of masked_softmax": (
        "masked_softmax",
        lambda a, v: qkv.masked_softmax(a, [3, 8], masked_value=v),
    ),
    "masked_value of additive_attention": (
        "additive_attention",
        lambda a, v: qkv.additive_attention(a, a, a, a[0, 0], valid_lens=[3, 5], masked_value=v),
    ),
    "scale of a layer": (
        "MultiHeadAttention",
        lambda a, v: nn.MultiHeadAttention(8, 2, scale=v).to(a.dtype)(a),
    ),
    "masked_value of a layer": ("Attention", lambda a, v: nn.DotProductAttention(masked_value=v)(a, a, a)),
    "low of clip": ("clip", lambda a, v: qkv.clip(a, v)),
    "high of clip": ("clip", lambda a, v: qkv.clip(a, high=v)),
    "eps": ("layer_norm", lambda a, v: nn.LayerNorm(8, eps=abs(v)).to(a.dtype)(a)),
    "eps of a sum": ("layer_norm", lambda a, v: nn.AddNorm(8, eps=abs(v)).to(a.dtype)(a, a)),
    "eps of RMSNorm": ("rms_norm", lambda a, v: nn.RMSNorm(8, eps=abs(v)).to(a.dtype)(a)),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_number_that_float32_makes_infinite(name):
    operation, call = CALLS[name]
    with pytest.raises(ValueError, match=f"{operation}: {name.split()[0]} {TOO_LARGE}1e\\+39$"):
        call(x, 1e39)
    call(x.astype("float64"), 1e39)
    call(x, 3e38)


@pytest.mark.parametrize("value", [-np.inf, -1e30])
def test_masked_values_far_down(value):
    weights = qkv.masked_softmax(x, [3, 8], masked_value=value)
    np.testing.assert_array_equal(weights[0, :, 3:], 0)


@pytest.mark.parametrize("name", ["softcap", "eps", "eps of RMSNorm"])
def test_a_number_that_float32_makes_zero(name):
    operation, call = CALLS[name]
    name = name.split()[0]
    text = f"{operation}: {name} must be 0 or at least 1.4e-45 because the work is done in float32; got 1e-60"
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        call(x, 1e-60)


@pytest.mark.parametrize("f", [qkv.softmax, qkv.log_softmax])
def test_temperatures(f):
    with pytest.raises(
        ValueError,
        match=r"softmax: temperature must be at least 3e-39 because x is divided by it in float32",
    ):
        f(x, temperature=1e-200)
    assert np.isfinite(f(x.astype("float64"), temperature=1e-200)).any()
    assert np.isfinite(f(x, temperature=1e200)).all()


OPTIMIZERS = {
    "lr": lambda p, v: optim.SGD(p, v),
    "lr ": lambda p, v: optim.Adam(p, v),
    "weight_decay": lambda p, v: optim.SGD(p, 0.1, weight_decay=v),
    "momentum": lambda p, v: optim.SGD(p, 0.1, momentum=v),
    "eps": lambda p, v: optim.Adam(p, 0.1, eps=v),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_number_of_an_optimizer(name):
    layer = nn.Linear(3, 2)
    before = layer.weight.numpy().copy()
    optimizer = OPTIMIZERS[name](layer.parameters(), 1e39)
    layer(np.ones((5, 3), np.float32)).sum().backward()
    with pytest.raises(ValueError, match=f"(SGD|Adam): {name.strip()} {TOO_LARGE}1e\\+39$"):
        optimizer.step()
    np.testing.assert_array_equal(layer.weight.numpy(), before)


@pytest.mark.parametrize("make", [lambda p: optim.SGD(p, 0.1, momentum=0.9), lambda p: optim.Adam(p, 0.1)])
def test_an_optimizer_follows_the_dtype_of_its_module(make):
    def train(change):
        qkv.manual_seed(0)
        layer = nn.Linear(3, 2).to("float32" if change else "float64")
        optimizer = make(layer.parameters())
        for step in range(5):
            if step == 2 and change == "before backward":
                layer.to("float64")
            optimizer.zero_grad()
            layer(x[0, :, :3]).sum().backward()
            if step == 2 and change == "after backward":
                layer.to("float64")
            optimizer.step()
        assert layer.weight.dtype == "float64"
        return layer.weight.numpy()

    for change in ("before backward", "after backward"):
        np.testing.assert_allclose(train(change), train(None), rtol=1e-5, atol=1e-6)


LARGE = np.float32(3.4e38)


@pytest.mark.parametrize("queries", [1, 3, 20])
@pytest.mark.parametrize("keys", [2, 13, 200, 1300])
@sweep("options", [{}, {"is_causal": True}, {"return_weights": True}])
def test_an_average_of_large_values_is_finite(queries, keys, options):
    q, k = np.zeros((2, queries, 5), np.float32), np.zeros((2, keys, 5), np.float32)
    v = np.full((2, keys, 7), LARGE)
    v[:, :, 3] = -LARGE
    v[:, :, 4] = 1
    output = qkv.scaled_dot_product_attention(q, k, v, **options)
    output = output[0] if "return_weights" in options else output
    expected = np.broadcast_to(v[0, 0], output.shape)
    np.testing.assert_allclose(output, expected, rtol=3e-5)


def test_large_values_with_dropout_and_sinks():
    q, v = np.zeros((1, 2, 200, 5), np.float32), np.full((1, 2, 200, 7), LARGE)
    keep = np.ones((1, 2, 200, 200), bool)
    keep[..., ::2] = False
    options = {"dropout_p": 0.5, "dropout_keep": keep, "sinks": np.zeros(2)}
    output = qkv.scaled_dot_product_attention(q, q, v, **options)
    np.testing.assert_allclose(output, LARGE / np.float32(1.005), rtol=1e-5)


@pytest.mark.parametrize("kernel", ["gaussian", "constant", "epanechnikov"])
def test_other_averages_of_large_values(kernel):
    points, v = np.zeros((200, 1), np.float32), np.full((200, 3), LARGE)
    np.testing.assert_allclose(qkv.kernel_attention(points[:3], points, v, kernel), LARGE, rtol=1e-5)
    weight = np.ones(1, np.float32)
    np.testing.assert_allclose(qkv.additive_attention(points[:3], points, v, weight), LARGE, rtol=1e-5)
    np.testing.assert_allclose(qkv.tensor(v).mean(axis=0).numpy(), LARGE, rtol=1e-6)
    np.testing.assert_allclose(float(qkv.tensor(v).mean()), LARGE, rtol=1e-6)
    assert np.isinf(qkv.tensor([np.inf, 1.0]).mean().numpy())
    assert np.isnan(qkv.tensor([np.nan, 1.0]).mean().numpy())


@pytest.mark.parametrize("kernel", ["gaussian", "boxcar", "epanechnikov", "triangular"])
def test_bandwidths_that_are_tiny_or_huge(kernel):
    keys, values = np.arange(5.0), np.arange(5.0) ** 2
    queries = np.array([2.0, 4.0])
    np.testing.assert_array_equal(qkv.kernel_attention(queries, keys, values, kernel, 1e-200), values[[2, 4]])
    np.testing.assert_allclose(qkv.kernel_attention(queries, keys, values, kernel, 1e200), values.mean())
    h = qkv.tensor(np.array(1e-200), requires_grad=True)
    qkv.kernel_attention(queries, keys, values, kernel, h).sum().backward()
    assert np.isfinite(h.grad.numpy())


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("affine", [True, False])
def test_layer_norm_of_one_number_has_no_gradient(dtype, affine):
    layer = nn.LayerNorm(1, eps=1e-12, elementwise_affine=affine).to(dtype)
    if affine:
        layer.weight.copy_([1.7])
        layer.bias.copy_([0.3])
    t = qkv.tensor((np.arange(14.0) / 3).reshape(7, 2, 1).astype(dtype), requires_grad=True)
    slopes = np.cos(np.arange(14.0)).reshape(7, 2, 1).astype(dtype)
    y = layer(t)
    y.backward(slopes)
    np.testing.assert_array_equal(y.numpy(), np.full(t.shape, layer.bias.numpy() if affine else 0, dtype))
    np.testing.assert_array_equal(t.grad.numpy(), 0)
    if affine:
        np.testing.assert_array_equal(layer.weight.grad.numpy(), 0)
        np.testing.assert_allclose(layer.bias.grad.numpy(), slopes.sum(), rtol=1e-5)


def test_log_sum_exp_of_infinity():
    rows = np.array(
        [[np.inf, 1, 2], [np.inf, -np.inf, np.inf], [-np.inf] * 3, [np.nan, np.inf, 1]], np.float32
    )
    expected = [np.inf, np.inf, -np.inf, np.nan]
    np.testing.assert_array_equal(qkv.logsumexp(rows, axis=1)[:3], expected[:3])
    bias = np.zeros((1, 1, 2, 40), np.float32)
    bias[..., 0, 7] = np.inf
    for keys in (8, 40):  # the kernel for few keys and the one for many
        q, k = np.ones((1, 1, 2, 3), np.float32), np.ones((1, 1, keys, 3), np.float32)
        _, lse = qkv.scaled_dot_product_attention(q, k, k, bias[..., :keys], return_lse=True)
        assert lse[0, 0, 0] == np.inf
        np.testing.assert_allclose(lse[0, 0, 1], np.sqrt(3) + np.log(keys), rtol=1e-6)
    q[0, 0, 0] = np.inf
    _, lse = qkv.scaled_dot_product_attention(q, k[:, :, :5], k[:, :, :5], return_lse=True)
    assert lse[0, 0, 0] == np.inf
    logits = np.array([[np.inf, 0.0], [0.0, 0.0]], np.float32)
    loss = qkv.losses.cross_entropy(qkv.tensor(logits), [1, 0], reduction="none").numpy()
    np.testing.assert_allclose(loss, [np.inf, np.log(2)], rtol=1e-6)
