"""Sequences one after the other without padding, against a call for each of them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from helpers import close

import qkv
from qkv import scaled_dot_product_attention as attention
from qkv.testing import check_gradient

RNG = np.random.default_rng(53)
H, HKV, D, DV = 4, 2, 3, 5
QUERIES, KEYS = np.array([0, 2, 5, 5, 12, 14]), np.array([0, 3, 6, 11, 18, 21])
Q = RNG.standard_normal((14, H, D))
K, V = RNG.standard_normal((21, HKV, D)), RNG.standard_normal((21, HKV, DV))
OPTIONS = {
    "plain": {},
    "causal": {"is_causal": True, "softcap": 2.0},
    "lower": {"is_causal": "lower_right", "window": (2, -1)},
    "rest": {"scale": 0.7, "alibi_slopes": qkv.alibi_slopes(H), "sinks": RNG.standard_normal(H)},
}


def pieces(options, q=Q, k=K, v=V):
    """Return output, weights and lse of each sequence alone."""
    return [
        attention(
            *(x[a:b].swapaxes(0, 1)[None] for x, (a, b) in ((q, rows), (k, keys), (v, keys))),
            enable_gqa=True, return_weights=True, return_lse=True, **options,
        )
        for rows, keys in zip(itertools.pairwise(QUERIES), itertools.pairwise(KEYS), strict=True)
    ]  # fmt: skip


def ragged(q=Q, k=K, v=V, **options):
    return attention(q, k, v, enable_gqa=True, cu_seqlens_q=QUERIES, cu_seqlens_k=KEYS, **options)


@pytest.mark.parametrize("name", OPTIONS)
def test_each_sequence_is_alone(name):
    output, weights, lse = ragged(return_weights=True, return_lse=True, **OPTIONS[name])
    alone = pieces(OPTIONS[name])
    assert (output.shape, lse.shape, len(weights)) == ((14, H, DV), (H, 14), 5)
    close(output, np.concatenate([y[0].swapaxes(0, 1) for y, _, _ in alone]))
    close(lse, np.concatenate([s[0] for _, _, s in alone], axis=1))
    for w, (_, expected, _) in zip(weights, alone, strict=True):
        close(w, expected[0])
    close(ragged(**OPTIONS[name]), output)


@pytest.mark.parametrize("name", OPTIONS)
def test_gradients(name):
    options = OPTIONS[name]
    check_gradient(lambda q, k, v: ragged(q, k, v, return_lse=True, **options), Q, K, V)
    inputs = [qkv.tensor(x, requires_grad=True) for x in (Q, K, V)]
    [first] = qkv.grad(ragged(*inputs, **options).sum(), inputs[:1], create_graph=True)
    own = qkv.grad((first**2).sum(), inputs)
    y = qkv.concatenate([y[0].swapaxes(0, 1) for y, _, _ in pieces(options, *inputs)])
    [first] = qkv.grad(y.sum(), inputs[:1], create_graph=True)
    for a, b in zip(own, qkv.grad((first**2).sum(), inputs), strict=True):
        close(a, b)


def test_dtypes_and_nothing():
    assert ragged(*(x.astype("float16") for x in (Q, K, V))).dtype == np.float16
    assert isinstance(ragged(qkv.tensor(Q)), qkv.Tensor)
    assert attention(Q[:0], Q[:0], Q[:0], cu_seqlens_q=[0], cu_seqlens_k=[0]).shape == (0, H, D)
    dropped = attention(Q, Q, Q, dropout_p=0.5, cu_seqlens_q=[0, 5, 14], cu_seqlens_k=[0, 5, 14])
    assert np.abs(dropped - attention(Q, Q, Q, cu_seqlens_q=[0, 5, 14], cu_seqlens_k=[0, 5, 14])).max() > 0.1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"attn_mask": np.ones((14, 21), bool)},
            "attn_mask must be None because cu_seqlens_q and cu_seqlens_k cut",
        ),
        ({"valid_lens": [3]}, "valid_lens must be None because"),
        ({"q_offset": 1}, "q_offset must be None because"),
        ({"dropout_keep": np.ones((14, 21), bool), "dropout_p": 0.1}, "dropout_keep must be None because"),
        ({"cu_seqlens_k": None}, "cu_seqlens_k must be given because the other is; got None"),
        (
            {"cu_seqlens_q": [0, 3]},
            r"cu_seqlens_q must be \(B \+ 1,\) numbers that rise from 0 to R = 14; got .* from 0 to 3",
        ),
        ({"cu_seqlens_k": [0, 9, 8, 9, 10, 21]}, r"cu_seqlens_k must be .* rise from 0 to S = 21"),
        ({"cu_seqlens_q": [0, 14]}, r"cu_seqlens_k must be \(B \+ 1,\) = \(2,\) to match cu_seqlens_q; got"),
        (
            {"enable_gqa": False},
            "key must have the H = 4 heads of query, or with enable_gqa a divisor of it; got 2",
        ),
        ({"key": K[..., :2]}, r"must be \(R, H, D\), \(S, Hkv, D\) and \(S, Hkv, Dv\) beside cu_seqlens_q"),
    ],
)
def test_rejections(options, message):
    given = {
        "query": Q,
        "key": K,
        "value": V,
        "enable_gqa": True,
        "cu_seqlens_q": QUERIES,
        "cu_seqlens_k": KEYS,
    }
    with pytest.raises(ValueError, match=message):
        attention(**given | options)


def test_formulas_count_within_a_sequence():
    slopes = qkv.tensor(RNG.standard_normal((5, H)), requires_grad=True)

    def score(s, b, h, q_idx, kv_idx):
        return s + slopes[b, h] * (q_idx - kv_idx)

    def mask(b, h, q_idx, kv_idx):
        return (kv_idx <= q_idx + 2) & ((kv_idx + b) % 3 != 1)

    output = ragged(score_mod=score, mask_mod=mask)
    alone = []
    for n in range(5):
        rows, keys = slice(*QUERIES[n : n + 2]), slice(*KEYS[n : n + 2])
        alone.append(
            attention(
                *(x.swapaxes(0, 1)[None] for x in (Q[rows], K[keys], V[keys])), enable_gqa=True,
                score_mod=lambda s, b, h, q, k, n=n: score(s, b + n, h, q, k),
                mask_mod=lambda b, h, q, k, n=n: mask(b + n, h, q, k),
            )[0].swapaxes(0, 1)
        )  # fmt: skip
    close(output, qkv.concatenate(alone))
    [own] = qkv.grad((output * output).sum(), [slopes])
    [expected] = qkv.grad(sum((y * y).sum() for y in alone), [slopes])
    close(own, expected)
