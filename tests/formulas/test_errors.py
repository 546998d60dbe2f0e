"""What is wrong with a formula: one line that names it and its line of source."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from sweep import sweep

import qkv

from . import cases
from .cases import LK, LQ

ROW = np.ones(LQ)
TWO = np.ones((2, LQ))
TURN = np.arange(LK)[::-1].copy()


def attend(**formulas):
    return qkv.scaled_dot_product_attention(*cases.inputs(), **formulas)


def helper(q_idx):
    return ROW[q_idx + 1]


SCORE_MODS = {
    "if": (lambda s, b, h, q, k: s if q > k else s - 1, TypeError, "must not decide by a traced value in if"),
    "and": (
        lambda s, b, h, q, k: s + (q > k and q < 9),
        TypeError,
        "must not decide by a traced value in if, and",
    ),
    "max": (lambda s, b, h, q, k: max(s, 0.0), TypeError, "must not decide by a traced value in if"),
    "float index": (lambda s, b, h, q, k: s + ROW[q * 0.5], TypeError, "must index by integers; got a float"),
    "out of range": (
        lambda s, b, h, q, k: s + ROW[q + 1],
        IndexError,
        r"axis 0 of a captured array from -11 to 10; got 11",
    ),
    "in a helper": (
        lambda s, b, h, q, k: s + helper(q),
        IndexError,
        r"axis 0 of a captured array from -11 to 10; got 11",
    ),
    "axis of heads": (
        lambda s, b, h, q, k: s + TWO[h, q],
        IndexError,
        "axis 0 of a captured array from -2 to 1; got 2",
    ),
    "too many indices": (
        lambda s, b, h, q, k: s + ROW[q, k],
        IndexError,
        "one index for each axis of a captured array; got 2 for 1",
    ),
    "too few indices": (
        lambda s, b, h, q, k: s + TWO[h],
        TypeError,
        r"captured array \(2, 11\) by an integer for each axis; got 1",
    ),
    "a whole array": (
        lambda s, b, h, q, k: s + ROW,
        TypeError,
        r"captured array \(11,\) by an integer for each axis; got 0",
    ),
    "a slice": (lambda s, b, h, q, k: s + ROW[1:][q], TypeError, "slice it outside of the formula"),
    "an array made here": (
        lambda s, b, h, q, k: s + np.ones(LQ)[q],
        TypeError,
        "only a captured array takes it|make an array of a traced",
    ),
    "math": (
        lambda s, b, h, q, k: math.exp(s),
        TypeError,
        "must not turn a traced value into a number of Python's",
    ),
    "int": (
        lambda s, b, h, q, k: s + int(q),
        TypeError,
        "must not turn a traced value into a number of Python's",
    ),
    "range": (
        lambda s, b, h, q, k: sum(s for _ in range(q)),
        TypeError,
        "must not count or index by a traced value",
    ),
    "iteration": (lambda s, b, h, q, k: sum(s), TypeError, "must not go through a traced value"),
    "list": (lambda s, b, h, q, k: s + [1.0, 2.0][h], TypeError, "must not count or index by a traced value"),
    "an array of it": (
        lambda s, b, h, q, k: np.array(s) + 1,
        TypeError,
        "must not make an array of a traced value",
    ),
    "unknown function": (
        lambda s, b, h, q, k: np.cumsum(s),
        TypeError,
        "must use functions of numbers; got cumsum",
    ),
    "unknown ufunc": (
        lambda s, b, h, q, k: np.arctan(s),
        TypeError,
        "must use functions of numbers; got arctan",
    ),
    "ufunc's method": (lambda s, b, h, q, k: np.add.reduce(s), TypeError, "must not call add.reduce"),
    "unknown method": (lambda s, b, h, q, k: s.sum(), TypeError, "must not use .sum of a traced value"),
    "out": (lambda s, b, h, q, k: np.exp(s, out=ROW), TypeError, "must call exp with its 1 operands alone"),
    "dtype": (
        lambda s, b, h, q, k: s.to("int16"),
        TypeError,
        "must convert to float32, float64, int64 or bool; got int16",
    ),
    "write": (lambda s, b, h, q, k: ROW.__setitem__(q, 1.0), TypeError, "must not write to an array"),
    "bits of floats": (lambda s, b, h, q, k: s | 1, TypeError, "must combine conditions or integers"),
    "shift of floats": (lambda s, b, h, q, k: s << 1, TypeError, "must shift integers; got a float"),
    "a string": (
        lambda s, b, h, q, k: s + "1",
        TypeError,
        "must compute with numbers and captured arrays; got str",
    ),
    "strings": (
        lambda s, b, h, q, k: s + np.array(["a"])[0],
        TypeError,
        "must capture arrays of numbers|got str",
    ),
    "division by 0": (
        lambda s, b, h, q, k: s + q // k,
        ValueError,
        "must divide integers by none that is 0; got numbers from 0 to 12",
    ),
    "negative exponent": (
        lambda s, b, h, q, k: s + 2**-q,
        ValueError,
        "must raise integers to exponents from 0; got -10",
    ),
    "large number": (lambda s, b, h, q, k: s + q * 2**70, ValueError, "must use integers of 64 bits at most"),
    "32 bits": (
        lambda s, b, h, q, k: s + (q * k * 10**9) % 7,
        ValueError,
        r"32 bits where they depend on query and key; got 1\d{11}",
    ),
    "None": (lambda s, b, h, q, k: None, TypeError, "must return a score; got NoneType"),
    "condition": (lambda s, b, h, q, k: s > 0, TypeError, "must return a score; got a condition"),
    "two results": (lambda s, b, h, q, k: (s, s), TypeError, "must return a score; got tuple"),
    "arguments": (lambda s, q, k: s, TypeError, r"must take 5 arguments \(score, b, h, q_idx, kv_idx\)"),
    "its own error": (lambda s, b, h, q, k: {}["x"], ValueError, "must not raise; got KeyError: 'x'"),
    "unknown name": (
        lambda s, b, h, q, k: s + unknown,  # noqa: F821
        ValueError,
        "must not raise; got NameError",
    ),
}


@sweep("name", SCORE_MODS)
def test_score_mod(name):
    function, kind, text = SCORE_MODS[name]
    with pytest.raises(kind, match=text) as caught:
        attend(score_mod=function)
    message = str(caught.value)
    line = helper.__code__.co_firstlineno + 1 if name == "in a helper" else None
    assert message.startswith("scaled_dot_product_attention: score_mod must")
    assert "\n" not in message
    place = re.search(r" \(in <lambda>, test_errors\.py:(\d+)\)$", message)
    assert place is not None, message
    first = function.__code__.co_firstlineno
    assert int(place[1]) == line or first <= int(place[1]) <= first + 3


MASK_MODS = {
    "number": (lambda b, h, q, k: q - k, TypeError, "must return a condition; got a number"),
    "not": (
        lambda b, h, q, k: not (q > k),
        TypeError,
        "must not decide by a traced value in if, and, or, not",
    ),
    "None": (lambda b, h, q, k: None, TypeError, "must return a condition; got NoneType"),
    "arguments": (lambda q, k: q > k, TypeError, r"must take 4 arguments \(b, h, q_idx, kv_idx\)"),
    "range": (lambda b, h, q, k: ROW[k] > 0, IndexError, r"from -11 to 10; got 12"),
}


@pytest.mark.parametrize("name", MASK_MODS)
def test_mask_mod(name):
    function, kind, text = MASK_MODS[name]
    with pytest.raises(kind, match=text) as caught:
        attend(mask_mod=function)
    assert re.search(
        r"^scaled_dot_product_attention: mask_mod .* \(in <lambda>, test_errors\.py:\d+\)$", str(caught.value)
    )


def test_no_function():
    with pytest.raises(
        TypeError, match=r"^scaled_dot_product_attention: score_mod must be a function; got int$|got 3$"
    ):
        attend(score_mod=3)
    with pytest.raises(
        TypeError, match=r"^scaled_dot_product_attention: mask_mod must be a function; got ndarray$"
    ):
        attend(mask_mod=np.ones((LQ, LK), bool))


def test_layers_name_themselves_and_the_argument():
    layer = qkv.nn.TransformerDecoderLayer(8, 2, 8)
    x = np.ones((1, 3, 8))
    with pytest.raises(TypeError, match=r"memory_mask_mod must return a condition; got a number"):
        layer(x, x, memory_mask_mod=lambda b, h, q, k: q)
    with pytest.raises(TypeError, match=r"^MultiHeadAttention: score_mod must return a score; got NoneType"):
        qkv.nn.MultiHeadAttention(8, 2)(x, score_mod=lambda *_: None)


def test_an_index_of_pairs_is_out_of_range():
    """It is met while pairs are computed; memory outside of the array is not read."""
    with pytest.raises(IndexError) as caught:
        attend(score_mod=lambda s, b, h, q, k: s + ROW[TURN[q] - TURN[k]])
    assert re.fullmatch(
        r"scaled_dot_product_attention: an index is out of bounds for an axis of size 11 in score_mod <lambda>, "
        r"test_errors\.py:\d+",
        str(caught.value),
    )
    with pytest.raises(IndexError, match=r"of size 11 in mask_mod <lambda>, test_errors\.py:\d+$"):
        attend(mask_mod=lambda b, h, q, k: ROW[TURN[q] - TURN[k]] > 0)


def test_an_index_that_only_excluded_pairs_have_is_no_error():
    stairs = qkv.tensor(np.arange(1.0, LK + 1), requires_grad=True)
    y = attend(
        score_mod=lambda s, b, h, q, k: s + stairs[TURN[k] - TURN[q] + 0 * q * k],
        mask_mod=lambda b, h, q, k: q >= k,
    )
    y.sum().backward()
    assert np.isfinite(stairs.grad).all()


def test_a_negative_index_counts_from_the_end():
    q, k, v = cases.inputs()
    values = np.arange(1.0, LK + 1)
    y = attend(score_mod=lambda s, b, h, i, j: s + values[j - LK] + values[i - j])
    wanted = cases.expected(q, k, v, lambda s, b, h, i, j: s + values[j] + values[i - j])[0]
    np.testing.assert_allclose(y, wanted, atol=1e-14)


def test_integers_of_one_index_have_64_bits():
    q, k, v = cases.inputs()

    def formula(s, b, h, i, j):
        return s + 0.1 * (((i - j) * 10**12 + j * 0) % 7)

    np.testing.assert_allclose(attend(score_mod=formula), cases.expected(q, k, v, formula)[0], atol=1e-14)
