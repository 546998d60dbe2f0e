"""Second derivatives of every operation."""

from __future__ import annotations

import numpy as np
import pytest
from operation_registry import ELEMENTWISE, FUSED, LAYOUT, LENS
from second_checks import RNG, check_second, normal
from sweep import sweep

import qkv


@sweep("name", ELEMENTWISE)
def test_elementwise(name):
    f, *inputs = ELEMENTWISE[name]
    check_second(f, *inputs)


@sweep("name", LAYOUT)
def test_layout_reductions_and_products(name):
    f, *inputs = LAYOUT[name]
    check_second(f, *inputs)


@sweep("name", FUSED)
def test_fused(name):
    f, *inputs = FUSED[name]
    check_second(f, *inputs)


MASK = RNG.random((2, 1, 5, 7)) < 0.6
OPTIONS = {
    "plain": {},
    "scale": {"scale": -0.3},
    "causal": {"is_causal": True},
    "causal to the lower right": {"is_causal": "lower_right"},
    "valid_lens": {"valid_lens": [4, 0]},
    "valid_lens of queries": {"valid_lens": RNG.integers(0, 8, (2, 5))},
    "boolean mask": {"attn_mask": MASK},
    "window": {"window": (2, 1), "q_offset": [1, -1]},
    "softcap": {"softcap": 0.7},
    "alibi": {"alibi_slopes": np.array([0.5, 0.1, 0.3, 0.2]), "q_offset": 2},
    "masked_value": {"attn_mask": MASK, "masked_value": -0.4, "valid_lens": [3, 6]},
    "dropout": {"dropout_p": 0.3},
    "dropout_keep": {"dropout_p": 0.3, "dropout_keep": RNG.random((2, 4, 5, 7)) < 0.7},
    "results": {"return_weights": True, "return_lse": True, "valid_lens": [4, 7]},
    "results with everything": {
        "return_weights": True,
        "return_lse": True,
        "softcap": 2.0,
        "is_causal": True,
        "q_offset": 3,
        "window": (4, -1),
        "attn_mask": MASK,
    },
}


@pytest.mark.parametrize("option", OPTIONS)
@sweep("kv_heads", [4, 2])
def test_attention(option, kv_heads):
    def f(q, k, v):
        qkv.manual_seed(3)
        return qkv.scaled_dot_product_attention(q, k, v, enable_gqa=True, **OPTIONS[option])

    check_second(f, normal(2, 4, 5, 3), normal(2, kv_heads, 7, 3), normal(2, kv_heads, 7, 2))


@pytest.mark.parametrize("shape", [(4, 5, 7), (4, 1, 7), (7,), (2, 1, 5, 1)])
def test_attention_bias_and_sinks(shape):
    def f(q, k, v, bias, sinks):
        return qkv.scaled_dot_product_attention(
            q, k, v, bias, sinks=sinks, return_weights=True, return_lse=True
        )

    bias = normal(*shape)
    check_second(f, normal(2, 4, 5, 3), normal(2, 4, 7, 3), normal(2, 4, 7, 2), bias, normal(4))
    bias.flat[2] = -np.inf
    x = [normal(2, 4, 5, 3), normal(2, 4, 7, 3), normal(2, 4, 7, 2)]
    check_second(lambda q, k, v: f(q, k, v, bias, np.arange(4.0)), *x)


@pytest.mark.parametrize("shapes", [((5, 3), (7, 3), (7, 2)), ((2, 5, 3), (2, 7, 3), (2, 7, 2))])
def test_attention_of_smaller_ranks(shapes):
    check_second(
        lambda q, k, v: qkv.scaled_dot_product_attention(q, k, v, return_weights=True, return_lse=True),
        *(normal(*s) for s in shapes),
    )


def test_what_is_excluded_stays_so():
    q, k, v = normal(2, 3, 5), normal(2, 7, 5), normal(2, 7, 3)
    for lens, causal in ((LENS, False), (np.array([5, 2]), True)):
        seen = []
        for filled in (0.0, np.nan):
            for b, n in enumerate(lens):
                k[b, n:], v[b, n:] = filled, filled
            tensors = [qkv.tensor(x, requires_grad=True) for x in (q, k, v)]
            y = qkv.scaled_dot_product_attention(*tensors, valid_lens=lens, is_causal=causal)
            first = qkv.grad((y * y).sum(), tensors, create_graph=True)
            second = qkv.grad(sum((g * g).sum() for g in first), tensors)
            seen.append([*first, *second])
        for clean, other in zip(*seen, strict=True):
            assert np.isfinite(other.numpy()).all()
            np.testing.assert_array_equal(clean.numpy(), other.numpy())


@pytest.mark.parametrize("function", ["additive", "kernel"])
def test_what_is_excluded_stays_so_elsewhere(function):
    q, k, v = normal(2, 3, 5), normal(2, 7, 5), normal(2, 7, 3)
    for b, n in enumerate(LENS):
        k[b, n:], v[b, n:] = np.nan, np.inf
    tensors = [qkv.tensor(x, requires_grad=True) for x in (q, k, v)]
    if function == "additive":
        y = qkv.additive_attention(*tensors, np.ones(5), valid_lens=LENS)
    else:
        y = qkv.kernel_attention(*tensors, valid_lens=LENS)
    first = qkv.grad((y * y).sum(), tensors, create_graph=True)
    second = qkv.grad(sum((g * g).sum() for g in first), tensors)
    assert all(np.isfinite(g.numpy()).all() for g in [*first, *second])
