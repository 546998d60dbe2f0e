"""Formulas beside every option of attention, in whole arrays written out here."""

from __future__ import annotations

import numpy as np
import pytest

import qkv
from qkv.masks import formulas

from . import cases
from .cases import LK, LQ, B, D, H

SLOPES = np.array([0.5, 0.2, 0.1])


def score_mod(score, b, h, q_idx, kv_idx):
    return 1.5 * np.tanh(score / 1.5) - SLOPES[h] * abs(q_idx - kv_idx) + 0.1 * (b + 1)


def mask_mod(b, h, q_idx, kv_idx):
    return (q_idx - kv_idx) % 3 != h


BOTH = {"score_mod": score_mod, "mask_mod": mask_mod}


def check(wanted_mask=None, score=score_mod, offset=0, **options):
    q, k, v = cases.inputs()
    found = qkv.scaled_dot_product_attention(q, k, v, return_weights=True, **BOTH, **options)

    def mask(b, h, i, j):
        return mask_mod(b, h, i, j) & (True if wanted_mask is None else wanted_mask(b, h, i, j))

    for x, y in zip(found, cases.expected(q, k, v, score, mask, offset), strict=True):
        np.testing.assert_allclose(x, y, atol=1e-13)


def test_alone():
    check()


def test_lengths():
    lens = np.array([5, 13])
    check(lambda b, h, i, j: j < lens[b], valid_lens=lens)


def test_lengths_of_queries():
    lens = np.random.default_rng(3).integers(0, LK + 1, (B, LQ))
    check(lambda b, h, i, j: j < lens[b, i], valid_lens=lens)


def test_window_and_causal():
    check(lambda b, h, i, j: (j <= i) & (j >= i - 4), window=(4, -1), is_causal=True)


def test_lower_right():
    check(lambda b, h, i, j: j <= i, offset=LK - LQ, is_causal="lower_right")


@pytest.mark.parametrize("offset", [2, [1, 4], -3])
def test_positions_include_the_offset(offset):
    check(lambda b, h, i, j: j <= i, offset=offset, is_causal=True, q_offset=offset)
    check(offset=offset, q_offset=offset)


def test_soft_cap_and_slopes_come_first():
    def score(s, b, h, i, j):
        return score_mod(0.7 * np.tanh(s / 0.7) - SLOPES[h] * abs(i - j), b, h, i, j)

    check(score=score, softcap=0.7, alibi_slopes=SLOPES)


def test_bias_comes_first_and_has_a_gradient():
    bias = np.random.default_rng(4).standard_normal((B, H, LQ, LK))
    bias[0, 1, 2] = -np.inf

    def score(s, b, h, i, j):
        return score_mod(s + np.where(np.isfinite(bias), bias, 0), b, h, i, j)

    check(lambda b, h, i, j: np.isfinite(bias), score=score, attn_mask=bias)
    x = np.random.default_rng(4).standard_normal((H, LQ, LK))
    qkv.testing.check_gradient(lambda m: qkv.scaled_dot_product_attention(*cases.inputs(), m, **BOTH), x)


def test_boolean_mask():
    mask = np.random.default_rng(5).random((B, 1, LQ, LK)) < 0.6
    check(lambda b, h, i, j: mask, attn_mask=mask)


def test_sinks_and_lse():
    q, k, v = cases.inputs()
    sinks = np.array([0.5, -1.0, 2.0])
    y, lse = qkv.scaled_dot_product_attention(q, k, v, sinks=sinks, return_lse=True, **BOTH)
    plain, plain_lse = qkv.scaled_dot_product_attention(q, k, v, return_lse=True, **BOTH)
    both = np.logaddexp(plain_lse, sinks[:, None])
    np.testing.assert_allclose(lse, both, atol=1e-13)
    np.testing.assert_allclose(y, plain * np.exp(plain_lse - both)[..., None], atol=1e-13)
    _, w = cases.expected(q, k, v, score_mod, mask_mod)
    s = score_mod(np.einsum("bhqd,bhkd->bhqk", q, k) / D**0.5, *cases.indices())
    np.testing.assert_allclose(np.where(w > 0, np.exp(s - plain_lse[..., None]), 0), w, atol=1e-13)


def test_masked_value_fills_what_a_formula_excludes():
    q, k, v = cases.inputs()

    def score(s, b, h, i, j):
        return np.where(j == 3, -np.inf, score_mod(s, b, h, i, j))

    s = score(np.einsum("bhqd,bhkd->bhqk", q, k) / D**0.5, *cases.indices())
    s = np.where(mask_mod(*cases.indices()) & np.isfinite(s), s, -2.0)
    found = qkv.scaled_dot_product_attention(
        q, k, v, score_mod=score, mask_mod=mask_mod, masked_value=-2.0, return_weights=True
    )[1]
    e = np.exp(s)
    np.testing.assert_allclose(found, e / e.sum(-1, keepdims=True), atol=1e-13)


def test_dropout():
    q, k, v = cases.inputs()
    keep = np.random.default_rng(6).random((B, H, LQ, LK)) < 0.7
    y, w = qkv.scaled_dot_product_attention(
        q, k, v, dropout_p=0.3, dropout_keep=keep, return_weights=True, **BOTH
    )
    np.testing.assert_allclose(w, cases.expected(q, k, v, score_mod, mask_mod)[1], atol=1e-13)
    np.testing.assert_allclose(y, (w * keep / 0.7) @ v, atol=1e-13)


def test_dropout_draws_what_the_fused_path_draws():
    q, k, v = cases.inputs()
    results = []
    for formula in ({}, {"score_mod": lambda s, b, h, i, j: s}):
        qkv.manual_seed(3)
        results.append(qkv.scaled_dot_product_attention(q, k, v, dropout_p=0.4, **formula))
    np.testing.assert_allclose(*results, atol=1e-13)


def test_grouped_heads():
    q, k, v = cases.inputs()
    x, y = k[:, :1], v[:, :1]
    found = qkv.scaled_dot_product_attention(q, x, y, enable_gqa=True, **BOTH)
    wanted = cases.expected(q, np.repeat(x, H, 1), np.repeat(y, H, 1), score_mod, mask_mod)[0]
    np.testing.assert_allclose(found, wanted, atol=1e-13)


@pytest.mark.parametrize("rank", [2, 3])
def test_smaller_ranks_have_the_indices_0(rank):
    q, k, v = (x[0, 0] if rank == 2 else x[:, 0] for x in cases.inputs())
    found = qkv.scaled_dot_product_attention(q, k, v, **BOTH)
    whole = qkv.scaled_dot_product_attention(*(x[:, 0:1] for x in cases.inputs()), **BOTH)
    np.testing.assert_allclose(found, whole[0, 0] if rank == 2 else whole[:, 0], atol=1e-15)


def test_weights_change_no_bit():
    q, k, v = cases.inputs()
    y = qkv.scaled_dot_product_attention(q, k, v, **BOTH)
    assert y.tobytes() == qkv.scaled_dot_product_attention(q, k, v, return_weights=True, **BOTH)[0].tobytes()


def test_empty_batches():
    y = qkv.scaled_dot_product_attention(
        np.ones((0, 3, 5, 2)), np.ones((0, 3, 7, 2)), np.ones((0, 3, 7, 2)), **BOTH
    )
    assert y.shape == (0, 3, 5, 2)
    y = qkv.scaled_dot_product_attention(
        np.ones((1, 1, 5, 2)), np.ones((1, 1, 0, 2)), np.ones((1, 1, 0, 2)), **BOTH
    )
    np.testing.assert_array_equal(y, np.zeros((1, 1, 5, 2)))


def test_what_is_excluded_reaches_nothing():
    """NaN in keys, values and captured arrays in masked places, and NaN that the formula makes there."""
    q, k, v = cases.inputs()
    k[:, :, 9:], v[:, :, 9:] = np.nan, np.nan
    table = qkv.tensor(np.where(np.arange(LK) < 9, 0.5, np.nan), requires_grad=True)
    inputs = [qkv.tensor(x, requires_grad=True) for x in (q, k, v)]

    def score(s, b, h, i, j):
        return s * table[j] + np.log(9.0 - j)

    y = qkv.scaled_dot_product_attention(*inputs, score_mod=score, mask_mod=lambda b, h, i, j: j < 9)
    y.sum().backward()
    assert np.isfinite(y.detach()).all()
    for x in (*inputs, table):
        assert np.isfinite(x.grad).all()
        assert np.any(np.asarray(x.grad) != 0)
    assert not table.grad.numpy()[9:].any()


def test_a_row_of_nothing_is_zeros():
    q, k, v = cases.inputs()
    x = qkv.tensor(q, requires_grad=True)
    y = qkv.scaled_dot_product_attention(
        x,
        k,
        v,
        score_mod=lambda s, b, h, i, j: np.where(i == 2, -np.inf, s),
        mask_mod=lambda b, h, i, j: i != 4,
    )
    y.sum().backward()
    assert not y.detach().numpy()[:, :, [2, 4]].any()
    assert not x.grad.numpy()[:, :, [2, 4]].any()
    assert x.grad.numpy()[:, :, 3].any()


def test_layers():
    qkv.manual_seed(0)
    layer = qkv.nn.MultiHeadAttention(12, H).eval()
    x = np.random.default_rng(7).standard_normal((B, LQ, 12)).astype("float32")
    alibi = qkv.scores.alibi(qkv.alibi_slopes(H))
    y = layer(x, score_mod=alibi, mask_mod=formulas.causal)
    w = np.asarray(layer.attention_weights)
    same = qkv.nn.MultiHeadAttention(12, H, alibi=True, is_causal=True).eval()
    same.load_state_dict(layer.state_dict())
    np.testing.assert_allclose(y.detach(), same(x).detach(), atol=2e-6)
    np.testing.assert_allclose(w, same.attention_weights, atol=2e-6)


def test_a_cache_moves_the_queries():
    qkv.manual_seed(0)
    layer, cache = qkv.nn.MultiHeadAttention(12, H).eval(), qkv.nn.KVCache()
    x = np.random.default_rng(7).standard_normal((B, LQ, 12)).astype("float32")
    whole = layer(x, score_mod=score_mod, mask_mod=formulas.causal).detach()
    for t in range(LQ):
        y = layer(x[:, t : t + 1], cache=cache, score_mod=score_mod, mask_mod=formulas.causal)
        np.testing.assert_allclose(y.detach()[:, 0], whole[:, t], atol=2e-6)


def test_transformer_layers():
    qkv.manual_seed(0)
    x, memory = (np.random.default_rng(8).standard_normal((B, n, 12)).astype("float32") for n in (LQ, LK))
    encoder = qkv.nn.TransformerEncoder(qkv.nn.TransformerEncoderLayer(12, H, 17).eval(), 2).eval()
    np.testing.assert_allclose(
        encoder(x, mask_mod=formulas.causal).detach(), encoder(x, is_causal=True).detach(), atol=1e-6
    )
    decoder = qkv.nn.TransformerDecoderLayer(12, H, 17).eval()
    lens = np.array([5, 13])
    wanted = decoder(x, memory, is_causal=True, memory_valid_lens=lens).detach()
    found = decoder(
        x, memory, mask_mod=formulas.causal, memory_mask_mod=lambda b, h, i, j: j < lens[b]
    ).detach()
    np.testing.assert_allclose(found, wanted, atol=1e-6)
    changed = decoder(x, memory, is_causal=True, memory_valid_lens=lens, memory_score_mod=lambda s, *_: 3 * s)
    assert np.abs(changed.detach() - wanted).max() > 1e-3
    changed = decoder(x, memory, is_causal=True, memory_valid_lens=lens, score_mod=lambda s, *_: 3 * s)
    assert np.abs(changed.detach() - wanted).max() > 1e-3
