"""Layers called without a batch give what a batch of one gives."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import close

import qkv
from qkv import nn
from qkv.testing import check_gradient

RANDOM = np.random.default_rng(23)
LQ, LK, M = 5, 7, 12
Q, K, V = RANDOM.standard_normal((LQ, M)), RANDOM.standard_normal((LK, M)), RANDOM.standard_normal((LK, M))
MASK = RANDOM.random((LQ, LK)) < 0.7
SQUARE = RANDOM.random((LQ, LQ)) < 0.7
LENS = RANDOM.integers(1, LK, LQ)


class Distance(nn.Attention):
    def score(self, queries, keys):
        return -((queries[..., :, None, :] - keys[..., None, :, :]) ** 2).sum(axis=-1)


ATTENTIONS = {
    "score": Distance,
    "score with heads": lambda: Distance(num_heads=3),
    "dot product": nn.DotProductAttention,
    "dot product with heads": lambda: nn.DotProductAttention(num_heads=3, window=(2, 1)),
    "additive": lambda: nn.AdditiveAttention(6, query_size=M, key_size=M).to("float64"),
    "additive with heads": lambda: nn.AdditiveAttention(6, num_heads=3, query_size=M, key_size=M).to(
        "float64"
    ),
    "multi-head": lambda: nn.MultiHeadAttention(M, 3).to("float64"),
}


@pytest.mark.parametrize("name", ATTENTIONS)
def test_attention(name):
    layer = ATTENTIONS[name]()
    heads = "heads" in name or name == "multi-head"
    one = lambda x: None if x is None else np.asarray(x)[None]  # noqa: E731
    calls = [
        ({}, {}),
        ({"valid_lens": 3}, {"valid_lens": [3]}),
        ({"valid_lens": [3]}, {"valid_lens": [3]}),
        ({"valid_lens": LENS}, {"valid_lens": one(LENS)}),
        ({"attn_mask": MASK}, {"attn_mask": one(MASK)}),
        ({"is_causal": True}, {"is_causal": True}),
        ({"attn_mask": MASK[None]}, {"attn_mask": one(MASK)}),
    ]
    if heads:
        each = RANDOM.random((3, LQ, LK)) < 0.7
        calls.append(({"attn_mask": each}, {"attn_mask": one(each)}))
    for alone, batched in calls:
        y, weights = layer(Q, K, V, **alone, return_weights=True)
        expected, every = layer(one(Q), one(K), one(V), **batched, return_weights=True)
        close(y.detach(), expected.detach()[0])
        close(weights.detach(), every.detach()[0])
        assert weights.shape == ((3,) if heads else ()) + (LQ, LK)
        close(layer(Q, K, V, **alone).detach(), y.detach())
        close(layer.attention_weights, weights.detach())
    check_gradient(lambda q, k, v: layer(q, k, v, valid_lens=3), Q, K, V)
    operation = "Attention" if isinstance(layer, Distance) else type(layer).__name__
    with pytest.raises(
        ValueError,
        match=rf"^{operation}: valid_lens must be one number or \(Lq,\) = \(5,\) because the input has no",
    ):
        layer(Q, K, V, valid_lens=[3, 4])
    with pytest.raises(ValueError, match=rf"^{operation}: attn_mask must be \(Lq, Lk\).* because the input"):
        layer(Q, K, V, attn_mask=np.ones((2, 3, LQ, LK), bool))


def test_ranks_are_not_mixed():
    for layer in (nn.DotProductAttention(), Distance()):
        with pytest.raises(
            ValueError, match=r"queries must be \(B, L, M\), or all three \(L, M\); got queries \(5, 12\)$"
        ):
            layer(Q, K[None], V[None])


def test_sizes_that_are_learned_at_the_first_call():
    layer = nn.AdditiveAttention(6)
    assert layer(Q, K, V).shape == (LQ, M)
    assert layer.W_q.weight.shape == (6, M)


def test_self_attention():
    layer = nn.SelfAttention(M, 4).to("float64")
    y, weights = layer(Q, valid_lens=3, return_weights=True)
    expected, every = layer(Q[None], valid_lens=[3], return_weights=True)
    close(y.detach(), expected.detach()[0])
    close(weights.detach(), every.detach()[0])
    assert weights.shape == (LQ, LQ)
    close(layer(Q, K, attn_mask=MASK).detach(), layer(Q[None], K[None], attn_mask=MASK).detach()[0])


@pytest.mark.parametrize("norm_first", [False, True])
def test_transformer_layers_and_stacks(norm_first):
    encoder = nn.TransformerEncoderLayer(M, 3, 8, norm_first=norm_first).to("float64").eval()
    decoder = nn.TransformerDecoderLayer(M, 3, 8, norm_first=norm_first).to("float64").eval()
    norm = nn.LayerNorm(M).to("float64")
    for encode in (encoder, nn.TransformerEncoder(encoder, 2, norm)):
        for alone, batched in (
            ({}, {}),
            ({"valid_lens": 3, "is_causal": True}, {"valid_lens": [3], "is_causal": True}),
            ({"attn_mask": SQUARE}, {"attn_mask": SQUARE}),
        ):
            close(encode(Q, **alone).detach(), encode(Q[None], **batched).detach()[0])
        check_gradient(lambda x, f=encode: f(x, valid_lens=3), Q)
    for decode in (decoder, nn.TransformerDecoder(decoder, 2, norm)):
        for alone, batched in (
            ({}, {}),
            ({"is_causal": True, "memory_valid_lens": 3}, {"is_causal": True, "memory_valid_lens": [3]}),
            ({"memory_attn_mask": MASK}, {"memory_attn_mask": MASK}),
        ):
            close(decode(Q, K, **alone).detach(), decode(Q[None], K[None], **batched).detach()[0])
        check_gradient(lambda x, m, f=decode: f(x, m, is_causal=True), Q, K)


def test_gru():
    layer = nn.GRU(M, 5, 2).to("float64")
    state = RANDOM.standard_normal((2, 5))
    for alone, batched in (
        ({}, {}),
        ({"state": state}, {"state": state[:, None]}),
        ({"valid_lens": 3}, {"valid_lens": [3]}),
        ({"valid_lens": [3]}, {"valid_lens": [3]}),
    ):
        y, last = layer(K, **alone)
        expected, final = layer(K[None], **batched)
        close(y.detach(), expected.detach()[0])
        close(last.detach(), final.detach()[:, 0])
    check_gradient(lambda x, h: layer(x, h, valid_lens=3), K, state)
    with pytest.raises(
        ValueError,
        match=r"^GRU: state must be \(num_layers, hidden_size\) = \(2, 5\) because x \(7, 12\) has no",
    ):
        layer(K, state[:, None])
    with pytest.raises(
        ValueError, match=r"^GRU: valid_lens must be one number because x \(7, 12\) has no batch axis"
    ):
        layer(K, valid_lens=[3, 4])


def test_the_other_layers_take_any_axes():
    for layer in (nn.PositionalEncoding(M), nn.PositionWiseFFN(M, 8), nn.LayerNorm(M), nn.Linear(M, 3)):
        close(layer(Q).detach(), layer(Q[None]).detach()[0], "float32")
    close(nn.AddNorm(M)(Q, Q * 2).detach(), nn.AddNorm(M)(Q[None], Q[None] * 2).detach()[0], "float32")
    assert nn.Embedding(5, 3)([1, 2]).shape == (2, 3)


def test_pytorch_gives_the_same():
    torch = pytest.importorskip("torch")
    theirs = torch.nn.TransformerEncoderLayer(M, 3, 8, 0.0, dtype=torch.float64, batch_first=True)
    ours = nn.TransformerEncoderLayer(M, 3, 8, 0.0).to("float64")
    ours.load_state_dict(theirs.state_dict())
    allowed = SQUARE | np.eye(LQ, dtype=bool)
    with torch.no_grad():
        expected = theirs(torch.tensor(Q), src_mask=torch.tensor(~allowed))
    np.testing.assert_allclose(ours(Q, attn_mask=allowed).detach(), expected, rtol=1e-9)
    with torch.no_grad():
        np.testing.assert_allclose(ours(Q).detach(), theirs(torch.tensor(Q)), rtol=1e-9)
    assert isinstance(ours(qkv.tensor(Q)), qkv.Tensor)
