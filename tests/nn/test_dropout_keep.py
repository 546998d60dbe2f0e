"""A dropout mask has the shape of the weights that the layer shows, in every attention layer."""

import numpy as np
import pytest

from qkv import nn

B, LQ, LK, M = 3, 5, 7, 4


def layers():
    return {
        "DotProductAttention": (nn.DotProductAttention(dropout=0.25), lambda q, k: (q, k, k)),
        "AdditiveAttention": (
            nn.AdditiveAttention(6, 0.25, query_size=M, key_size=M),
            lambda q, k: (q, k, k),
        ),
        "SelfAttention": (nn.SelfAttention(M, 6, dropout=0.25), lambda q, k: (q, k)),
        "MultiHeadAttention": (nn.MultiHeadAttention(M, 2, dropout=0.25), lambda q, k: (q, k, k)),
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
