"""qkv.scores and qkv.masks.formulas beside the papers' formulas written out, and what they refuse."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sweep import sweep

import qkv
from qkv import _formulas, scores
from qkv.masks import formulas

from . import cases
from .cases import LK, LQ, B, H


def shown(formula, Lq=LQ, Lk=LK):
    """Return what a formula makes of scores of 0 by attending to them: its scores, up to a number for each query."""
    q, k = np.zeros((B, H, Lq, 1)), np.zeros((B, H, Lk, 1))
    weights = qkv.scaled_dot_product_attention(q, k, k, score_mod=formula, return_weights=True)[1]
    return np.log(np.asarray(weights))


def equal(found, wanted):
    wanted = np.broadcast_to(wanted, found.shape)
    wanted = wanted - np.log(np.exp(wanted).sum(-1, keepdims=True))
    np.testing.assert_allclose(found, wanted, atol=1e-6)


def test_alibi():
    i, j = np.ogrid[:LQ, :LK]
    slopes = qkv.alibi_slopes(H)
    equal(shown(scores.alibi(slopes)), -np.asarray(slopes)[:, None, None] * abs(i - j))
    equal(shown(scores.alibi([0.5, 0.25, 1.0])), -np.array([0.5, 0.25, 1.0])[:, None, None] * abs(i - j))


def test_soft_cap():
    q, k, v = cases.inputs()
    found = qkv.scaled_dot_product_attention(q, k, v, score_mod=scores.soft_cap(0.7))
    np.testing.assert_allclose(found, qkv.scaled_dot_product_attention(q, k, v, softcap=0.7), atol=1e-14)


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize(("buckets", "most"), [(32, 128), (8, 20), (6, 9)])
def test_relative_bias_is_the_layers(bidirectional, buckets, most):
    """At all distances up to 300, where buckets of float64 would differ at the powers."""
    options = {"num_buckets": buckets, "max_distance": most, "bidirectional": bidirectional}
    layer = qkv.nn.MultiHeadAttention(H, H, relative_bias=options, bias=False).eval()
    table = np.random.default_rng(0).standard_normal((buckets, H)).astype("float32")
    layer.load_state_dict(
        {**layer.state_dict(), "relative_bias.weight": table, "q_proj.weight": np.zeros((H, H), "float32")}
    )
    layer(np.ones((1, 301, H), "float32"))
    wanted = np.asarray(layer.attention_weights)
    zeros = np.zeros((1, H, 301, 1), "float32")
    formula = scores.relative_bias(table, most, bidirectional)
    found = qkv.scaled_dot_product_attention(zeros, zeros, zeros, score_mod=formula, return_weights=True)[1]
    np.testing.assert_allclose(found, wanted, rtol=2e-5)


def test_shaw_clips():
    products = np.random.default_rng(1).standard_normal((B, H, LQ, 7))
    i, j = np.ogrid[:LQ, :LK]
    wanted = products[:, :, i, np.clip(j - i, -3, 3) + 3]
    equal(shown(scores.shaw(products)), wanted)


def test_transformer_xl():
    products = np.random.default_rng(2).standard_normal((B, H, LQ, 2 * LK - 1))
    wanted = np.empty((B, H, LQ, LK))
    for i in range(LQ):
        for j in range(LK):
            wanted[:, :, i, j] = products[:, :, i, i - j + LK - 1]
    equal(shown(scores.transformer_xl(products)), wanted)


def traced_calls(monkeypatch):
    """Return a list that grows with each trace."""
    calls, trace = [], _formulas.trace

    def counted(*args):
        calls.append(args)
        return trace(*args)

    monkeypatch.setattr(_formulas, "trace", counted)
    return calls


def test_a_formula_is_traced_once_for_all_lengths(monkeypatch):
    calls = traced_calls(monkeypatch)
    table = qkv.tensor(np.random.default_rng(3).standard_normal((8, H)), requires_grad=True)
    formula = scores.relative_bias(table, max_distance=11)
    q, k, v = cases.inputs()
    with qkv.no_grad():
        for keys in range(5, LK):
            qkv.scaled_dot_product_attention(
                q[:, :, :1], k[:, :, :keys], v[:, :, :keys], q_offset=keys - 1, score_mod=formula
            )
    assert len(calls) == 1
    values = np.asarray(table.detach()) * 2
    with qkv.no_grad():
        table *= 2
    found = qkv.scaled_dot_product_attention(q, k, v, score_mod=formula)
    fresh = scores.relative_bias(values, max_distance=11)
    np.testing.assert_allclose(
        np.asarray(found.detach()), qkv.scaled_dot_product_attention(q, k, v, score_mod=fresh), atol=1e-14
    )
    found.sum().backward()
    assert np.abs(np.asarray(table.grad)).max() > 0


def test_an_index_that_leaves_its_array_is_found_at_each_length():
    products = np.random.default_rng(4).standard_normal((B, H, LQ, 2 * LK - 1))
    formula = scores.transformer_xl(products)
    q, k, v = cases.inputs()
    qkv.scaled_dot_product_attention(q, k, v, score_mod=formula)
    longer = np.concatenate([k, k, k], 2), np.concatenate([v, v, v], 2)
    with pytest.raises(IndexError, match=r"score_mod must index axis 3 .* \(in transformer_xl"):
        qkv.scaled_dot_product_attention(q, *longer, score_mod=formula)


@pytest.mark.parametrize("mask_mod", [None, formulas.causal])
@pytest.mark.parametrize("heads", [H - 1, H + 1])
@pytest.mark.parametrize(
    ("name", "argument", "make"),
    [
        ("alibi", "slopes", lambda heads: scores.alibi(np.ones(heads))),
        ("relative_bias", "table", lambda heads: scores.relative_bias(np.ones((8, heads)))),
        ("shaw", "query_times_table", lambda heads: scores.shaw(np.ones((B, heads, LQ, 3)))),
        (
            "transformer_xl",
            "query_times_positions",
            lambda heads: scores.transformer_xl(np.ones((B, heads, LQ, 2 * LK - 1))),
        ),
        (
            "disentangled",
            "position_to_content",
            lambda heads: scores.disentangled(np.ones((B, H, LQ, 4)), np.ones((B, heads, LK, 4)), 2),
        ),
    ],
)
def test_arrays_of_other_heads_are_refused(name, argument, make, heads, mask_mod):
    """Of too many the first ones would be read."""
    text = rf"score_mod {name} must have {argument} of H = {H} heads as the call has; got {argument} \("
    q, k, v = cases.inputs()
    with pytest.raises(ValueError, match=text):
        qkv.scaled_dot_product_attention(q, k, v, score_mod=make(heads), mask_mod=mask_mod)


def test_options_of_layers_trace_nothing(monkeypatch):
    calls = traced_calls(monkeypatch)
    layer = qkv.nn.MultiHeadAttention(H * 4, H, alibi=True, softcap=5.0, relative_bias={}, is_causal=True)
    cache = qkv.nn.KVCache()
    for _ in range(3):
        layer(np.ones((1, 1, H * 4), "float32"), cache=cache)
    assert len(cache) == 3
    assert calls == []


def test_rows_of_a_cache():
    """The rows are those of the call's queries, which come after a cache."""
    products = np.random.default_rng(2).standard_normal((1, H, LQ, 2 * LQ - 1))
    q, k, v = (x[:1] for x in cases.inputs())
    k, v = k[:, :, :LQ], v[:, :, :LQ]
    whole = qkv.scaled_dot_product_attention(q, k, v, score_mod=scores.transformer_xl(products))
    last = qkv.scaled_dot_product_attention(
        q[:, :, 7:], k, v, score_mod=scores.transformer_xl(products[:, :, 7:], q_offset=7), q_offset=7
    )
    np.testing.assert_allclose(last, whole[:, :, 7:], atol=1e-14)


def test_disentangled():
    r = np.random.default_rng(3)
    c2p, p2c = r.standard_normal((B, H, LQ, 8)), r.standard_normal((B, H, LK, 8))
    wanted = np.empty((B, H, LQ, LK))

    def delta(i, j):
        return 0 if i - j <= -4 else 7 if i - j >= 4 else i - j + 4

    for i in range(LQ):
        for j in range(LK):
            wanted[:, :, i, j] = c2p[:, :, i, delta(i, j)] + p2c[:, :, j, delta(j, i)]
    equal(shown(scores.disentangled(c2p, p2c, 4)), wanted)


@sweep(
    "make, kind, text",
    [
        (lambda: scores.alibi(0.5), ValueError, r"alibi: slopes must be \(H,\); got slopes \(\)"),
        (
            lambda: scores.soft_cap(0),
            ValueError,
            "soft_cap: cap must be above 0 because scores stay below it; got 0",
        ),
        (lambda: scores.soft_cap(math.inf), ValueError, "soft_cap: cap must be above 0"),
        (lambda: scores.soft_cap(None), ValueError, "soft_cap: cap must be above 0 .*; got None"),
        (
            lambda: scores.relative_bias(np.zeros((8, 2)), None),
            ValueError,
            "relative_bias: max_distance must be above 2, .*; got None",
        ),
        (
            lambda: scores.relative_bias(np.zeros((8, 2)), math.nan),
            ValueError,
            "relative_bias: max_distance must be above 2, .*; got nan",
        ),
        (
            lambda: scores.shaw(np.ones((1, 1, 2, 3)), q_offset=1.5),
            TypeError,
            "shaw: q_offset must be an integer .*; got 1.5",
        ),
        (
            lambda: scores.transformer_xl(np.ones((1, 1, 2, 3)), q_offset=None),
            TypeError,
            "transformer_xl: q_offset must be an integer .*; got None",
        ),
        (
            lambda: scores.disentangled(np.ones((1, 1, 2, 4)), np.ones((1, 1, 2, 4)), 2.0),
            TypeError,
            "disentangled: max_distance must be an integer .*; got 2.0",
        ),
        (
            lambda: scores.relative_bias(np.ones(3)),
            ValueError,
            r"table must be \(num_buckets, H\); got table \(3,\)",
        ),
        (lambda: scores.relative_bias(np.ones((3, 2))), ValueError, "table must have at least 4 buckets"),
        (
            lambda: scores.relative_bias(np.ones((8, 2)), 2),
            ValueError,
            "max_distance must be above 2, .* got 2",
        ),
        (
            lambda: scores.shaw(np.ones((2, 3))),
            ValueError,
            r"shaw: query_times_table must be \(B, H, Lq, 2 K \+ 1\)",
        ),
        (
            lambda: scores.shaw(np.ones((1, 1, 2, 4))),
            ValueError,
            "must have an odd number of distances .* got 4",
        ),
        (
            lambda: scores.transformer_xl(np.ones((1, 1, 2, 4))),
            ValueError,
            "must have an odd number of distances",
        ),
        (
            lambda: scores.disentangled(np.ones((1, 1, 2, 4)), np.ones((1, 1, 2, 6)), 2),
            ValueError,
            r"position_to_content must be \(B, H, L, 2 K\) with K = max_distance = 2; got .* \(1, 1, 2, 6\)",
        ),
        (lambda: formulas.sliding_window(-2), ValueError, "sliding_window: left must be at least -1; got -2"),
        (
            lambda: formulas.sliding_window(1, 1.5),
            TypeError,
            "sliding_window: right must be an integer .*; got 1.5",
        ),
        (lambda: formulas.dilated(3, 0), ValueError, "dilated: step must be at least 1; got 0"),
        (lambda: formulas.prefix(-1), ValueError, "prefix: length must be at least 0; got -1"),
        (
            lambda: formulas.prefix([[1]]),
            ValueError,
            r"prefix: length must be a number or \(B,\); got length \(1, 1\)",
        ),
        (
            lambda: formulas.documents(3),
            ValueError,
            r"documents: ids must be \(L,\) or \(B, L\); got ids \(\)",
        ),
        (lambda: formulas.neighbours(0, 3, 1), ValueError, "neighbours: height must be at least 1; got 0"),
        (lambda: formulas.strided(0), ValueError, "strided: step must be at least 1; got 0"),
        (
            lambda: formulas.global_window(-1, 3),
            ValueError,
            "global_window: window must be at least 0; got -1",
        ),
        (lambda: formulas.block_diffusion(0), ValueError, "block_diffusion: block must be at least 1; got 0"),
        (
            lambda: formulas.block_diffusion(2, 0),
            ValueError,
            "block_diffusion: length must be at least 1; got 0",
        ),
        (
            lambda: formulas.shared_prefix(-1, [0]),
            ValueError,
            "shared_prefix: prefix must be at least 0; got -1",
        ),
        (
            lambda: formulas.and_masks(3),
            TypeError,
            r"and_masks: masks must be functions \(b, h, q_idx, kv_idx\); got 3",
        ),
        (lambda: formulas.or_masks(None), TypeError, "or_masks: masks must be functions"),
        (lambda: formulas.not_mask(True), TypeError, "not_mask: masks must be functions"),
    ],
)
def test_refusals(make, kind, text):
    with pytest.raises(kind, match=text):
        make()


def masked(mask, L=12):
    i, j = np.ogrid[:L, :L]
    return np.broadcast_to(mask(0, 0, i, j), (L, L))


def test_neighbours_are_those_of_the_paper():
    """The (2r + 1)^2 nearest pixels, moved inwards at the border; of a side that is shorter, all."""
    for height, width, radius in ((3, 4, 1), (2, 6, 1), (4, 3, 0), (3, 4, 2)):
        found = masked(formulas.neighbours(height, width, radius))
        for i in range(12):
            kept = []
            for at, size in ((i // width, height), (i % width, width)):
                reach = min(2 * radius + 1, size)
                first = min(max(at - radius, 0), size - reach)
                kept.append(range(first, first + reach))
            wanted = {y * width + x for y in kept[0] for x in kept[1]}
            assert set(np.flatnonzero(found[i])) == wanted


def test_blocks_of_diffusion_in_training():
    found = masked(formulas.block_diffusion(2, 6))
    block = np.arange(6) // 2
    same, before = block[:, None] == block, block[:, None] > block
    np.testing.assert_array_equal(found[:6, :6], same)
    np.testing.assert_array_equal(found[:6, 6:], before)
    np.testing.assert_array_equal(found[6:, :6], np.zeros((6, 6), bool))
    np.testing.assert_array_equal(found[6:, 6:], same | before)


def test_the_others():
    i, j = np.ogrid[:12, :12]
    ids = np.arange(12) // 5
    for mask, wanted in (
        (formulas.causal, j <= i),
        (formulas.sliding_window(2, 1), (j >= i - 2) & (j <= i + 1)),
        (formulas.sliding_window(-1, -1), j >= 0),
        (formulas.dilated(6, 3), np.isin(i - j, [-6, -3, 0, 3, 6])),
        (formulas.prefix(4), (j < 4) | (j <= i)),
        (formulas.documents(ids), ids[i] == ids[j]),
        (formulas.strided(4), (j <= i) & ((i - j < 4) | ((i - j) % 4 == 0))),
        (formulas.global_window(1, 2), (abs(i - j) <= 1) | (i < 2) | (j < 2)),
        (formulas.block_diffusion(4), j // 4 <= i // 4),
        (formulas.shared_prefix(3, ids), (j < 3) | ((ids[i] == ids[j]) & (j <= i))),
        (formulas.and_masks(), j >= 0),
        (formulas.or_masks(), j < 0),
        (formulas.not_mask(formulas.causal), j > i),
    ):
        np.testing.assert_array_equal(masked(mask), np.broadcast_to(wanted, (12, 12)))
