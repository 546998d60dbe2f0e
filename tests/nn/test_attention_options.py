"""num_heads, is_causal and window of Attention and its subclasses; weights that are asked for, and their gradients."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from helpers import close
from second_checks import check_second

import qkv
from qkv import masks, nn
from qkv.testing import check_gradient

RANDOM = np.random.default_rng(29)
B, H, LQ, LK, M = 2, 3, 5, 7, 6
Q, K, V = (RANDOM.standard_normal((B, length, M)) for length in (LQ, LK, LK))
MASK = RANDOM.random((B, LQ, LK)) < 0.8
BIAS = RANDOM.standard_normal((B, LQ, LK))


class Distance(nn.Attention):
    def score(self, queries, keys):
        return -((queries[..., :, None, :] - keys[..., None, :, :]) ** 2).sum(axis=-1)


class Product(nn.Attention):
    def score(self, queries, keys):
        return queries @ keys.swapaxes(-1, -2) / np.sqrt(queries.shape[-1])


def additive(**options):
    qkv.manual_seed(0)
    return nn.AdditiveAttention(6, query_size=M, key_size=M, **options).to("float64")


KINDS = {"score": Distance, "dot product": nn.DotProductAttention, "additive": additive}


def split(x):
    return x.reshape(B, x.shape[1], H, -1).swapaxes(1, 2)


def test_heads_are_parts_of_the_features():
    layer, single = Distance(num_heads=H), Distance()
    y, weights = layer(Q, K, V, return_weights=True)
    assert (y.shape, weights.shape) == ((B, LQ, M), (B, H, LQ, LK))
    for h in range(H):
        part, own = single(split(Q)[:, h], split(K)[:, h], split(V)[:, h], return_weights=True)
        close(y[:, :, 2 * h : 2 * h + 2], part)
        close(weights[:, h], own)
    assert layer.num_heads == H
    assert single.num_heads is None
    close(layer.attention_weights, weights)


def test_an_own_score_gives_what_the_fused_path_gives():
    for options in (
        {},
        {"num_heads": H},
        {"num_heads": H, "is_causal": True},
        {"is_causal": "lower_right", "window": (2, -1)},
        {"num_heads": 2, "window": (1, 2)},
        {"num_heads": 2, "window": (1, 2), "is_causal": True, "masked_value": -1e9},
    ):
        for call in (
            {},
            {"valid_lens": [3, 7]},
            {"attn_mask": MASK},
            {"attn_mask": BIAS},
            {"attn_mask": MASK[:, None], "valid_lens": np.full((B, LQ), 4)},
        ):
            own, fused = Product(**options), nn.DotProductAttention(**options)
            y, weights = own(Q, K, V, **call, return_weights=True)
            expected, theirs = fused(Q, K, V, **call, return_weights=True)
            close(y, expected)
            close(weights, theirs)
            close(own.attention_weights, fused.attention_weights)


@pytest.mark.parametrize("kind", KINDS)
def test_positions(kind):
    for options, excluded in (
        ({"is_causal": True}, masks.causal(LQ, LK)),
        ({"is_causal": "lower_right"}, masks.causal(LQ, LK, "lower_right")),
        ({"window": (1, 2)}, masks.window(LQ, LK, (1, 2))),
        ({"window": (1, 2), "is_causal": True}, masks.window(LQ, LK, (1, 2)) & masks.causal(LQ, LK)),
    ):
        for heads in ({}, {"num_heads": H}):
            layer, plain = KINDS[kind](**options, **heads), KINDS[kind](**heads)
            for more in (None, MASK, BIAS):
                mask = (
                    excluded
                    if more is None
                    else excluded & more
                    if more is MASK
                    else np.where(excluded, more, -np.inf)
                )
                y = layer(Q, K, V, attn_mask=more)
                close(y.detach(), plain(Q, K, V, attn_mask=mask).detach())
    causal = KINDS[kind]()(Q, K, V, is_causal=True)
    close(causal.detach(), KINDS[kind](is_causal=True)(Q, K, V).detach())
    close(KINDS[kind](is_causal=True)(Q, K, V, is_causal=False).detach(), KINDS[kind]()(Q, K, V).detach())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("heads", [None, H])
def test_gradients_of_output_and_weights(kind, heads):
    layer = KINDS[kind](num_heads=heads, is_causal=True, window=(2, -1))
    check_gradient(lambda q, k, v: layer(q, k, v, valid_lens=[3, 7], return_weights=True), Q, K, V)
    check_gradient(lambda q, m: layer(q, K, V, attn_mask=m, return_weights=True), Q, BIAS)
    check_second(lambda q, k: layer(q, k, V, return_weights=True), Q, K)


def test_weights_of_layers_with_projections():
    x = RANDOM.standard_normal((B, LQ, M))
    layers = {
        "multi-head": nn.MultiHeadAttention(M, H),
        "self-attention": nn.SelfAttention(M, 4),
        "encoder layer": nn.TransformerEncoderLayer(M, H, 8),
        "encoder": nn.TransformerEncoder(nn.TransformerEncoderLayer(M, H, 8), 2),
    }
    for layer in layers.values():
        layer.to("float64").eval()
        y, weights = layer(x, valid_lens=[3, 5], return_weights=True)
        np.testing.assert_array_equal(y.detach().numpy(), layer(x, valid_lens=[3, 5]).detach().numpy())
        listed = weights if isinstance(weights, list) else [weights]
        kept = getattr(layer, "attention_weights", None) if not hasattr(layer, "self_attn") else None
        kept = layer.self_attn.attention_weights if hasattr(layer, "self_attn") else kept
        for own, shown in zip(listed, kept if isinstance(kept, list) else [kept], strict=True):
            close(own.detach(), shown)
        check_gradient(
            lambda t, f=layer: (
                f(t, valid_lens=[3, 5], return_weights=True)[1]
                if not isinstance(f, nn.TransformerEncoder)
                else tuple(f(t, valid_lens=[3, 5], return_weights=True)[1])
            ),
            x,
        )
        layer.zero_grad()
        y, weights = layer(x, return_weights=True)
        (weights[-1] if isinstance(weights, list) else weights)[..., 0].sum().backward()
        projection = next(p for name, p in layer.named_parameters() if "q_proj" in name)
        assert np.abs(projection.grad.numpy()).max() > 0


def test_weights_of_a_decoder_are_those_of_the_memory():
    x, memory = RANDOM.standard_normal((B, LQ, M)), RANDOM.standard_normal((B, LK, M))
    layer = nn.TransformerDecoderLayer(M, H, 8).to("float64").eval()
    _, weights = layer(x, memory, is_causal=True, return_weights=True)
    assert weights.shape == (B, H, LQ, LK)
    close(weights.detach(), layer.multihead_attn.attention_weights)
    stack = nn.TransformerDecoder(layer, 2).eval()
    _, each = stack(x, memory, memory_valid_lens=[3, 7], return_weights=True)
    for own, shown in zip(each, stack.attention_weights, strict=True):
        close(own.detach(), shown)
    check_gradient(lambda t, m: tuple(stack(t, m, return_weights=True)[1]), x, memory)


def test_weights_are_before_dropout():
    layer = nn.MultiHeadAttention(M, H, dropout=0.5)
    _, weights = layer(Q, return_weights=True)
    np.testing.assert_allclose(weights.sum(-1).detach().numpy(), 1, rtol=1e-5)


def test_options_travel_and_are_checked():
    layer = nn.DotProductAttention(0.1, num_heads=H, is_causal=True, window=(2, 0), masked_value=-1e9)
    for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert repr(other) == repr(layer)
        assert other.num_heads == H
        close(other.eval()(Q, K, V), layer.eval()(Q, K, V))
    assert "num_heads=3" in repr(layer)
    with pytest.raises(ValueError, match=r"^Attention: num_heads must be at least 1; got 0$"):
        Distance(num_heads=0)
    with pytest.raises(ValueError, match=r"^Attention: queries must be .* with M divisible by num_heads = 4"):
        Distance(num_heads=4)(Q, K, V)
    with pytest.raises(
        ValueError, match=r"^DotProductAttention: queries, keys and values must be .* num_heads = 4"
    ):
        nn.DotProductAttention(num_heads=4)(Q, K, V)
    with pytest.raises(
        ValueError, match=r"^AdditiveAttention: num_hiddens must be divisible by num_heads; got"
    ):
        nn.AdditiveAttention(6, num_heads=4)
    with pytest.raises(ValueError, match=r"^DotProductAttention: window must be \(left, right\)"):
        nn.DotProductAttention(window=3)

    class Heads(nn.Attention):
        def score(self, queries, keys):
            return split(queries.numpy()) @ split(keys.numpy()).swapaxes(-1, -2)

    with pytest.raises(
        ValueError, match=r"score\(queries, keys\) must give \(B, Lq, Lk\) .*constructor's num_heads"
    ):
        Heads()(Q, K, V)


@pytest.mark.parametrize("shapes", [((5, 6), (7, 6)), ((2, 5, 6), (3, 7, 6)), ((2, 3, 5, 6), (2, 3, 7, 6))])
def test_additive_scores_check_what_they_read(shapes):
    q, k = (qkv.tensor(np.ones(shape)) for shape in shapes)
    with pytest.raises(
        ValueError, match=r"^AdditiveAttention: score takes queries \(B, Lq, M\) and keys \(B, Lk, M\); got"
    ):
        additive().score(q, k)
