"""Inputs that are changed between the forward and the backward pass: the gradient is right, or an error says so."""

from __future__ import annotations

import numpy as np
import pytest
from sweep import sweep

import qkv
from qkv import losses, nn

RNG = np.random.default_rng(0)
X = RNG.standard_normal((2, 3, 7, 5))
MASK = RNG.random((2, 1, 7, 7)) < 0.6
MASK[..., 0] = True
KEEP = RNG.random((2, 3, 7, 7)) < 0.5


def sdpa(**option):
    (name,) = option
    return lambda x, value: qkv.scaled_dot_product_attention(x, x, x, **{**option, name: value})


def gru(x, lens):
    layer = nn.GRU(5, 7)
    for p in layer.parameters():
        p.copy_(np.full(p.shape, 0.1))
    return layer.to("float64")(x.reshape(6, 7, 5), valid_lens=lens)[0]


def heads(name):
    def call(x, value):
        layer = nn.MultiHeadAttention(5, 1).to("float64")
        for p in layer.parameters():
            p.copy_(np.full(p.shape, 0.1))
        return layer(x[:, 0], **{name: value})

    return call


# What is differentiated with respect to x, the argument that is changed, and what it becomes.
CASES = {
    "attention valid_lens": (sdpa(valid_lens=0), np.array([2, 5]), np.array([7, 1])),
    "attention mask": (sdpa(attn_mask=0), MASK, ~MASK),
    "attention float mask": (sdpa(attn_mask=0), np.where(MASK, 0.5, -1.5), np.where(MASK, 9.0, 2.0)),
    "attention q_offset": (
        lambda x, n: qkv.scaled_dot_product_attention(x, x, x, is_causal=True, q_offset=n),
        np.array([2, 0]),
        np.array([0, 3]),
    ),
    "attention alibi_slopes": (sdpa(alibi_slopes=0), np.array([0.5, 0.2, 1.0]), np.array([9.0, 8.0, 7.0])),
    "attention sinks": (sdpa(sinks=0), np.array([0.5, 0.2, 1.0]), np.array([9.0, 8.0, 7.0])),
    "attention dropout_keep": (
        lambda x, m: qkv.scaled_dot_product_attention(x, x, x, dropout_p=0.5, dropout_keep=m),
        KEEP,
        ~KEEP,
    ),
    "additive valid_lens": (
        lambda x, n: qkv.additive_attention(x[:, 0], x[:, 0], x[:, 0], np.ones(5), valid_lens=n),
        np.array([2, 5]),
        np.array([7, 1]),
    ),
    "additive mask": (
        lambda x, m: qkv.additive_attention(x[:, 0], x[:, 0], x[:, 0], np.ones(5), attn_mask=m),
        MASK[:, 0],
        ~MASK[:, 0],
    ),
    "additive dropout_keep": (
        lambda x, m: qkv.additive_attention(
            x[:, 0], x[:, 0], x[:, 0], np.ones(5), dropout_p=0.5, dropout_keep=m
        ),
        KEEP[:, 0],
        ~KEEP[:, 0],
    ),
    "additive score_weight": (
        lambda x, w: qkv.additive_attention(x[:, 0], x[:, 0], x[:, 0], w),
        np.ones(5),
        np.zeros(5),
    ),
    "kernel valid_lens": (
        lambda x, n: qkv.kernel_attention(x[:, 0], x[:, 0], x[:, 0], valid_lens=n),
        np.array([2, 5]),
        np.array([7, 1]),
    ),
    "kernel bandwidth": (
        lambda x, h: qkv.kernel_attention(x[:, 0], x[:, 0], x[:, 0], bandwidth=h),
        np.array(1.5),
        np.array(0.1),
    ),
    "kernel of one's own": (
        lambda x, n: qkv.kernel_attention(x[:, 0], x[:, 0], x[:, 0], lambda u: 1 / (1 + u), valid_lens=n),
        np.array([2, 5]),
        np.array([7, 1]),
    ),
    "masked_softmax valid_lens": (lambda x, n: qkv.masked_softmax(x, n), np.array([2, 5]), np.array([4, 1])),
    "masked_softmax mask": (lambda x, m: qkv.masked_softmax(x, mask=m), MASK[..., :5], ~MASK[..., :5]),
    "masked_softmax filled": (
        lambda x, m: qkv.masked_softmax(x, mask=m, masked_value=-1.0),
        MASK[..., :5],
        ~MASK[..., :5],
    ),
    "cross_entropy targets": (
        lambda x, t: losses.cross_entropy(x[0, 0], t),
        np.arange(7) % 5,
        np.zeros(7, int),
    ),
    "cross_entropy weight": (
        lambda x, w: losses.cross_entropy(x[0, 0], np.arange(7) % 5, weight=w),
        np.arange(1.0, 6),
        np.ones(5),
    ),
    "nll_loss weight": (
        lambda x, w: losses.nll_loss(x[0, 0], np.arange(7) % 5, weight=w),
        np.arange(1.0, 6),
        np.ones(5),
    ),
    "mse targets": (lambda x, t: losses.mse(x, t), X + 1, X * 0),
    "index": (lambda x, i: x[0, 0][i], np.array([1, 3, 3]), np.array([0, 0, 6])),
    "where": (lambda x, c: qkv.where(c, x, 0 * x), MASK[..., :5], ~MASK[..., :5]),
    "product": (lambda x, y: x * y, X + 1, X * 0),
    "quotient": (lambda x, y: x / y, np.abs(X) + 1, np.abs(X) + 7),
    "power": (lambda x, y: abs(x) ** y, np.abs(X) + 1, np.abs(X) + 7),
    "matmul": (lambda x, y: x @ y, RNG.standard_normal((5, 3)), np.zeros((5, 3))),
    "rotary cos": (lambda x, c: qkv.apply_rotary(x, c, np.ones((7, 2))), np.ones((7, 2)), np.zeros((7, 2))),
    "GRU valid_lens": (gru, np.array([2, 5, 7, 1, 3, 4]), np.array([7] * 6)),
    "MultiHeadAttention valid_lens": (heads("valid_lens"), np.array([2, 5]), np.array([7, 1])),
    "MultiHeadAttention mask": (heads("attn_mask"), MASK[:, 0], ~MASK[:, 0]),
}


def gradient_of(case, argument, change=lambda: None):
    x = qkv.tensor(X, requires_grad=True)
    y = CASES[case][0](x, argument)
    change()
    (y * np.arange(1.0, y.size + 1).reshape(y.shape)).sum().backward()
    return x.grad.numpy()


def changed(how, before, after):
    """Return an argument, and what changes it."""
    if how == "array":
        argument = before.copy()
        return argument, lambda: np.copyto(argument, after)
    argument = qkv.tensor(before)
    if how == "copy_":
        return argument, lambda: argument.copy_(after)
    view = argument.numpy()
    return argument, lambda: np.copyto(view, after)


@pytest.mark.parametrize("how", ["array", "copy_", "view"])
@sweep("case", CASES)
def test_a_changed_argument_does_no_harm(case, how):
    _, before, after = CASES[case]
    expected = gradient_of(case, before.copy())
    try:
        actual = gradient_of(case, *changed(how, before, after))
    except RuntimeError as error:
        if how == "array" or "changed" not in str(error):
            raise
    else:
        np.testing.assert_allclose(actual, expected, rtol=1e-12, atol=1e-13)


@sweep("case", CASES)
def test_narrow_numbers_too(case):
    _, before, after = CASES[case]
    if before.dtype == bool:
        pytest.skip("booleans have one width")
    narrow = np.int32 if before.dtype.kind == "i" else np.float32
    expected = gradient_of(case, before.astype(narrow))
    actual = gradient_of(case, *changed("array", before.astype(narrow), after.astype(narrow)))
    np.testing.assert_allclose(actual, expected, rtol=1e-12, atol=1e-13)


def test_changed_ids_do_no_harm():
    layer, ids = nn.Embedding(7, 3), np.array([2, 5, 2])
    y = layer(ids)
    ids[:] = 100
    y.sum().backward()
    assert layer.weight.grad.numpy()[:, 0].tolist() == [0, 0, 2, 0, 0, 1, 0]
