"""Layers whose scores become weights by another normaliser than softmax."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from helpers import close

import qkv
from qkv import nn, reference

NORMALIZERS = ["sigmoid", "relu", "sparsemax", "entmax15"]
RNG = np.random.default_rng(7)
B, LQ, LK, M, DV = 2, 5, 7, 6, 3
Q, K, V = (RNG.standard_normal(s).astype("float32") for s in ((B, LQ, M), (B, LK, M), (B, LK, DV)))
LENS = [0, 4]


class Distance(nn.Attention):
    def score(self, queries, keys):
        return 1.0 - ((queries[..., :, None, :] - keys[..., None, :, :]) ** 2).mean(axis=-1)


def halves(scores):
    return qkv.maximum(scores, 0.0) / 2


def weights_of(scores, normalizer, lens=LENS):
    allowed = reference.rows.allowed_by_lengths(lens, scores.shape)
    return reference.rows.weights_per_row(np.asarray(scores, np.float64), allowed, normalizer=normalizer)[0]


@pytest.mark.parametrize("normalizer", NORMALIZERS)
def test_layers_by_their_score(normalizer):
    layers = [
        Distance(normalizer=normalizer),
        nn.DotProductAttention(normalizer=normalizer),
        nn.BilinearAttention(M, M, normalizer=normalizer),
        nn.AdditiveAttention(8, query_size=M, key_size=M, normalizer=normalizer),
    ]
    for layer in layers:
        scores = layer.score(qkv.tensor(Q), qkv.tensor(K)).numpy()
        output = layer(Q, K, V, valid_lens=LENS)
        weights = weights_of(scores, normalizer)
        close(layer.attention_weights, weights, "float32 gradient")
        close(output, weights @ V, "float32 gradient")
        assert not output.numpy()[0].any()
        assert layer.normalizer == normalizer
        assert f"normalizer='{normalizer}'" in repr(layer)
        again = pickle.loads(pickle.dumps(layer)) if type(layer) is not Distance else copy.deepcopy(layer)
        close(again(Q, K, V, valid_lens=LENS), output, "float32")


def test_a_layer_with_its_own_pooling_keeps_the_normalizer():
    class First(nn.DotProductAttention):
        def pool(self, weights, values):
            return super().pool(weights, values)

    expected = nn.DotProductAttention(normalizer="sparsemax")(Q, K, V, LENS)
    close(First(normalizer="sparsemax")(Q, K, V, LENS), expected, "float32")


@pytest.mark.parametrize(
    "function",
    [qkv.softmax, qkv.sparsemax, qkv.sigmoid, halves],
    ids=["softmax", "sparsemax", "sigmoid", "own"],
)
def test_a_function_of_scores(function):
    qkv.manual_seed(3)  # some scores of the additive layer are above 0
    for layer in (
        Distance(normalizer=function),
        nn.DotProductAttention(normalizer=function),
        nn.AdditiveAttention(8, query_size=M, key_size=M, normalizer=function),
    ):
        layer.to("float64")
        assert layer.normalizer is function
        q = qkv.tensor(Q.astype("float64"), requires_grad=True)
        k, v = K.astype("float64"), V.astype("float64")
        output = layer(q, k, v, valid_lens=LENS)
        name = {"softmax": "softmax", "sparsemax": "sparsemax", "sigmoid": "sigmoid"}.get(
            function.__name__, "relu"
        )
        weights = weights_of(layer.score(q, qkv.tensor(k)).detach().numpy(), name)
        close(output.detach(), (weights / 2 if function is halves else weights) @ v)
        output.sum().backward()
        assert np.isfinite(q.grad.numpy()).all()
        assert not q.grad.numpy()[0].any()
        assert q.grad.numpy()[1].any()
        assert copy.deepcopy(layer).normalizer is function
        assert (
            pickle.loads(pickle.dumps(layer)).normalizer is function if type(layer) is not Distance else True
        )


def test_what_a_function_may_not_do():
    with pytest.raises(
        TypeError, match=r"^Attention: normalizer must be a name or a function of scores; got 3$"
    ):
        nn.Attention(normalizer=3)
    with pytest.raises(ValueError, match=r'^Attention: normalizer must be "softmax", .*; got "mean"$'):
        nn.Attention(normalizer="mean")
    layer = Distance(normalizer=lambda scores: scores[..., 0])
    with pytest.raises(
        ValueError, match=r"^Attention: normalizer\(scores\) must keep the shape \(2, 5, 7\) .*\(2, 5\)$"
    ):
        layer(Q, K, V)
    layer = Distance(normalizer=lambda scores: np.ones(scores.shape))
    with pytest.raises(TypeError, match=r"^normalizer: must return a Tensor because .* lost the gradient"):
        layer(qkv.tensor(Q, requires_grad=True), K, V)


@pytest.mark.parametrize("normalizer", NORMALIZERS)
def test_multi_head_attention(normalizer):
    qkv.manual_seed(0)
    layer = nn.MultiHeadAttention(12, 3, num_kv_heads=1, normalizer=normalizer).to("float64")
    x = RNG.standard_normal((2, 9, 12))
    output = layer(x, valid_lens=[0, 7], is_causal=True)
    q, k, v = (
        f(x).numpy().reshape(2, 9, -1, 4).swapaxes(1, 2) for f in (layer.q_proj, layer.k_proj, layer.v_proj)
    )
    expected, weights = reference.scaled_dot_product_attention(
        *(q, k, v),
        enable_gqa=True,
        valid_lens=[0, 7],
        is_causal=True,
        normalizer=normalizer,
        return_weights=True,
    )
    close(output, layer.out_proj(expected.swapaxes(1, 2).reshape(2, 9, 12)))
    close(layer.attention_weights, weights)
    again = pickle.loads(pickle.dumps(layer))
    assert f"normalizer='{normalizer}'" in repr(again)
    close(again(x, valid_lens=[0, 7], is_causal=True), output)
    cache = nn.KVCache()
    steps = [layer(x[:, i : i + 1], is_causal=True, cache=cache).numpy() for i in range(9)]
    close(np.concatenate(steps, axis=1), layer(x, is_causal=True))


@pytest.mark.parametrize("normalizer", NORMALIZERS)
def test_transformer_layers(normalizer):
    qkv.manual_seed(0)
    x = RNG.standard_normal((2, 5, 12)).astype("float32")
    encoder = nn.TransformerEncoderLayer(12, 3, 16, dropout=0.0, normalizer=normalizer)
    inner = nn.MultiHeadAttention(12, 3, normalizer=normalizer)
    inner.load_state_dict(encoder.self_attn.state_dict())
    other = nn.TransformerEncoderLayer(12, 3, 16, dropout=0.0, attention=inner)
    other.load_state_dict(encoder.state_dict())
    close(encoder(x, valid_lens=[3, 5]), other(x, valid_lens=[3, 5]), "float32")
    plain = nn.TransformerEncoderLayer(12, 3, 16, dropout=0.0)
    plain.load_state_dict(encoder.state_dict())
    assert np.abs(plain(x).numpy() - encoder(x).numpy()).max() > 1e-3
    decoder = nn.TransformerDecoderLayer(12, 3, 16, dropout=0.0, normalizer=normalizer)
    assert decoder(x, x).shape == (2, 5, 12)
    with pytest.raises(ValueError, match=r"normalizer, .* must be given to attention"):
        nn.TransformerEncoderLayer(12, 3, attention=inner, normalizer=normalizer)


def test_sinks_are_of_softmax():
    with pytest.raises(
        ValueError,
        match=r"^MultiHeadAttention: sinks must be False because they belong to the sum of a softmax; got True with "
        r'normalizer "relu"$',
    ):
        nn.MultiHeadAttention(6, 2, sinks=True, normalizer="relu")
