"""Each wrong argument of scaled_dot_product_attention: an error "
"that names it and what arrived, and no crash."""

from __future__ import annotations

import numpy as np
import pytest
from sweep import sweep

import qkv

B, H, LQ, LK, D, DV = 2, 3, 5, 7, 11, 13
OP = "scaled_dot_product_attention: "


def zeros(*shape):
    return np.zeros(shape, np.float32)


Q, K, V = zeros(B, H, LQ, D), zeros(B, H, LK, D), zeros(B, H, LK, DV)

SHAPES = [
    (zeros(5), K, V, r"query must be \(B, H, Lq, D\), .* got query \(5,\)"),
    (zeros(1, 2, 3, 5, 7), K, V, r"query must be .* got query \(1, 2, 3, 5, 7\)"),
    (np.float32(1), K, V, r"query must be .* got query \(\)"),
    (Q, K[0], V, r"key must have 4 axes to match query \(2, 3, 5, 11\); got key \(3, 7, 11\)"),
    (Q, K, V[0], r"value must have 4 axes to match query .*; got value \(3, 7, 13\)"),
    (Q, zeros(B, H, LK, 2), V, r"key must be \(\.\.\., Lk, D\) with D = 11 .*; got key \(2, 3, 7, 2\)"),
    (Q, K, zeros(B, H, 5, DV), r"value must be \(\.\.\., Lk, Dv\) with Lk = 7 .*; got value \(2, 3, 5, 13\)"),
    (Q, zeros(3, H, LK, D), V, r"query, key and value must have the same batch size; "
     r"got query \(2, .*key \(3, 3, 7, 11\)"),
    (Q, K, zeros(5, H, LK, DV), r"query, key and value must have the same batch "
     r"size; .*value \(5, 3, 7, 13\)"),
    (Q, zeros(B, 1, LK, D), zeros(B, 1, LK, DV), r"key and value must have H = 3 heads .* unless "
     r"enable_gqa=True; got key \(2, 1, 7, 11\)"),
    (Q, K, zeros(B, 1, LK, DV), r"value must have as many heads as key .*; got value \(2, 1, 7, 13\)"),
]  # fmt: skip


@pytest.mark.parametrize(("q", "k", "v", "text"), SHAPES)
def test_shapes(q, k, v, text):
    with pytest.raises(ValueError, match=OP + text):
        qkv.scaled_dot_product_attention(q, k, v)


@pytest.mark.parametrize("heads", [2, 5, 0])
def test_heads_that_do_not_divide(heads):
    with pytest.raises(ValueError, match=r"query heads must be a multiple of key heads; got query .*key"):
        qkv.scaled_dot_product_attention(Q, zeros(B, heads, LK, D), zeros(B, heads, LK, DV), enable_gqa=True)


VALUES = [
    ({"scale": np.nan}, r"scale must be a finite number; got nan"),
    ({"scale": np.inf}, r"scale must be a finite number; got inf"),
    ({"softcap": -1.0}, r"softcap must be 0 \(off\) or a positive number; got -1"),
    ({"softcap": np.nan}, r"softcap must be .* got nan"),
    ({"softcap": np.inf}, r"softcap must be .* got inf"),
    ({"dropout_p": -0.1}, r"dropout_p must be from 0 to 1; got -0.1"),
    ({"dropout_p": 1.5}, r"dropout_p must be from 0 to 1; got 1.5"),
    ({"dropout_p": np.nan}, r"dropout_p must be from 0 to 1; got nan"),
    ({"window": (2**70, 1)}, r"window must be numbers of at most 63 bits; got \(1180591620717411303424, 1\)"),
    ({"window": (-2, 0)}, r"window must be \(left, right\) .* got \(-2, 0\)"),
    ({"window": (1,)}, r"window must be \(left, right\).* got \(1,\)"),
    ({"window": (1, 2, 3)}, r"window must be \(left, right\).* got \(1, 2, 3\)"),
    ({"window": 3}, r"window must be \(left, right\).* got 3"),
    ({"masked_value": np.nan}, r"masked_value must be a number; got nan"),
    ({"is_causal": "middle"}, r"is_causal must be False, True, .* got 'middle'"),
    ({"is_causal": "lower_right", "q_offset": 0}, r"q_offset must not be given with "
     r"is_causal=\"lower_right\""),
    ({"q_offset": [1, 2, 3]}, r"q_offset must be one number or \(B,\) = \(2,\); got q_offset \(3,\)"),
    ({"q_offset": [[1, 2]]}, r"q_offset must be one number or \(B,\)"),
    ({"valid_lens": [1, 8]}, r"valid_lens must be from 0 to Lk = 7; got 8"),
    ({"valid_lens": [-1, 3]}, r"valid_lens must be from 0 to Lk = 7; got -1"),
    ({"valid_lens": np.array([1, 2**63], "uint64")}, r"valid_lens must hold integers below 2\*\*63; "
     r"got 9223372036854775808"),
    ({"valid_lens": [1, 2, 3]}, r"valid_lens must be \(B,\) = \(2,\) or \(B, Lq\) = "
     r"\(2, 5\); got valid_lens \(3,\)"),
    ({"valid_lens": 3}, r"valid_lens must be \(B,\) .* got valid_lens \(\)"),
    ({"valid_lens": np.zeros((2, 3), int)}, r"valid_lens must be .* got valid_lens \(2, 3\)"),
    ({"attn_mask": np.ones((B, LQ, LK), bool)},
     r"attn_mask must broadcast to the weights' shape \(2, 3, 5, 7\) .*; a mask per "
      r"batch entry is \(B, 1, Lq, Lk\); got attn_mask \(2, 5, 7\)"),
    ({"attn_mask": zeros(LK, LQ)}, r"attn_mask must broadcast .* got attn_mask \(7, 5\)"),
    ({"attn_mask": zeros(1, 1, 1, LQ, LK)}, r"attn_mask must broadcast .* got attn_mask \(1, 1, 1, 5, 7\)"),
    ({"alibi_slopes": [1.0, 2.0]}, r"alibi_slopes must be \(H,\) = \(3,\); got alibi_slopes \(2,\)"),
    ({"alibi_slopes": 1.0}, r"alibi_slopes must be \(H,\)"),
    ({"sinks": [1.0]}, r"sinks must be \(H,\) = \(3,\); got sinks \(1,\)"),
    ({"dropout_p": 0.5, "dropout_keep": np.ones((2, 7), bool)}, r"dropout_keep must broadcast "
     r".* got dropout_keep \(2, 7\)"),
]  # fmt: skip


@sweep("options, text", VALUES)
def test_values(options, text):
    with pytest.raises(ValueError, match=OP + text):
        qkv.scaled_dot_product_attention(Q, K, V, **options)


TYPES = [
    (
        {"attn_mask": np.ones((LQ, LK), np.int64)},
        r"attn_mask must be boolean \(True = may attend\) or floating",
    ),
    ({"attn_mask": np.ones((LQ, LK), np.uint8)}, r"attn_mask must be boolean"),
    ({"attn_mask": [[1] * LK] * LQ}, r"attn_mask must be boolean"),
    ({"attn_mask": np.full((LQ, LK), "x")}, r"attn_mask must hold numbers"),
    ({"valid_lens": [1.0, 2.0]}, r"valid_lens must hold integers; got dtype float64"),
    ({"valid_lens": np.array([True, False])}, r"valid_lens must hold integers; got dtype bool"),
    ({"q_offset": 1.5}, r"q_offset must hold integers"),
    ({"scale": "big"}, r"scale must be a number; got 'big'"),
    ({"scale": np.ones(2)}, r"scale must be a number"),
    ({"masked_value": "x"}, r"masked_value must be a number"),
    ({"is_causal": 1.0}, r"is_causal must be False, True, .* got 1.0"),
    ({"is_causal": None}, r"is_causal must be False, True, .* got None"),
    ({"window": "ab"}, r"window must be"),
    ({"window": (1.5, 2)}, r"window must be whole numbers"),
    (
        {"dropout_p": 0.5, "dropout_keep": np.ones((LQ, LK))},
        r"dropout_keep must be boolean; got dtype float64",
    ),
    ({"sinks": ["a", "b", "c"]}, r"sinks must hold numbers"),
]


@pytest.mark.parametrize(("options", "text"), TYPES)
def test_types(options, text):
    with pytest.raises(TypeError, match=OP + text):
        qkv.scaled_dot_product_attention(Q, K, V, **options)


def test_things_that_are_no_arrays():
    for bad in (None, "text", object(), {"a": 1}, np.zeros((2, 2), complex)):
        with pytest.raises(TypeError, match=OP + "(query|key|value) must"):
            qkv.scaled_dot_product_attention(bad, K, V)
        with pytest.raises(TypeError, match=OP + "value must"):
            qkv.scaled_dot_product_attention(Q, K, bad)
    with pytest.raises(TypeError, match="must be an array or nested lists"):
        qkv.scaled_dot_product_attention([[1.0], [1.0, 2.0]], K, V)


@pytest.mark.parametrize("name", ["dropout_p", "softcap"])
@pytest.mark.parametrize("bad", [None, "x", [0.5, 0.5]])
def test_numbers_that_are_none(name, bad):
    with pytest.raises(TypeError, match=f"{OP}{name} must be a number"):
        qkv.scaled_dot_product_attention(Q, K, V, **{name: bad})


def test_one_sequence_takes_one_length():
    with pytest.raises(
        ValueError, match=r"valid_lens must be one number or \(Lq,\) = \(5,\); got valid_lens \(2,\)"
    ):
        qkv.scaled_dot_product_attention(Q[0, 0], K[0, 0], V[0, 0], valid_lens=[1, 2])
    with pytest.raises(ValueError, match="from 0 to Lk = 7; got 9"):
        qkv.scaled_dot_product_attention(Q[0, 0], K[0, 0], V[0, 0], valid_lens=9)


def test_two_backward_passes_are_refused():
    q = qkv.tensor(Q, requires_grad=True)
    y = qkv.scaled_dot_product_attention(q, K, V).sum()
    y.backward()
    with pytest.raises(RuntimeError, match="backward"):
        y.backward()
