"""Random shapes, options and formulas beside the reference: lengths around tiles, rows and blocks without a key."""

from __future__ import annotations

import numpy as np
import pytest
from sweep import sweep

import qkv
from qkv import reference
from qkv.masks import formulas

LENGTHS = [1, 2, 7, 16, 31, 64, 67, 131, 200]
RULES = ["softmax"] * 4 + ["sigmoid", "relu", "sparsemax", "entmax15"]


def random_score(rng, B, H, Lq, Lk):
    slopes, gate = rng.random(H), rng.random((B, Lk))
    near, pairs = rng.standard_normal((H, Lq + Lk)), rng.standard_normal((Lq, Lk))
    return [
        None,
        lambda s, b, h, q, k: s - slopes[h] * abs(q - k),
        lambda s, b, h, q, k: s + near[h, q - k + Lk],
        lambda s, b, h, q, k: np.where(gate[b, k] > 0.5, s * 2, s - 1),
        lambda s, b, h, q, k: 3 * np.tanh(s) + pairs[q, k],
        lambda s, b, h, q, k: np.minimum(s, 1.5) * (h + 1) / (1 + q // 4),
    ][rng.integers(6)]


def random_mask(rng, B, H, Lq, Lk):
    first, blocks = int(rng.integers(Lq + 2)), rng.random((B, Lq // 7 + 1, Lk // 8 + 1)) < 0.4
    return [
        None,
        lambda b, h, q, k: q >= first,
        lambda b, h, q, k: (q < first) | (k < 3),
        lambda b, h, q, k: blocks[b, q // 7, k // 8],
        lambda b, h, q, k: q % (h + 1) == k % (h + 1),
        formulas.documents(np.sort(rng.integers(0, 4, max(Lq, Lk)))),
    ][rng.integers(6)]


def random_options(rng, B, Lq, Lk):
    options = {"normalizer": RULES[rng.integers(len(RULES))]}
    choices = {
        "scale": 0.3,
        "softcap": 5.0,
        "is_causal": True,
        "window": (int(rng.integers(30)), int(rng.integers(30))),
        "valid_lens": rng.integers(0, Lk + 1, B),
        "attn_mask": rng.random((B, 1, Lq, Lk)) < 0.7,
    }
    options.update({name: value for name, value in choices.items() if rng.random() < 0.3})
    return options


def check_random_attention(seed):
    rng = np.random.default_rng(seed)
    B, kv_heads, group, D = rng.integers(1, 4, 4)
    D, Dv = (int(rng.choice([1, 3, 8, 40])) for _ in range(2))
    H, (Lq, Lk) = int(kv_heads * group), rng.choice(LENGTHS, 2)
    q = rng.standard_normal((B, H, Lq, D)) * rng.choice([0.1, 1, 3])
    k, v = (rng.standard_normal((B, kv_heads, Lk, size)) for size in (D, Dv))
    options = {"enable_gqa": True, "return_weights": True, **random_options(rng, B, Lq, Lk)}
    given = {"score_mod": random_score(rng, B, H, Lq, Lk), "mask_mod": random_mask(rng, B, H, Lq, Lk)}

    # What the formulas say, as a float mask of all pairs.
    b, h, i, j = np.ogrid[:B, :H, :Lq, :Lk]
    scores = q @ np.swapaxes(np.repeat(k, group, axis=1), -1, -2) * options.get("scale", D**-0.5)
    cap = options.get("softcap")
    scores = cap * np.tanh(scores / cap) if cap else scores
    bias = (
        np.zeros(scores.shape)
        if given["score_mod"] is None
        else given["score_mod"](scores, b, h, i, j) - scores
    )
    if given["mask_mod"] is not None:
        bias[~np.broadcast_to(given["mask_mod"](b, h, i, j), bias.shape)] = -np.inf
    if "attn_mask" in options:
        bias[~np.broadcast_to(options["attn_mask"], bias.shape)] = -np.inf
    expected = reference.scaled_dot_product_attention(q, k, v, **{**options, "attn_mask": bias})

    for dtype, tolerance in (("float64", 1e-9), ("float32", 3e-4)):
        tensors = [qkv.tensor(x.astype(dtype), requires_grad=True) for x in (q, k, v)]
        results = qkv.scaled_dot_product_attention(*tensors, **options, **given)
        for result, wanted in zip(results, expected, strict=True):
            np.testing.assert_allclose(result, wanted, tolerance, tolerance)
        alone = qkv.scaled_dot_product_attention(*tensors, **{**options, "return_weights": False}, **given)
        np.testing.assert_allclose(alone, expected[0], tolerance, tolerance)
        if dtype == "float64":  # the fused rule beside that of the composed form
            loss = (alone * rng.standard_normal(alone.shape)).sum()
            fused = qkv.grad(loss, tensors, retain_graph=True)
            for gradient, composed in zip(fused, qkv.grad(loss, tensors, create_graph=True), strict=True):
                np.testing.assert_allclose(gradient, composed, 1e-8, 1e-8)


@sweep("seed", range(60))
def test_random_attention_is_the_references(seed):
    check_random_attention(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 1100))
def test_more_random_attention_is_the_references(seed):
    for i in range(10):
        check_random_attention([seed, i])
