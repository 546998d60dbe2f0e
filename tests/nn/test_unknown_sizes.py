"""Layers whose parameters do not exist before the first call."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

from qkv import nn

RNG = np.random.default_rng(41)
X, Y, V = RNG.standard_normal((2, 5, 3)), RNG.standard_normal((2, 7, 11)), RNG.standard_normal((2, 7, 13))


@pytest.mark.parametrize(
    "parts", [lambda: nn.AdditiveAttention(3), lambda: nn.Sequential(nn.AdditiveAttention(3))]
)
def test_a_layer_of_unknown_sizes_can_be_set_up(parts):
    whole = parts()
    layer = whole if isinstance(whole, nn.AdditiveAttention) else whole[0]
    assert whole.to("float64") is whole
    assert whole.eval() is whole
    assert not layer.training
    assert "AdditiveAttention(num_hiddens=3" in repr(whole)
    assert whole.train() is whole
    assert whole.eval() is whole
    for twin in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer)), layer):
        with pytest.raises(RuntimeError, match="query_size and key_size"):
            twin.parameters()
        assert twin(X, Y, V).dtype == "float64"
        assert [p.dtype for p in twin.parameters()] == ["float64"] * 3
        assert not twin.W_k.training
    rounded = nn.AdditiveAttention(3).to("bfloat16")
    rounded(X, Y, V)
    bits = rounded.W_q.weight.numpy().view("uint32")
    assert not (bits & 0xFFFF).any()
    assert rounded.W_q.weight.dtype == "float32"
