"""Reductions and operators of a Tensor against NumPy's, and their gradients."""

from __future__ import annotations

import itertools
import operator
import warnings

import numpy as np
import pytest
from helpers import close, same_bits_for_any_threads
from second_checks import check_second
from sweep import sweep

import qkv
from qkv.testing import check_gradient

RANDOM = np.random.default_rng(7)
X = RANDOM.standard_normal((2, 3, 5))
AXES = [None, 0, 1, -1, (0, 2), (1, -1), (0, 1, 2), ()]
SPREAD = {"var": np.var, "std": np.std}
SPECIAL = [0.0, -0.0, 1.0, -1.0, 2.5, -2.5, 7.0, 1e-300, 1e300, np.inf, -np.inf, np.nan, 0.1, 2.0**60]


@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("keepdims", [False, True])
@sweep("name", ["min", "prod"])
def test_reductions(name, axis, keepdims):
    expected = getattr(np, name)(X, axis=axis, keepdims=keepdims)
    result = getattr(qkv.tensor(X), name)(axis, keepdims)
    close(result, expected)
    assert result.shape == expected.shape
    check_gradient(lambda t: getattr(t, name)(axis, keepdims), X)
    check_second(lambda t: getattr(t, name)(axis, keepdims) * t.sum(), X)


@pytest.mark.parametrize("axis", AXES[:-1])
@pytest.mark.parametrize("ddof", [0, 1, 0.5])
@sweep("name", SPREAD)
def test_spread(name, axis, ddof):
    for keepdims in (False, True):
        close(
            getattr(qkv.tensor(X), name)(axis, keepdims, ddof=ddof),
            SPREAD[name](X, axis=axis, keepdims=keepdims, ddof=ddof),
        )
    check_gradient(lambda t: getattr(t, name)(axis, ddof=ddof), X)
    check_second(lambda t: getattr(t, name)(axis, ddof=ddof), X)


def test_spread_of_little():
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for x, ddof in ((np.ones(1), 1), (np.array([1.0, 2.0]), 3), (np.zeros((0, 3)), 0)):
            np.testing.assert_array_equal(qkv.tensor(x).var(0, ddof=ddof).numpy(), np.var(x, 0, ddof=ddof))
    t = qkv.tensor(np.ones((3, 2)), requires_grad=True)
    t.std(0).sum().backward()
    assert t.grad.tolist() == [[0, 0]] * 3
    assert qkv.grad(qkv.grad(t.std(0).sum(), t, create_graph=True).sum(), t).tolist() == [[0, 0]] * 3


def test_spread_of_integers_is_numpy_s():
    x = RANDOM.integers(-(2**60), 2**60, (3, 7))
    for name, axis in itertools.product(SPREAD, (None, 0, 1)):
        result, expected = getattr(qkv.tensor(x), name)(axis), np.asarray(SPREAD[name](x, axis))
        assert result.dtype == np.float64
        np.testing.assert_array_equal(result.numpy(), expected, strict=True)


def test_products_of_zeros():
    x = np.array([[2.0, 3.0, 5.0], [2.0, 0.0, 5.0], [0.0, 0.0, 5.0]])
    t = qkv.tensor(x, requires_grad=True)
    t.prod(1).sum().backward()
    assert t.grad.tolist() == [[15, 10, 6], [0, 10, 0], [0, 0, 0]]
    check_second(lambda u: u.prod(1), x)
    check_second(lambda u: u.prod(0) * u[0], x.T.copy())
    assert qkv.tensor(np.zeros((0, 3))).prod(0).tolist() == [1, 1, 1]
    empty = qkv.tensor(np.zeros((0, 3)), requires_grad=True)
    assert qkv.grad(empty.prod(0).sum(), empty, create_graph=True).shape == (0, 3)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "bool"])
@pytest.mark.parametrize("axis", [None, 0, 1, 2, -1])
def test_places(dtype, axis):
    x = RANDOM.integers(-3, 4, (7, 11, 13)).astype(dtype)
    if x.dtype.kind == "f":
        x[2, 3, 5] = x[2, 7, 5] = np.nan
    for name in ("argmax", "argmin"):
        for keepdims in (False, True):
            result = getattr(qkv.tensor(x), name)(axis, keepdims)
            assert result.dtype == np.int64
            expected = getattr(np, name)(x, axis=axis, keepdims=keepdims)
            np.testing.assert_array_equal(result.numpy(), expected)


@pytest.mark.parametrize("n", [1, 2, 15, 16, 17, 2047, 2048, 2049, 10007])
def test_places_in_long_rows(n):
    for dtype in ("float32", "float64"):
        x = RANDOM.integers(0, max(2, n // 2), (3, n)).astype(dtype)
        assert qkv.tensor(x).argmax(1).tolist() == x.argmax(1).tolist()
        assert qkv.tensor(-x).argmin(1).tolist() == x.argmax(1).tolist()
        x[1, n // 2] = np.nan
        assert qkv.tensor(x).argmax(1).tolist() == x.argmax(1).tolist()
        assert qkv.tensor(x).argmin(1).tolist() == x.argmin(1).tolist()
        close(qkv.tensor(x).min(1), x.min(1))
        close(qkv.tensor(x).min(0), x.min(0))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "bool"])
@sweep("axis", AXES)
def test_truth(dtype, axis):
    x = RANDOM.random((5, 7, 19)) < 0.9
    for value in (x, ~x, np.ones_like(x), np.zeros_like(x)):
        t = qkv.tensor(value.astype(dtype))
        for name, keepdims in itertools.product(("all", "any"), (False, True)):
            result = getattr(t, name)(axis, keepdims)
            assert result.dtype == np.bool_
            np.testing.assert_array_equal(result.numpy(), getattr(np, name)(value, axis, keepdims=keepdims))


def test_truth_of_little():
    assert qkv.tensor([np.nan, 1.0]).all().item() is True
    empty = qkv.tensor(np.zeros((0, 3)))
    assert (empty.all().item(), empty.any().item()) == (True, False)
    assert (empty.all(0).tolist(), empty.any(0).tolist()) == ([True] * 3, [False] * 3)
    assert empty.any(1).shape == (0,)


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
def test_cumsum(axis):
    close(qkv.tensor(X).cumsum(axis), np.cumsum(X, axis))
    close(qkv.cumsum(X, axis), np.cumsum(X, axis))
    check_gradient(lambda t: t.cumsum(axis), X)
    check_second(lambda t: (t * t).cumsum(axis) * t.sum(), X)
    whole = RANDOM.integers(-(2**62), 2**62, (3, 4, 5))
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(qkv.tensor(whole).cumsum(axis).numpy(), np.cumsum(whole, axis))
    same = X > 0
    np.testing.assert_array_equal(qkv.cumsum(same, axis), np.cumsum(same, axis), strict=True)
    assert qkv.cumsum(np.zeros((0, 3)), 0).shape == (0, 3)


def test_what_reductions_refuse():
    t = qkv.tensor(X)
    for name in ("min", "prod", "all", "var", "argmax", "cumsum"):
        with pytest.raises(
            ValueError, match=rf"^{name}: axis must be from -3 to 2 because the array has 3 axes; got 3$"
        ):
            getattr(t, name)(3)
    for name in ("argmax", "argmin", "cumsum"):
        with pytest.raises(TypeError, match=rf"^{name}: axis must be one number or None; got \(0, 1\)$"):
            getattr(t, name)((0, 1))
    for name in ("min", "argmax", "argmin"):
        with pytest.raises(
            ValueError,
            match=rf"^{name}: x must have at least one number on the reduced ax[ei]s; got x \(0, 3\)$",
        ):
            getattr(qkv.tensor(np.zeros((0, 3))), name)(0)


def test_reductions_of_integers_are_numpy_s():
    x = RANDOM.integers(-(2**62), 2**62, (3, 5, 7))
    with np.errstate(over="ignore"):
        for name, axis in itertools.product(("min", "prod"), AXES):
            result = getattr(qkv.tensor(x), name)(axis)
            np.testing.assert_array_equal(result.numpy(), getattr(np, name)(x, axis=axis))
            assert result.dtype == np.int64
    assert qkv.tensor([True, False]).min().dtype == np.bool_


def test_bits_do_not_depend_on_threads():
    x = RANDOM.standard_normal((300, 501)).astype("float32")
    t = qkv.tensor(x)
    same_bits_for_any_threads(
        lambda: [
            f.numpy() for f in (t.prod(0), t.prod(1), t.var(0), t.std(), t.cumsum(0), t.cumsum(1), t.min())
        ]
    )


# --- operators


@pytest.mark.parametrize("f", [operator.floordiv, operator.mod], ids=["//", "%"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_division_with_a_remainder_is_numpy_s(f, dtype):
    with np.errstate(all="ignore"):
        pairs = np.array(list(itertools.product(SPECIAL, SPECIAL))).astype(dtype).T
        sizes = (10.0 ** RANDOM.uniform(-20, 20, (2, 5000)) * RANDOM.choice([-1, 1], (2, 5000))).astype(dtype)
        near = RANDOM.integers(1, 2**20, (2, 5000)).astype(dtype)
        near[0] = near[0] * near[1] * RANDOM.choice([1, 1 - 1e-7, 1 + 1e-7, 1 - 1e-16], 5000)
        for a, b in (pairs, sizes, near, -near):
            expected = f(a, b)
            result = f(qkv.tensor(a), qkv.tensor(b)).numpy()
            np.testing.assert_array_equal(result, expected)
            np.testing.assert_array_equal(
                np.signbit(result[expected == 0]), np.signbit(expected[expected == 0])
            )
            np.testing.assert_array_equal(f(a, qkv.tensor(b)).numpy(), expected)
            np.testing.assert_array_equal(f(qkv.tensor(a), b).numpy(), expected)


@pytest.mark.parametrize("f", [operator.floordiv, operator.mod, operator.and_, operator.or_, operator.xor])
def test_whole_numbers(f):
    special = [0, 1, -1, 2, -2, 7, -7, 2**63 - 1, -(2**63)]
    a, b = np.array(list(itertools.product(special, special))).T
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = f(a, b)
        np.testing.assert_array_equal(f(qkv.tensor(a), qkv.tensor(b)).numpy(), expected, strict=True)
        np.testing.assert_array_equal(f(a, qkv.tensor(b)).numpy(), expected)
        for number in (1, 3, -3, -1):
            np.testing.assert_array_equal(f(qkv.tensor(a), number).numpy(), f(a, number))
            np.testing.assert_array_equal(f(number, qkv.tensor(a)).numpy(), f(number, a))


def test_gradients_of_division_with_a_remainder():
    a, b = RANDOM.uniform(1, 9, (3, 5)), RANDOM.uniform(0.3, 0.7, 5)
    check_gradient(lambda t, u: t % u, a, b)
    check_gradient(lambda t: t % -0.37, a)
    check_gradient(lambda t: 7.3 % t, b)
    check_second(lambda t, u: (t % u) * t * u, a, b)
    check_second(lambda t, u: (t // u) * t * u, a, b)
    t = qkv.tensor(a, requires_grad=True)
    (t // 2).sum().backward()
    assert (t.grad.numpy() == 0).all()
    quotient, rest = divmod(t, 2.5)
    close(quotient, a // 2.5)
    close(rest, a % 2.5)
    close(divmod(20.0, t)[1], 20.0 % a)


@pytest.mark.parametrize("f", [operator.and_, operator.or_, operator.xor], ids=["&", "|", "^"])
@pytest.mark.parametrize(
    "shapes", [((3, 17), (3, 17)), ((3, 17), (17,)), ((3, 1), (1, 19)), ((), (5,)), ((0, 3), (3,))]
)
def test_booleans(f, shapes):
    a, b = (np.asarray(RANDOM.random(shape) < 0.5) for shape in shapes)
    expected = np.asarray(f(a, b))
    for p, q in ((qkv.tensor(a), qkv.tensor(b)), (a, qkv.tensor(b)), (qkv.tensor(a), b)):
        result = f(p, q)
        assert isinstance(result, qkv.Tensor)
        np.testing.assert_array_equal(result.numpy(), expected, strict=True)
    np.testing.assert_array_equal(f(qkv.tensor(a), True).numpy(), f(a, True), strict=True)
    np.testing.assert_array_equal(f(False, qkv.tensor(a)).numpy(), f(False, a), strict=True)
    np.testing.assert_array_equal(f(qkv.tensor(a), np.True_).numpy(), f(a, np.True_), strict=True)
    np.testing.assert_array_equal((~qkv.tensor(a)).numpy(), ~a, strict=True)
    np.testing.assert_array_equal((qkv.tensor(a) & 3).numpy(), a & 3)
    with pytest.raises(
        TypeError, match=r"^bitwise_\w+: operands must be booleans or integers because bits of"
    ):
        f(qkv.tensor(a), qkv.tensor(b.astype("float32")))
    with pytest.raises(
        TypeError, match=r"^invert: operands must be booleans or integers because .* got float64$"
    ):
        ~qkv.tensor(X)


def test_operators_in_place():
    t = qkv.tensor([7.0, -7.0])
    t //= 2
    assert t.tolist() == [3, -4]
    t %= 3
    assert t.tolist() == [0, 2]
    mask = qkv.tensor([True, False, True])
    kept = mask
    mask &= [True, True, False]
    assert mask is kept
    assert mask.tolist() == [True, False, False]
    mask |= True
    assert mask.tolist() == [True] * 3
    mask ^= qkv.tensor([True, False, False])
    assert mask.tolist() == [False, True, True]
    with pytest.raises(
        TypeError, match=r"^bitwise_and: the result must be bool because the Tensor is changed in place"
    ):
        mask &= 3


def test_numpy_s_functions_of_operators():
    a, mask = qkv.tensor([7.5, -7.5], requires_grad=True), qkv.tensor([True, False])
    assert np.remainder(a, 2).requires_grad
    assert np.floor_divide(a, 2).tolist() == [3, -4]
    assert np.mod(np.array([5.0, 5.0]), a).tolist() == (np.array([5.0, 5.0]) % np.array([7.5, -7.5])).tolist()
    for result in (np.invert(mask), np.bitwise_and(mask, True), np.divmod(qkv.tensor([7]), 2)[1]):
        assert isinstance(result, qkv.Tensor)
    for name, axis in itertools.product(("min", "prod", "var", "std", "cumsum", "amin", "ptp"), (None, 1)):
        t = qkv.tensor(X, requires_grad=True)
        result = getattr(np, name)(t, axis)
        assert result.requires_grad
        close(result.detach(), getattr(np, name)(X, axis))
    close(np.multiply.reduce(qkv.tensor(X), 1), np.multiply.reduce(X, 1))
