"""Formulas and masks of the field beside whole arrays in float64: output, weights, gradients, second derivatives."""

from __future__ import annotations

import numpy as np
import pytest
from second_checks import check_second
from sweep import sweep

import qkv
from qkv.testing import check_gradient

from . import cases
from .cases import MASKS, SCORES


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@sweep("name", SCORES)
def test_scores(name, dtype):
    formula, names = SCORES[name]
    q, k, v = cases.inputs()
    output, weights = qkv.scaled_dot_product_attention(
        *(x.astype(dtype) for x in (q, k, v)),
        score_mod=formula(cases.tensors(names, dtype)),
        return_weights=True,
    )
    tolerance = 1e-13 if dtype == "float64" else 3e-6
    for found, wanted in zip(
        (output, weights), cases.expected(q, k, v, formula(cases.arrays())), strict=True
    ):
        assert str(found.dtype) == dtype
        np.testing.assert_allclose(np.asarray(qkv.tensor(found).detach()), wanted, atol=tolerance)


@pytest.mark.parametrize("name", MASKS)
def test_masks(name):
    q, k, v = cases.inputs()
    results = qkv.scaled_dot_product_attention(q, k, v, mask_mod=MASKS[name], return_weights=True)
    for found, wanted in zip(results, cases.expected(q, k, v, mask=MASKS[name]), strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-14)


@sweep("name", [n for n in SCORES if n not in ("identity", "constant")])
def test_gradients_of_scores(name):
    formula, names = SCORES[name]
    given = cases.arrays()

    def attention(*xs):
        a = cases.arrays()
        for which, x in zip(names, xs[3:], strict=True):
            setattr(a, which, x)
        return qkv.scaled_dot_product_attention(*xs[:3], score_mod=formula(a), mask_mod=MASKS["strided"])

    check_gradient(attention, *cases.inputs(), *(getattr(given, n) for n in names))


@pytest.mark.parametrize(
    "name", ["alibi", "trained cap", "gate", "rows and columns", "-inf of pairs", "Shaw"]
)
def test_second_derivatives(name):
    formula, names = SCORES[name]
    given = cases.arrays()

    def attention(*xs):
        a = cases.arrays()
        for which, x in zip(names, xs[3:], strict=True):
            setattr(a, which, x)
        return qkv.scaled_dot_product_attention(*xs[:3], score_mod=formula(a), mask_mod=MASKS["window"])

    check_second(attention, *cases.inputs(), *(getattr(given, n) for n in names))


def test_a_number_of_the_call_is_not_kept():
    """Cells, globals and arrays are those of the call."""
    q, k, v = cases.inputs()
    slopes = np.ones(cases.H)
    factor = 1.0

    def formula(score, b, h, q_idx, kv_idx):
        return score - factor * slopes[h] * abs(q_idx - kv_idx)

    first = qkv.scaled_dot_product_attention(q, k, v, score_mod=formula)
    factor, slopes[0] = 2.0, 0.25
    second = qkv.scaled_dot_product_attention(q, k, v, score_mod=formula)
    np.testing.assert_allclose(
        first, cases.expected(q, k, v, lambda s, b, h, i, j: s - abs(i - j))[0], atol=1e-14
    )
    np.testing.assert_allclose(second, cases.expected(q, k, v, formula)[0], atol=1e-14)


def test_an_array_changed_afterwards_changes_no_gradient():
    q, k, v = cases.inputs()
    table = cases.arrays().pairs
    x = qkv.tensor(q, requires_grad=True)
    given = table.copy()
    y = qkv.scaled_dot_product_attention(x, k, v, score_mod=lambda s, b, h, i, j: s * given[i, j])
    given[:] = np.nan
    y.sum().backward()
    z = qkv.tensor(q, requires_grad=True)
    qkv.scaled_dot_product_attention(
        z, k, v, score_mod=lambda s, b, h, i, j: s * table[i, j]
    ).sum().backward()
    np.testing.assert_array_equal(x.grad, z.grad)


def test_minimum_and_maximum_share_the_gradient_of_a_tie():
    one = np.ones((1, 1, 1, 1))
    for function in (np.minimum, np.maximum, qkv.minimum, qkv.maximum):
        a, b = (qkv.tensor([1.0], requires_grad=True, dtype="float64") for _ in range(2))
        v = np.array([[[[1.0], [3.0]]]])
        y = qkv.scaled_dot_product_attention(
            one,
            np.ones((1, 1, 2, 1)),
            v,
            score_mod=lambda s, *_, f=function, a=a, b=b: s * 0 + f(a[0], b[0]) * _[3],
        )
        y.sum().backward()
        assert a.grad.numpy()[0] == pytest.approx(b.grad.numpy()[0])
        assert a.grad.numpy()[0] != 0


def test_axes_of_one_need_no_index():
    q, k, v = cases.inputs()
    one = qkv.tensor(np.array([0.5, 1.0, 2.0])[:, None, None], requires_grad=True)
    y = qkv.scaled_dot_product_attention(q, k, v, score_mod=lambda s, b, h, i, j: s * one[h])
    wanted = cases.expected(q, k, v, lambda s, b, h, i, j: s * one.detach().numpy()[h, 0, 0])[0]
    np.testing.assert_allclose(y.detach(), wanted, atol=1e-14)
    y.sum().backward()
    assert one.grad.shape == (3, 1, 1)
