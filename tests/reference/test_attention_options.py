"""Each option of the reference attention against its definition, written with one dense table of scores."""

from __future__ import annotations

import numpy as np
import pytest
from tolerances import TOLERANCES

from qkv import reference

attend = reference.scaled_dot_product_attention
B, H, LQ, LK, D, DV = 2, 3, 5, 7, 11, 13
EXACT = TOLERANCES["float64"]


@pytest.fixture
def qkv():
    rng = np.random.default_rng(5)
    return [rng.normal(size=s) for s in ((B, H, LQ, D), (B, H, LK, D), (B, H, LK, DV))]


def dense(q, k, v, change=lambda s: s, allowed=True):
    """Softmax of the changed scores with excluded ones at -inf."""
    scores = np.where(allowed, change(q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])), -np.inf)
    top = np.where((scores > -np.inf).any(-1, keepdims=True), scores.max(-1, keepdims=True), 0)
    e = np.exp(scores - top)
    total = e.sum(-1, keepdims=True)
    return np.divide(e, total, out=np.zeros_like(e), where=total > 0) @ v


def test_plain_and_ranks(qkv):
    q, k, v = qkv
    out, w, lse = attend(q, k, v, return_weights=True, return_lse=True)
    np.testing.assert_allclose(out, dense(q, k, v), *EXACT)
    np.testing.assert_allclose(lse, reference.logsumexp(q @ k.swapaxes(-1, -2) / np.sqrt(D), -1), *EXACT)
    for part, rank in (((0,), 3), ((0, 1), 2)):
        pieces = [x[part] for x in qkv]
        small = attend(*pieces, return_weights=True, return_lse=True)
        assert pieces[0].ndim == rank
        for ours, whole in zip(small, (out, w, lse), strict=True):
            np.testing.assert_array_equal(ours, whole[part])


def test_scores_are_changed_in_order(qkv):
    q, k, v = qkv
    slopes, bias = np.array([0.5, 0.25, 0.125]), np.random.default_rng(1).normal(size=(H, LQ, LK))
    distance = np.abs(np.arange(LQ)[:, None] + 2 - np.arange(LK))

    def change(s):
        s = s * np.sqrt(D) * 0.7
        return 1.5 * np.tanh(s / 1.5) - slopes[:, None, None] * distance + bias

    out = attend(q, k, v, bias, scale=0.7, softcap=1.5, alibi_slopes=slopes, q_offset=2)
    np.testing.assert_allclose(out, dense(q, k, v, change), *EXACT)


def test_exclusions_combine(qkv):
    q, k, v = qkv
    mask = np.random.default_rng(2).random((B, H, LQ, LK)) < 0.8
    lens = np.array([[7, 6, 5, 4, 3], [0, 2, 3, 7, 1]])
    j, p = np.arange(LK), np.arange(LQ)[:, None] + np.array([1, -2])[:, None, None, None]
    allowed = mask & (j < lens[:, None, :, None]) & (j <= p) & (j >= p - 3)
    out, w, lse = attend(
        q, k, v, mask, is_causal=True, valid_lens=lens, window=(3, -1), q_offset=[1, -2],
        return_weights=True, return_lse=True,
    )  # fmt: skip
    np.testing.assert_allclose(out, dense(q, k, v, allowed=allowed), *EXACT)
    empty = ~allowed.any(-1)
    assert empty.any()
    assert not empty.all()
    assert (out[empty] == 0).all()
    assert (lse[empty] == -np.inf).all()
    assert np.isfinite(lse[~empty]).all()
    assert (w[~np.broadcast_to(allowed, w.shape)] == 0).all()


@pytest.mark.parametrize(("alignment", "offset"), [(True, 0), ("lower_right", LK - LQ)])
def test_causal_alignment(qkv, alignment, offset):
    allowed = np.arange(LK) <= np.arange(LQ)[:, None] + offset
    np.testing.assert_allclose(attend(*qkv, is_causal=alignment), dense(*qkv, allowed=allowed), *EXACT)
    window = allowed & (np.arange(LK) >= np.arange(LQ)[:, None] + offset - 2)
    narrow = attend(*qkv, is_causal=alignment, window=(2, 4))
    np.testing.assert_allclose(narrow, dense(*qkv, allowed=window), *EXACT)


def test_window_to_the_right(qkv):
    j, p = np.arange(LK), np.arange(LQ)[:, None]
    np.testing.assert_allclose(attend(*qkv, window=(-1, 1)), dense(*qkv, allowed=j <= p + 1), *EXACT)
    np.testing.assert_allclose(attend(*qkv, window=(-1, -1)), dense(*qkv), *EXACT)


def test_mask_ranks_follow_numpy(qkv):
    rng = np.random.default_rng(3)
    for shape in ((LK,), (LQ, LK), (H, LQ, LK), (1, LQ, LK), (B, 1, LQ, LK), (B, 1, 1, LK)):
        mask = rng.random(shape) < 0.7
        np.testing.assert_allclose(attend(*qkv, mask), dense(*qkv, allowed=mask), *EXACT)
        np.testing.assert_array_equal(attend(*qkv, np.where(mask, 0.0, -np.inf)), attend(*qkv, mask))
    with pytest.raises(ValueError, match="broadcast"):
        attend(*qkv, np.ones((B, LQ, LK), bool))
    with pytest.raises(TypeError, match=r"mask must be boolean .* got int64"):
        attend(*qkv, np.ones((LQ, LK), np.int64))


def test_filled_instead_of_skipped(qkv):
    q, k, v = qkv
    out, w, lse = attend(q, k, v, valid_lens=[0, 4], masked_value=-3.0, return_weights=True, return_lse=True)
    np.testing.assert_allclose(w[0], 1 / LK, *EXACT)
    np.testing.assert_allclose(lse[0], np.log(LK) - 3, *EXACT)
    filled = np.where(np.arange(LK) < 4, q[1] @ k[1].swapaxes(-1, -2) / np.sqrt(D), -3.0)
    np.testing.assert_allclose(out[1], reference.softmax(filled) @ v[1], *EXACT)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("how", ["valid_lens", "boolean", "float", "causal", "window"])
def test_excluded_keys_may_hold_anything(qkv, bad, how):
    q, k, v = qkv
    options = {
        "valid_lens": {"valid_lens": [5, 5]},
        "boolean": {"attn_mask": np.arange(LK) < 5},
        "float": {"attn_mask": np.where(np.arange(LK) < 5, 0.5, -np.inf)},
        "causal": {"is_causal": True},
        "window": {"window": (-1, 0)},
    }[how]
    clean = attend(q, k, v, **options, return_weights=True, return_lse=True)
    k[:, :, 5:], v[:, :, 5:] = bad, bad
    for ours, expected in zip(
        attend(q, k, v, **options, return_weights=True, return_lse=True), clean, strict=True
    ):
        np.testing.assert_array_equal(ours, expected)
    assert np.isnan(attend(q, k, v, **options, masked_value=-1e9)).any()


def test_grouped_heads():
    rng = np.random.default_rng(4)
    q, k, v = (rng.normal(size=s) for s in ((B, 6, LQ, D), (B, 2, LK, D), (B, 2, LK, DV)))
    out = attend(q, k, v, enable_gqa=True)
    for h in range(6):
        np.testing.assert_array_equal(out[:, h], attend(q[:, h], k[:, h // 3], v[:, h // 3]))
    with pytest.raises(ValueError, match=r"key must have H = 6 heads.*got 2 heads"):
        attend(q, k, v)
    with pytest.raises(ValueError, match=r"key must have H = 5 heads.*got 2 heads"):
        attend(q[:, :5], k, v, enable_gqa=True)


def test_sinks(qkv):
    q, k, v = qkv
    sinks = np.array([0.3, -1.0, 2.0])
    out, w, lse = attend(q, k, v, valid_lens=[LK, 0], sinks=sinks, return_weights=True, return_lse=True)
    logits = q[0] @ k[0].swapaxes(-1, -2) / np.sqrt(D)
    extended = np.concatenate([logits, np.broadcast_to(sinks[:, None, None], (H, LQ, 1))], -1)
    np.testing.assert_allclose(w[0], reference.softmax(extended)[..., :-1], *EXACT)
    np.testing.assert_allclose(lse[0], reference.logsumexp(extended, -1), *EXACT)
    assert (out[1] == 0).all()
    assert (w[1] == 0).all()
    np.testing.assert_array_equal(lse[1], np.broadcast_to(sinks[:, None], (H, LQ)))


def test_dropout(qkv):
    keep = np.random.default_rng(6).random((B, H, LQ, LK)) < 0.75
    out, w = attend(*qkv, None, 0.25, dropout_keep=keep, return_weights=True)
    np.testing.assert_allclose(out, (w * keep / 0.75) @ qkv[2], *EXACT)
    np.testing.assert_array_equal(w, attend(*qkv, return_weights=True)[1])
    assert (attend(*qkv, None, 1.0, dropout_keep=keep) == 0).all()
    with pytest.raises(ValueError, match=r"dropout_keep must be given .* got dropout_p = 0.25 alone"):
        attend(*qkv, None, 0.25)


def test_additive_attention_with_masks():
    rng = np.random.default_rng(7)
    q, k, v = (rng.normal(size=s) for s in ((B, LQ, D), (B, LK, D), (B, LK, DV)))
    weight, mask = rng.normal(size=D), rng.random((LQ, LK)) < 0.6
    keep = rng.random((B, LQ, LK)) < 0.5
    scores = np.array([[[np.tanh(a + b) @ weight for b in k[n]] for a in q[n]] for n in range(B)])
    filled = np.where(mask, scores, -2.0)
    out, w = reference.additive_attention(
        q,
        k,
        v,
        weight,
        attn_mask=mask,
        masked_value=-2.0,
        dropout_p=0.5,
        dropout_keep=keep,
        return_weights=True,
    )
    np.testing.assert_allclose(w, reference.softmax(filled), *EXACT)
    np.testing.assert_allclose(out, (w * keep * 2) @ v, *EXACT)
    clean = reference.additive_attention(q, k, v, weight, valid_lens=[4, 0])
    k[:, 4:], v[:, 4:] = np.nan, np.inf
    np.testing.assert_array_equal(reference.additive_attention(q, k, v, weight, valid_lens=[4, 0]), clean)
    assert (clean[1] == 0).all()
    assert (clean[0] != 0).all()


def test_legal_edges():
    assert attend(np.zeros((0, 3, 5, 7)), np.zeros((0, 3, 2, 7)), np.zeros((0, 3, 2, 4))).shape == (
        0,
        3,
        5,
        4,
    )
    assert (
        attend(np.ones((5, 1)), np.ones((1, 1)), np.full((1, 2), 3.0), scale=-1.0).tolist()
        == [[3.0, 3.0]] * 5
    )
    out, lse = attend(np.ones((5, 3)), np.ones((0, 3)), np.ones((0, 2)), return_lse=True)
    assert (out == 0).all()
    assert (lse == -np.inf).all()
    assert out.shape == (5, 2)


def test_refusals(qkv):
    q, k, v = qkv
    with pytest.raises(ValueError, match=r"q_offset must be None with 'lower_right' .* got q_offset = 1"):
        attend(q, k, v, is_causal="lower_right", q_offset=1)
    with pytest.raises(
        ValueError, match=r"is_causal must be .* 'upper_left' or 'lower_right' .* got 'upper'"
    ):
        attend(q, k, v, is_causal="upper")
    with pytest.raises(ValueError, match=r"key must have B = 2 and D = 11 .* got key \(2, 3, 7, 10\)"):
        attend(q, k[..., :10], v)
    with pytest.raises(ValueError, match=r"value must be .* with Lk = 7 .* got value \(2, 3, 6, 13\)"):
        attend(q, k, v[:, :, :6])
    with pytest.raises(ValueError, match=r"query, key and value must be .* got \(11,\)"):
        attend(q[0, 0, 0], k, v)
