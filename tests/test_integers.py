"""Integers are NumPy's, to the last bit."""

from __future__ import annotations

import operator
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import qkv

WHOLE = st.one_of(
    st.integers(-(2**63), 2**63 - 1),
    st.sampled_from([0, 1, -1, 2**53, 2**53 + 1, -(2**53) - 1, 2**62, 2**63 - 1, -(2**63), 2**24 + 1]),
)
SHAPES = hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=3, max_side=5)


def arrays(shape):
    return hnp.arrays(np.int64, shape, elements=WHOLE)


ARITHMETIC = [operator.add, operator.sub, operator.mul]
COMPARISONS = [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]


def same(result, expected):
    assert isinstance(result, qkv.Tensor)
    assert result.dtype == expected.dtype
    np.testing.assert_array_equal(result.numpy(), expected, strict=True)


@settings(max_examples=60, deadline=None)
@given(data=st.data(), shapes=SHAPES)
def test_two_arrays(data, shapes):
    a, b = (data.draw(arrays(shape)) for shape in shapes.input_shapes)
    with np.errstate(all="ignore"):
        for f in (*ARITHMETIC, *COMPARISONS, operator.truediv):
            expected = np.asarray(f(a, b))
            same(f(qkv.tensor(a), qkv.tensor(b)), expected)
            same(f(a, qkv.tensor(b)), expected)
            same(f(qkv.tensor(a), b), expected)
        same(qkv.tensor(a) ** qkv.tensor(np.abs(b) % 70), np.asarray(a ** (np.abs(b) % 70)))
        same(np.maximum(qkv.tensor(a), b), np.asarray(np.maximum(a, b)))


@settings(max_examples=60, deadline=None)
@given(a=arrays(hnp.array_shapes(max_dims=3, max_side=5)), number=WHOLE)
def test_an_array_and_a_number(a, number):
    t = qkv.tensor(a)
    with np.errstate(all="ignore"):
        for f in (*ARITHMETIC, *COMPARISONS, operator.truediv):
            same(f(t, number), np.asarray(f(a, number)))
            same(f(number, t), np.asarray(f(number, a)))
        same(-t, -a)
        same(abs(t), np.abs(a))
        same(qkv.abs(t), np.abs(a))
        same(qkv.clip(t, -(2**60) - 1, None), np.clip(a, -(2**60) - 1, None))
        same(qkv.where(a > number, t, number), np.where(a > number, a, np.int64(number)))
        in_place = qkv.tensor(a)
        in_place += number
        same(in_place, a + number)


@settings(max_examples=60, deadline=None)
@given(a=arrays(hnp.array_shapes(max_dims=3, max_side=5)), data=st.data())
def test_reductions(a, data):
    axis = data.draw(st.one_of(st.none(), st.integers(-a.ndim, a.ndim - 1)))
    keepdims = data.draw(st.booleans())
    t = qkv.tensor(a)
    with np.errstate(all="ignore"):
        for name in ("sum", "max", "mean"):
            expected = np.asarray(getattr(a, name)(axis=axis, keepdims=keepdims))
            same(getattr(t, name)(axis=axis, keepdims=keepdims), expected)


LARGE = np.arange(6).reshape(2, 3) + 2**24 + 1
PRODUCTS = {
    "@": lambda a, b: a @ b,
    "matmul": qkv.matmul,
    "einsum": lambda a, b: qkv.einsum("ij,jk->ik", a, b),
    "np.matmul": np.matmul,
    "np.einsum": lambda a, b: np.einsum("ij,jk->ik", a, b),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products(name):
    """float32 keeps 24 bits, float64 53: these numbers have more, and the last pair wraps."""
    product = PRODUCTS[name]
    for b in (np.eye(3, dtype=int), LARGE.T, LARGE.T * 2**31, LARGE.T * 2**40):
        expected = LARGE @ b
        same(product(qkv.tensor(LARGE), qkv.tensor(b)), expected)
        same(product(qkv.tensor(LARGE), b), expected)
        same(product(LARGE, qkv.tensor(b)), expected)
        np.testing.assert_array_equal(product(LARGE, b), expected, strict=True)
    assert product(qkv.tensor(LARGE), qkv.tensor(np.ones((3, 5)))).dtype == np.float64
    truth = LARGE % 2 == 0
    same(product(qkv.tensor(truth), qkv.tensor(truth.T)), truth @ truth.T)


def test_products_of_vectors_and_batches():
    a, b = LARGE * np.arange(5).reshape(5, 1, 1, 1), LARGE.T * np.arange(7).reshape(7, 1, 1)
    same(qkv.tensor(a) @ qkv.tensor(b), a @ b)
    same(qkv.tensor(a) @ qkv.tensor(b[3]), a @ b[3])
    same(qkv.tensor(a) @ qkv.tensor(LARGE[1]), a @ LARGE[1])
    same(qkv.tensor(LARGE[1]) @ qkv.tensor(b), LARGE[1] @ b)
    same(qkv.tensor(LARGE[1]) @ qkv.tensor(LARGE[0]), np.asarray(LARGE[1] @ LARGE[0]))
    empty = np.zeros((2, 0), int)
    same(qkv.tensor(empty) @ qkv.tensor(empty.T), np.zeros((2, 2), int))
    same(qkv.einsum("ij->j", qkv.tensor(LARGE)), LARGE.sum(0))
    same(qkv.einsum("ij->j", qkv.tensor(LARGE % 2 == 0)), np.einsum("ij->j", LARGE % 2 == 0))
    with pytest.raises(ValueError, match=r"matmul: b must be \(\.\.\., K, N\) with K = 3"):
        qkv.tensor(LARGE) @ qkv.tensor(LARGE)


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 10**400, -(2**20000)], ids=range(4))
def test_numbers_beyond_int64(number):
    t, a = qkv.tensor([[0, 2**63 - 1]]), np.array([[0, 2**63 - 1]])
    for name, f in (
        ("add", operator.add),
        ("subtract", operator.sub),
        ("multiply", operator.mul),
        ("divide", operator.truediv),
    ):
        message = rf"^{name}: other must fit in int64 because the Tensor does; got an int of \d+ bits$"
        with pytest.raises(OverflowError, match=message):
            f(t, number)
        with pytest.raises(OverflowError, match=message):
            f(number, t)
    with pytest.raises(OverflowError):
        t += number
    with pytest.raises(OverflowError):
        t[0, 0] = number
    for f in COMPARISONS:
        same(f(t, number), np.asarray(f(a.astype(object), number), bool))
        same(f(number, t), np.asarray(f(number, a.astype(object)), bool))


def test_numbers_beyond_float64():
    with pytest.raises(
        OverflowError,
        match=r"^add: other must fit in float64 because the Tensor does; got an int of 1329 bits$",
    ):
        qkv.tensor([1.0]) + 10**400


def test_integers_beside_floats_compare_in_float64():
    t = qkv.tensor([2**24 + 1, 2**24])
    assert (t > 2.0**24 + 0.5).tolist() == [True, False]
    assert (t == np.float32(2**24)).tolist() == [False, True]
    assert (t == qkv.tensor([2.0**24, 2.0**24])).tolist() == [False, True]
    assert (qkv.tensor([2.0**24]) == t).tolist() == [False, True]


def test_negative_exponents():
    with pytest.raises(ValueError, match=r"^power: exponents of integers must not be negative because"):
        qkv.tensor([2]) ** -1
    assert (qkv.tensor([2]) ** qkv.tensor([62, 63, 64])).tolist() == [2**62, -(2**63), 0]
    assert (3 ** qkv.tensor([2, 0])).tolist() == [9, 1]
    assert (qkv.tensor([True, False]) ** 2).tolist() == [1, 0]


def test_booleans():
    t = qkv.tensor([[True, False], [True, True]])
    same(t.max(), np.asarray(True))
    same(t.max(axis=0), np.array([True, True]))
    same(t.sum(axis=0), np.array([2, 1]))
    same(t.mean(), np.asarray(0.75))
    same(t == 1, t.numpy() == 1)
    same(t + 1, t.numpy() + 1)
    same(qkv.tensor([1]) + True, np.array([2]))
    same(
        qkv.where([True, False], qkv.tensor([True, True]), qkv.tensor([False, False])),
        np.array([True, False]),
    )


def test_a_choice_keeps_what_was_chosen():
    t = qkv.tensor([2**53 + 1, -5])
    same(qkv.where(t > 0, t, 0), np.array([2**53 + 1, 0]))
    same(qkv.clip(t, 0, 2**53 + 1), np.array([2**53 + 1, 0]))
    same(np.clip(t, 0, 7), np.array([7, 0]))
    assert qkv.where([True, False], [1, 2], 0).dtype == np.float32  # lists count as float32
    assert qkv.where([True, False], qkv.tensor(np.ones(2)), 0.1)[1].item() == 0.1
    with pytest.raises(ValueError, match=r"^clip: low must not be above high; got low = 3, high = 1$"):
        qkv.clip(t, 3, 1)
    with pytest.raises(TypeError, match=r"^clip: low must be a number; got 'a'$"):
        qkv.clip(t, "a")


def test_the_mean_of_no_integers():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert np.isnan(qkv.tensor(np.zeros((0, 3), int)).mean().item())


@pytest.mark.parametrize("n", [1, 7, 8, 61, 300, 4099])
def test_booleans_are_compared_counted_and_combined(n):
    rng = np.random.default_rng(n)
    a, b = rng.random((2, 5, n)) < 0.5
    t, u = qkv.tensor(a), qkv.tensor(b)
    for name in ("eq", "ne", "lt", "le", "gt", "ge", "and_", "or_", "xor"):
        f = getattr(operator, name)
        for x, y, right in ((a, b, u), (a, b[:1], u[:1]), (a, b[:, :1], u[:, :1])):
            np.testing.assert_array_equal(f(t, right), f(x, y))
        np.testing.assert_array_equal(f(t, True), f(a, True))
    for axis in (None, 0, 1):
        for name in ("sum", "any", "all"):
            np.testing.assert_array_equal(getattr(t, name)(axis), getattr(a, name)(axis))
    assert qkv.tensor(np.ones((3, n), bool)).sum(1).tolist() == [n] * 3


@pytest.mark.parametrize(
    ("dtype", "ends"), [("int8", (-128, 127)), ("uint8", (0, 255)), ("int32", (-(2**31), 2**31 - 1))]
)
def test_narrow_integers_wrap(dtype, ends):
    for number in (*ends, ends[0] - 1, ends[1] + 1, -(2**62) - 3):
        t = qkv.torch.tensor([1, number, 5]).to(getattr(qkv.torch, dtype))
        assert t.tolist() == np.array([1, number, 5]).astype(dtype).tolist()
