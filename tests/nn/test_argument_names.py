"""Errors name lengths and masks as the caller wrote them, also where a layer passes them on under another name."""

from __future__ import annotations

import re

import numpy as np
import pytest
from sweep import sweep

from qkv import models, nn

B, H, LQ, LK, M, V = 2, 3, 5, 7, 12, 11
X, Y = np.ones((B, LQ, M), "float32"), np.ones((B, LK, M), "float32")
SRC, TGT = np.ones((B, LK), int), np.ones((B, LQ), int)


def transformer():
    return models.Transformer(V, V, M, H, 1, 1, 8)


def decode(**options):
    model = transformer()
    return model.decode(TGT, model.encode(SRC), **options)


# Each call with the arguments that it takes.
CALLS = {
    "MultiHeadAttention": (lambda **o: nn.MultiHeadAttention(M, H)(X, Y, **o), "valid_lens attn_mask"),
    "DotProductAttention": (lambda **o: nn.DotProductAttention()(X, Y, Y, **o), "valid_lens attn_mask"),
    "AdditiveAttention": (lambda **o: nn.AdditiveAttention(6)(X, Y, Y, **o), "valid_lens attn_mask"),
    "SelfAttention": (lambda **o: nn.SelfAttention(M, 4)(X, Y, **o), "valid_lens attn_mask"),
    "TransformerEncoderLayer": (
        lambda **o: nn.TransformerEncoderLayer(M, H, 8)(X, **o),
        "valid_lens attn_mask",
    ),
    "TransformerEncoder": (
        lambda **o: nn.TransformerEncoder(nn.TransformerEncoderLayer(M, H, 8), 2)(X, **o),
        "valid_lens attn_mask",
    ),
    "TransformerDecoderLayer": (
        lambda **o: nn.TransformerDecoderLayer(M, H, 8)(X, Y, **o),
        "valid_lens attn_mask memory_valid_lens memory_attn_mask",
    ),
    "TransformerDecoderLayer, norm first": (
        lambda **o: nn.TransformerDecoderLayer(M, H, 8, norm_first=True)(X, Y, **o),
        "valid_lens attn_mask memory_valid_lens memory_attn_mask",
    ),
    "TransformerDecoder": (
        lambda **o: nn.TransformerDecoder(nn.TransformerDecoderLayer(M, H, 8), 2)(X, Y, **o),
        "valid_lens attn_mask memory_valid_lens memory_attn_mask",
    ),
    "TransformerDecoder without a batch": (
        lambda **o: nn.TransformerDecoder(nn.TransformerDecoderLayer(M, H, 8), 2)(X[0], Y[0], **o),
        "valid_lens attn_mask memory_valid_lens memory_attn_mask",
    ),
    "Transformer": (lambda **o: transformer()(SRC, TGT, **o), "src_valid_lens tgt_valid_lens"),
    "Transformer.encode": (lambda **o: transformer().encode(SRC, **o), "src_valid_lens"),
    "Transformer.decode": (decode, "tgt_valid_lens memory_valid_lens memory_attn_mask"),
    "generate": (
        lambda **o: models.generate(transformer(), SRC, start_id=1, end_id=2, max_len=3, **o),
        "src_valid_lens",
    ),
}
WRONG = {
    "valid_lens": [[3, 99], [-1, 2], [1, 2, 3], np.ones((B, 3), int), [1.5, 2.0], ["a", "b"]],
    "attn_mask": [np.ones((LK, LQ), bool), np.ones((11, LK), bool), np.ones((1,) * 5, bool), ["a", "b"]],
}
WRONG["attn_mask"] += [np.ones((LQ, 11), "float32"), np.ones((LQ, LQ), int), np.ones((LQ, LK), int)]


@sweep("name, argument", [(name, a) for name, (_, takes) in CALLS.items() for a in takes.split()])
def test_the_argument_s_own_name(name, argument):
    call, _ = CALLS[name]
    kind = "attn_mask" if argument.endswith("attn_mask") else "valid_lens"
    for wrong in WRONG[kind]:
        with pytest.raises((TypeError, ValueError)) as error:
            call(**{argument: wrong})
        text = str(error.value)
        assert re.match(rf"\w+: {argument} must ", text), text
        assert not re.search(rf"(?<!{argument.removesuffix(kind)}){kind}", text), text
