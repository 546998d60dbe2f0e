"""A dropout mask has the shape of the weights that the layer shows, in every attention layer."""

import numpy as np
import pytest

from qkv import nn, reference

B, LQ, LK, M = 3, 5, 7, 4


def layers(dropout=0.25):
    return {
        "DotProductAttention": (nn.DotProductAttention(dropout=dropout), lambda q, k: (q, k, k)),
        "AdditiveAttention": (
            nn.AdditiveAttention(6, dropout, query_size=M, key_size=M),
            lambda q, k: (q, k, k),
        ),
        "SelfAttention": (nn.SelfAttention(M, 6, dropout=dropout), lambda q, k: (q, k)),
        "MultiHeadAttention": (nn.MultiHeadAttention(M, 2, dropout=dropout), lambda q, k: (q, k, k)),
    }


@pytest.mark.parametrize("name", layers())
def test_dropout_keep_has_the_shape_of_the_weights(name):
    layer, arguments = layers()[name]
    layer.to("float64")
    rng = np.random.default_rng(0)
    inputs = arguments(rng.standard_normal((B, LQ, M)), rng.standard_normal((B, LK, M)))
    plain = np.asarray(layer.eval()(*inputs))
    weights = np.asarray(layer.attention_weights)
    layer.train()
    everything = np.asarray(layer(*inputs, dropout_keep=np.ones(weights.shape, bool)))
    nothing = np.asarray(layer(*inputs, dropout_keep=np.zeros(weights.shape, bool)))
    one = np.ones(weights.shape, bool)
    one[1, ..., 2, 3] = False
    changed = np.asarray(layer(*inputs, dropout_keep=one)) != everything
    assert np.ptp(nothing.reshape(-1, nothing.shape[-1]), axis=0).max() == 0
    assert not np.allclose(everything, plain)
    assert changed[1, 2].any()
    changed[1, 2] = False
    assert not changed.any()


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("name", layers())
def test_dropout_keep_without_dropout_is_refused(name, training):
    layer, arguments = layers(0.0)[name]
    x = np.ones((B, LQ, M), np.float32)
    layer.train(training)
    message = "dropout must be above 0 because dropout_keep stands for its draw; got dropout = 0$"
    with pytest.raises(ValueError, match=message):
        layer(*arguments(x, x), dropout_keep=np.ones(LQ, bool))


def test_a_refused_call_leaves_the_cache_as_it_was():
    layer, cache = nn.MultiHeadAttention(M, 2), nn.KVCache()
    with pytest.raises(ValueError, match=r"got dropout = 0$"):
        layer(np.ones((B, LQ, M), np.float32), cache=cache, dropout_keep=np.ones(LQ, bool))
    assert len(cache) == 0


def test_the_reference_refuses_it_too():
    x, keep = np.ones((B, LQ, M)), np.ones((B, LQ, LQ), bool)
    message = "dropout_p must be above 0 because dropout_keep stands for its draw; got dropout_p = 0$"
    for function in (
        lambda: reference.scaled_dot_product_attention(x, x, x, dropout_keep=keep),
        lambda: reference.additive_attention(x, x, x, np.ones(M), dropout_keep=keep),
    ):
        with pytest.raises(ValueError, match=message):
            function()
