"""Weights as a picture: against the weights themselves, with every option, and what is refused."""

from __future__ import annotations

import tracemalloc

import matplotlib.pyplot as plt
import numpy as np
import pytest
from helpers import close, same_bits_for_any_threads
from sweep import sweep

import qkv
from qkv import look, nn

B, H, D = 2, 4, 5


def numbers(*shape, seed=0, dtype="float64"):
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def reduced(weights, size, reduce, rows=None, columns=None):
    """Pixels of weights (..., Lq, Lk) by their definition."""
    weights = weights[..., slice(*rows or (None,)), slice(*columns or (None,))]
    (Lq, Lk), (height, width) = weights.shape[-2:], size
    y = np.empty((*weights.shape[:-2], height, width), weights.dtype)
    for i, j in np.ndindex(height, width):
        top, left = i * Lq // height, j * Lk // width
        cell = weights[
            ..., top : max(top + 1, (i + 1) * Lq // height), left : max(left + 1, (j + 1) * Lk // width)
        ]
        y[..., i, j] = cell.max((-1, -2)) if reduce == "max" else cell.mean((-1, -2))
    return y


def weights_of(query, key, **options):
    return qkv.scaled_dot_product_attention(query, key, key, return_weights=True, **options)[1]


OPTIONS = {
    "plain": {},
    "causal": {"is_causal": True},
    "lower right": {"is_causal": "lower_right"},
    "window": {"window": (31, 7)},
    "lengths": {"valid_lens": [17, 211]},
    "lengths of queries": {"valid_lens": np.random.default_rng(5).integers(0, 212, (B, 307))},
    "mask": {"attn_mask": np.random.default_rng(4).random((H, 307, 211)) < 0.3},
    "bias": {"attn_mask": numbers(307, 211, seed=3)},
    "excluding bias": {
        "attn_mask": np.where(np.random.default_rng(6).random((307, 211)) < 0.5, -np.inf, 1.0)
    },
    "cap, scale, distances": {"softcap": 2.0, "scale": 0.9, "alibi_slopes": qkv.alibi_slopes(H)},
    "offset": {"is_causal": True, "q_offset": [-20, 5]},
    "sinks": {"sinks": numbers(H, seed=9)},
    "filled": {"masked_value": -1e9, "valid_lens": [0, 100]},
    "formula": {
        "score_mod": lambda s, b, h, q, k: s - abs(q - k) * 0.1,
        "mask_mod": lambda b, h, q, k: q >= k,
    },
}


@pytest.mark.parametrize("reduce", ["max", "mean"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@sweep("name", OPTIONS)
def test_pixels_are_what_they_say(name, dtype, reduce):
    q, k = numbers(B, H, 307, D, dtype=dtype), numbers(B, H, 211, D, seed=1, dtype=dtype)
    options = OPTIONS[name]
    image = qkv.attention_image(q, k, size=(13, 11), reduce=reduce, **options)
    assert image.dtype == dtype
    close(image, reduced(weights_of(q, k, **options), (13, 11), reduce), dtype)


@pytest.mark.parametrize("size", [(1, 1), (1, 13), (307, 211), (306, 210), (7, 500), (400, 3)])
@pytest.mark.parametrize("reduce", ["max", "mean"])
def test_any_size(size, reduce):
    q, k = numbers(307, D), numbers(211, D, seed=1)
    w = weights_of(q, k, is_causal=True)
    Lq, Lk = w.shape
    image = qkv.attention_image(q, k, size=size, reduce=reduce, is_causal=True)
    expected = reduced(w, (min(size[0], Lq), min(size[1], Lk)), reduce)
    rows, columns = (np.arange(n) * m // n for n, m in zip(size, expected.shape, strict=True))
    close(image, expected[rows][:, columns])


@pytest.mark.parametrize("reduce", ["max", "mean"])
def test_a_rectangle(reduce):
    q, k = numbers(B, 307, D), numbers(B, 211, D, seed=1)
    part = {"rows": (29, 199), "columns": (13, 202)}
    image = qkv.attention_image(q, k, size=(17, 19), reduce=reduce, window=(60, 3), **part)
    close(image, reduced(weights_of(q, k, window=(60, 3)), (17, 19), reduce, **part))


def test_fewer_key_heads_and_short_calls():
    q, k = numbers(B, 6, 307, D), numbers(B, 2, 211, D, seed=1)
    close(
        qkv.attention_image(q, k, size=(5, 7), enable_gqa=True),
        reduced(weights_of(q, k, enable_gqa=True), (5, 7), "max"),
    )
    close(qkv.attention_image(q[0, 0, :2], k[0, 0, :3], size=(2, 3)), weights_of(q[0, 0, :2], k[0, 0, :3]))
    assert isinstance(qkv.attention_image(qkv.tensor(q[0]), k[0, :1].repeat(6, 0), size=(2, 3)), qkv.Tensor)


def test_excluded_numbers_are_not_read():
    q, k = numbers(B, H, 307, D), numbers(B, H, 211, D, seed=1)
    clean = qkv.attention_image(q, k, size=(5, 7), valid_lens=[50, 60])
    k[0, :, 50:], k[1, :, 60:] = np.nan, np.inf
    np.testing.assert_array_equal(qkv.attention_image(q, k, size=(5, 7), valid_lens=[50, 60]), clean)


def test_threads_change_no_bit():
    q, k = numbers(B, H, 307, D, dtype="float32"), numbers(B, H, 211, D, seed=1, dtype="float32")
    same_bits_for_any_threads(
        lambda: [qkv.attention_image(q, k, size=(40, 30), reduce=r) for r in ("max", "mean")]
    )


@pytest.mark.parametrize("name", ["plain", "formula"])
def test_memory_grows_with_the_length(name):
    q, options = numbers(8192, 2, dtype="float32"), OPTIONS[name]
    qkv.attention_image(q[:100], q[:100], size=(4, 4), **options)
    before = qkv.cached_bytes()
    tracemalloc.start()
    qkv.attention_image(q, q, size=(64, 64), **options)
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()
    assert qkv.cached_bytes() - before < 32 << 20  # the weights would take 268 MB


def test_of_a_recording():
    layer = nn.MultiHeadAttention(12, 3, is_causal=True).to("float64")
    x = numbers(B, 37, 12)
    r = look.record(layer, x)
    close(r.image("", size=(5, 6), reduce="mean"), reduced(r["weights"], (5, 6), "mean"))
    additive = nn.AdditiveAttention(3, query_size=12, key_size=12).to("float64")
    r = look.record(additive, x, x, x)
    for reduce in ("max", "mean"):
        part = {"rows": (3, 30), "columns": (0, 11)}
        close(
            r.image("", size=(5, 6), reduce=reduce, **part),
            reduced(r["weights"][:, None], (5, 6), reduce, **part),
        )
    with pytest.raises(KeyError, match=r'keep=\("weights",\)'):
        look.record(layer, x, keep=("heads",)).image("")


def test_show_attention():
    q, k = numbers(2, 307, D), numbers(2, 211, D, seed=1)
    fig, axes = qkv.plot.show_attention(q, k, size=(20, 30), rows=(100, 200), is_causal=True)
    assert axes.shape == (2, 1)
    for panel, image in zip(
        axes[:, 0], qkv.attention_image(q, k, size=(20, 30), rows=(100, 200), is_causal=True), strict=True
    ):
        np.testing.assert_array_equal(panel.images[0].get_array(), image)
        assert panel.images[0].get_extent() == [-0.5, 210.5, 199.5, 99.5]
    given, ax = plt.subplots()
    fig, axes = qkv.plot.show_attention(q[0], k[0], size=(3, 4), ax=ax)
    assert fig is given
    assert axes.ravel()[0] is ax
    plt.close("all")


def test_what_is_refused():
    q, k = numbers(7, D), numbers(11, D)
    with pytest.raises(ValueError, match=r'attention_image: reduce must be "max" or "mean"; got \'min\''):
        qkv.attention_image(q, k, reduce="min")
    with pytest.raises(TypeError, match=r"attention_image: size must be two integers; got 3"):
        qkv.attention_image(q, k, size=3)
    with pytest.raises(
        ValueError, match=r"attention_image: size must be .* at least 1 pixel each; got \(0, 4\)"
    ):
        qkv.attention_image(q, k, size=(0, 4))
    with pytest.raises(ValueError, match=r"attention_image: rows must be .* <= 7; got \(3, 8\)"):
        qkv.attention_image(q, k, rows=(3, 8))
    with pytest.raises(ValueError, match=r"attention_image: columns must be .* <= 11; got \(5, 5\)"):
        qkv.attention_image(q, k, columns=(5, 5))
    with pytest.raises(TypeError, match=r"attention_image: rows must be two integers; got \(0\.5, 3\)"):
        qkv.attention_image(q, k, rows=(0.5, 3))
    with pytest.raises(
        ValueError, match=r"attention_image: query and key must have at least one row .*Lq = 0"
    ):
        qkv.attention_image(q[:0], k)
    with pytest.raises(ValueError, match=r"attention_image: key must be \(\.\.\., Lk, D\) with D = 5"):
        qkv.attention_image(q, k[:, :3])
