"""KVCache: the same numbers as without a cache, in every mode, and what is kept when a call fails."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from helpers import close
from layer_checks import randomised

import qkv
from qkv import nn

RNG = np.random.default_rng(51)
B, LK, M = 2, 7, 12
Y, V = (RNG.standard_normal((B, LK, M)) for _ in range(2))


@pytest.mark.parametrize("capacity", [None, LK])
@pytest.mark.parametrize("options", [{}, {"rotary_base": 100.0}, {"num_kv_heads": 2}, {"window": (2, 0)}])
@pytest.mark.parametrize("steps", [[1] * LK, [3, 1, 2, 1], [LK]])
def test_a_cache_changes_nothing_but_the_work(steps, options, capacity):
    layer = randomised(nn.MultiHeadAttention(M, 6, is_causal=True, **options))
    whole = layer(Y)
    w = layer.attention_weights.numpy()
    for grad in (True, False):
        cache, at = nn.KVCache(capacity), 0
        assert len(cache) == 0
        assert cache
        for n in steps:
            with Nothing() if grad else qkv.no_grad():
                part = layer(Y[:, at : at + n], cache=cache)
            close(part, whole[:, at : at + n])
            close(layer.attention_weights, w[:, :, at : at + n, : at + n])
            at += n
            assert len(cache) == at
        if capacity:
            with pytest.raises(
                ValueError,
                match=r"capacity must hold all tokens; got capacity = 7 with 7 tokens in it and 1 more",
            ):
                layer(Y[:, :1], cache=cache)
        cache.reset()
        assert len(cache) == 0
        close(layer(Y[:, :2], cache=cache), whole[:, :2])


class Nothing:
    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None


def test_gradients_flow_through_a_cache():
    layer = randomised(nn.MultiHeadAttention(M, 3, is_causal=True, rotary_base=100.0))
    twin = copy.deepcopy(layer)
    G = RNG.standard_normal(Y.shape)
    t, u = qkv.tensor(Y, requires_grad=True), qkv.tensor(Y, requires_grad=True)
    layer(t).backward(G)
    cache = nn.KVCache()
    parts = [twin(u[:, i : i + 2], cache=cache) for i in range(0, LK, 2)]
    qkv.concatenate(parts, axis=1).backward(G)
    close(u.grad, t.grad, "float64 gradient")
    for (name, a), (_, b) in zip(layer.named_parameters(), twin.named_parameters(), strict=True):
        np.testing.assert_allclose(a.grad, b.grad, 1e-8, 1e-10, err_msg=name)


def test_mixing_recorded_and_quiet_steps():
    layer = randomised(nn.MultiHeadAttention(M, 3, is_causal=True))
    whole = layer(Y)
    for quiet in ((0, 1), (2, 3), (0, 2, 4), (1, 3, 5)):
        cache = nn.KVCache()
        for i in range(LK):
            with qkv.no_grad() if i in quiet else Nothing():
                close(layer(Y[:, i : i + 1], cache=cache), whole[:, i : i + 1])


@pytest.mark.parametrize("grad", [False, True])
def test_reorder_for_beams(grad):
    layer = randomised(nn.MultiHeadAttention(M, 3, is_causal=True))
    cache = nn.KVCache()
    with Nothing() if grad else qkv.no_grad():
        layer(Y[:, :3], cache=cache)
        cache.reorder([1, 1, 0])
        assert len(cache) == 3
        picked = Y[[1, 1, 0]]
        close(layer(picked[:, 3:], cache=cache), layer(picked)[:, 3:])
    for bad in ([2, 5], [-1]):
        with pytest.raises(ValueError, match="KVCache: indices must be from 0 to 2"):
            cache.reorder(bad)
    with pytest.raises(ValueError, match=r"KVCache: indices must be \(B,\)"):
        cache.reorder([[0, 1]])
    with pytest.raises(TypeError, match="KVCache: indices must hold integers"):
        cache.reorder([0.5])


def test_weights_of_an_earlier_step_survive_later_ones():
    layer, other = (randomised(nn.MultiHeadAttention(M, 3, is_causal=True)) for _ in range(2))
    cache = nn.KVCache(LK)
    with qkv.no_grad():
        layer(Y[:, :3], cache=cache)
        fresh = nn.MultiHeadAttention(M, 3, is_causal=True)
        fresh = randomised(fresh)
        expected = None
        fresh(Y[:, :3])
        expected = fresh.attention_weights.numpy().copy()
        other(Y[:, 3:], cache=cache)
        cache.reorder([1, 0])
        cache.reset()
        other(V[:, :3], cache=cache)
        close(layer.attention_weights, expected)


def test_a_failed_call_leaves_the_cache_as_it_was():
    layer = randomised(nn.MultiHeadAttention(M, 3, is_causal=True))
    for grad in (True, False):
        with Nothing() if grad else qkv.no_grad():
            cache = nn.KVCache()
            layer(Y[:, :3], cache=cache)
            with pytest.raises(ValueError, match="valid_lens"):
                layer(Y[:, 3:5], cache=cache, valid_lens=[99, 1])
            assert len(cache) == 3
            close(layer(Y[:, 3:], cache=cache), layer(Y)[:, 3:])
            with pytest.raises(
                ValueError, match="KVCache: keys and values must be those of the layer and batch"
            ):
                layer(Y[:1, :1], cache=cache)
    with pytest.raises(ValueError, match="KVCache: capacity must be at least 1; got 0"):
        nn.KVCache(0)
    with pytest.raises(TypeError, match="cache must be a KVCache; got dict"):
        layer(Y, cache={})
