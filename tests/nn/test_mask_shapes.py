"""A mask that does not fit is refused in the shape that the caller gave, not in a layer's own."""

from __future__ import annotations

import re

import numpy as np
import pytest
from sweep import sweep

import qkv
from qkv import nn

B, H, LQ, LK, M = 2, 3, 5, 7, 12
RANDOM = np.random.default_rng(29)


class Distance(nn.Attention):
    def score(self, queries, keys):
        return -((queries[..., :, None, :] - keys[..., None, :, :]) ** 2).sum(axis=-1)


class Causal(Distance):
    def __init__(self):
        super().__init__(dropout=0.25, is_causal=True)


LAYERS = {
    "score": lambda: Distance(dropout=0.25),
    "causal score": Causal,
    "score with heads": lambda: Distance(dropout=0.25, num_heads=H),
    "score with a window": lambda: Distance(dropout=0.25, num_heads=H, window=(1, 1)),
    "dot product": lambda: nn.DotProductAttention(dropout=0.25),
    "dot product with heads": lambda: nn.DotProductAttention(dropout=0.25, num_heads=H),
    "additive": lambda: nn.AdditiveAttention(6, 0.25),
    "additive with heads": lambda: nn.AdditiveAttention(6, 0.25, num_heads=H),
    "self": lambda: nn.SelfAttention(M, 4, dropout=0.25),
    "multi-head": lambda: nn.MultiHeadAttention(M, H, dropout=0.25),
    "grouped": lambda: nn.MultiHeadAttention(M, H, dropout=0.25, num_kv_heads=1),
    "encoder layer": lambda: nn.TransformerEncoderLayer(M, H, 8),
    "decoder layer": lambda: nn.TransformerDecoderLayer(M, H, 8),
}
# Of one to five axes.
WRONG = [(LQ,), (11,), (LK, LQ), (11, LK), (LQ, 11), (5, 7, 11), (11, LQ, LK), (H, LK, LQ), (B, LQ, 11)]
WRONG += [(1, 1, 11), (B, 2, LQ, LK), (B, 1, LK, LQ), (1, H, LQ, 11), (11, 1, LQ, LK), (1, 1, LK, LQ)]
WRONG += [(1, 1, 1, LQ, LK), (B, 1, 1, LQ, 11)]


def inputs(batch):
    return [RANDOM.standard_normal((B, n, M) if batch else (n, M)).astype("float32") for n in (LQ, LK)]


def calls(name, batch):
    """The layer's calls that take a mask, by the argument."""
    layer = LAYERS[name]().eval()
    q, k = inputs(batch)
    if name == "encoder layer":
        k, rest, argument = q, (), "attn_mask"
    elif name == "decoder layer":
        rest, argument = (k,), "memory_attn_mask"
    else:
        rest, argument = (k,) if name == "self" else (k, k), "attn_mask"
        yield "dropout_keep", lambda mask: layer(q, *rest, dropout_keep=mask)
    yield argument, lambda mask: layer(q, *rest, **{argument: mask})


@pytest.mark.parametrize("boolean", [True, False])
@pytest.mark.parametrize("batch", [True, False])
@sweep("name", LAYERS)
def test_wrong_sizes(name, batch, boolean):
    for argument, call in calls(name, batch):
        if argument == "dropout_keep" and not boolean:
            continue
        for shape in WRONG:
            if name == "encoder layer" and shape[-2:] in ((LK,), (LQ,)):  # keys are the queries there
                continue
            mask = np.ones(shape, bool) if boolean else RANDOM.standard_normal(shape).astype("float32")
            with pytest.raises(ValueError, match=rf": {argument} must .*; got {argument} ") as error:
                call(mask)
            text = str(error.value)
            assert text.endswith(f"; got {argument} {shape}")
            assert "\n" not in text
            assert ("because the input has no batch axis" in text) is not batch


@pytest.mark.parametrize("name", [name for name in LAYERS if "layer" not in name])
def test_sizes_that_fit(name):
    heads = "heads" in name or name in ("multi-head", "grouped", "score with a window")
    every = [(LQ, LK), (LK,), (1, LK), (LQ, 1), (1, LQ, LK), (1, 1, LQ, LK)]
    with_batch = [(B, LQ, LK), (B, 1, LK), (B, 1, LQ, LK), (B, 1, 1, LK)] + heads * [
        (B, H, LQ, LK),
        (1, H, LQ, LK),
    ]
    alone = heads * [(H, LQ, LK), (H, 1, LK), (1, H, LQ, LK)]
    for batch, shapes in ((True, every + with_batch), (False, every + alone)):
        for _, call in calls(name, batch):
            for shape in shapes:
                call(np.ones(shape, bool))


def test_the_keys_of_a_cache_count():
    layer, cache = nn.MultiHeadAttention(M, H), nn.KVCache()
    x, _ = inputs(True)
    layer(x, cache=cache)
    layer(x, cache=cache, attn_mask=np.ones((LQ, 2 * LQ), bool))
    with pytest.raises(ValueError, match=r"weights' shape \(2, 3, 5, 15\) .*; got attn_mask \(5, 5\)$"):
        layer(x, cache=cache, attn_mask=np.ones((LQ, LQ), bool))
    assert len(cache) == 2 * LQ


FUNCTIONS = {
    "scaled_dot_product_attention": qkv.scaled_dot_product_attention,
    "additive_attention": lambda q, k, v, attn_mask: qkv.additive_attention(
        q, k, v, np.ones(M, "float32"), attn_mask=attn_mask
    ),
    "masked_softmax": lambda q, k, v, attn_mask: qkv.masked_softmax(
        q @ np.swapaxes(k, -1, -2), mask=attn_mask
    ),
}


@pytest.mark.parametrize("batch", [True, False])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name, batch):
    q, k = inputs(batch)
    for shape in WRONG:
        text = rf"^{name}: .*mask must .*; got (attn_)?mask {re.escape(str(shape))}$"
        with pytest.raises(ValueError, match=text):
            FUNCTIONS[name](q, k, k, attn_mask=np.ones(shape, bool))


def test_pytorchs_layer_without_a_batch():
    from qkv import torch

    layer = torch.nn.MultiheadAttention(M, H)
    x = torch.zeros(LQ, M)
    for shape in ((LK,), (1, LQ), (B, LQ)):
        text = rf"key_padding_mask must be \(Lk,\) = \(5,\); got {re.escape(str(shape))}$"
        with pytest.raises(RuntimeError, match=text):
            layer(x, x, x, key_padding_mask=torch.zeros(*shape, dtype=torch.bool))
    layer(x, x, x, key_padding_mask=torch.zeros(LQ, dtype=torch.bool))
