"""Arrays of zeros, ones, ranges and their like against NumPy's."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import qkv

RANDOM = np.random.default_rng(11)
X = RANDOM.standard_normal((2, 3, 5))
TIES = RANDOM.integers(0, 4, (3, 7, 5))


def same(result, expected):
    np.testing.assert_array_equal(np.asarray(result), np.asarray(expected), strict=True)


def test_zeros_ones_full():
    for f in ("zeros", "ones"):
        ours, theirs = getattr(qkv, f), getattr(np, f)
        for size in ((2, 3), (), (0, 5)):
            same(ours(*size), theirs(size, "float32"))
            same(ours(size), theirs(size, "float32"))
        same(ours(3, dtype="int64"), theirs(3, int))
        t = ours(2, 3, requires_grad=True)
        assert isinstance(t, qkv.Tensor)
        assert t.requires_grad
        assert t.is_leaf
        with pytest.raises(
            TypeError, match=rf"^{f}: size must be integers or a tuple of integers because it is a shape"
        ):
            ours(2.5)
        with pytest.raises(
            ValueError, match=rf"^{f}: size must not be negative because it is a shape; got \(2, -1\)$"
        ):
            ours(2, -1)
        with pytest.raises(
            TypeError, match=rf"^{f}: dtype must be a NumPy dtype or its name; got 'long long long'$"
        ):
            ours(2, dtype="long long long")
    same(qkv.full((2, 3), 7), np.full((2, 3), 7))
    same(qkv.full(2, 0.5), np.full(2, 0.5, "float32"))
    same(qkv.full(2, True), np.full(2, True))
    same(qkv.full((2, 3), np.arange(3.0)), np.full((2, 3), np.arange(3.0)))
    same(qkv.full(2, 7, dtype="float64"), np.full(2, 7.0))
    assert qkv.full((2,), 1.0, requires_grad=True).requires_grad


def test_ranges():
    same(qkv.arange(5), np.arange(5))
    same(qkv.arange(2, 11, 3), np.arange(2, 11, 3))
    same(qkv.arange(0, 1, 0.1), np.arange(0, 1, 0.1).astype("float32"))
    same(qkv.arange(5, dtype="float64"), np.arange(5.0))
    same(qkv.arange(np.float64(2.0)), np.arange(2.0))
    same(qkv.arange(3, 0, -1), np.arange(3, 0, -1))
    assert qkv.arange(0).shape == (0,)
    same(qkv.linspace(0, 1, 7), np.linspace(0, 1, 7).astype("float32"))
    same(qkv.linspace(0, 1, 7, endpoint=False, dtype="float64"), np.linspace(0, 1, 7, endpoint=False))
    with pytest.raises(
        ValueError, match=r"^arange: step must not be 0 because the stop would never be reached; got 0$"
    ):
        qkv.arange(0, 5, 0)
    with pytest.raises(TypeError, match=r"^arange: start must be a number; got 'a'$"):
        qkv.arange("a")
    with pytest.raises(TypeError, match=r"^arange: stop must be a number; got \[1\]$"):
        qkv.arange(0, [1])


def test_eye():
    for n, m, k in itertools.product((0, 1, 5), (None, 3), (-1, 0, 2)):
        same(qkv.eye(n, m, k), np.eye(n, m, k, "float32"))
    assert qkv.eye(2, dtype=bool).dtype == np.bool_


def test_likes():
    for x in (X, X.astype("float32"), TIES, X > 0, X.astype("float16")):
        same(qkv.zeros_like(x), np.zeros_like(x))
        same(qkv.ones_like(x), np.ones_like(x))
        same(qkv.full_like(x, 1), np.full_like(x, 1))
    t = qkv.tensor(X, requires_grad=True)
    for made in (qkv.zeros_like(t), qkv.ones_like(t), qkv.full_like(t, 2.0)):
        assert isinstance(made, qkv.Tensor)
        assert made.dtype == t.dtype
        assert not made.requires_grad
    same(qkv.ones_like([1.0, 2.0]), np.ones(2, "float32"))
    same(qkv.ones_like(X, dtype="int64"), np.ones(X.shape, int))


def test_numbers_beyond_the_end_of_a_dtype_are_infinite_without_a_warning():
    assert np.isinf(qkv.linspace(10**40, np.ones(3), 2, endpoint=False)[0]).all()
    assert np.isinf(qkv.full((2, 3), 1e39)).all()
    assert np.isinf(qkv.full_like(np.ones(3, "float32"), 1e39)).all()
    assert np.isinf(qkv.arange(1e39, 2e39, 1e39)).all()


def test_integers_do_not_wrap():
    with pytest.raises(
        ValueError, match=r"^full: fill_value must be below 2\^63 .*; got 9223372036854775808$"
    ):
        qkv.full((1,), 2**63, dtype="int64")
    with pytest.raises(ValueError, match=r"^arange: stop must be below 2\^63 .*; got 9223372036854775808$"):
        qkv.arange(0, 2**63)
    assert qkv.arange(2**63 - 3, 2**63 - 1).tolist() == [2**63 - 3, 2**63 - 2]


def test_complex_numbers_are_refused():
    for make in (
        lambda: qkv.full(3, 1j, dtype="float32"),
        lambda: qkv.full_like(np.ones(3), 1j),
        lambda: qkv.linspace(0, np.ones(3, complex)),
    ):
        with pytest.raises(TypeError, match=r"^expected real numbers because qkv computes in no others"):
            make()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: qkv.full((2,), 300, dtype="int8"),
            OverflowError,
            r"^full: fill_value must be from -128 to 127 because the dtype is int8; got 300$",
        ),
        (
            lambda: qkv.full((2,), 300.0, dtype="int8"),
            OverflowError,
            r"^full: fill_value must be from -128 to 127 because the dtype is int8; got 300\.0$",
        ),
        (
            lambda: qkv.full((2,), -9.5e18, dtype="int64"),
            OverflowError,
            r"^full: fill_value must be from -9223372036854775808 .* int64; got -9\.5e\+18$",
        ),
        (
            lambda: qkv.full_like(np.zeros(2, "int32"), np.nan),
            OverflowError,
            r"^full_like: fill_value must be from .* int32; got nan$",
        ),
        (
            lambda: qkv.full_like(np.zeros(2, "uint16"), [7, -3]),
            OverflowError,
            r"^full_like: fill_value must be from 0 to 65535 because the dtype is uint16; got -3$",
        ),
        (
            lambda: qkv.arange(300, dtype="uint8"),
            OverflowError,
            r"^arange: numbers must be from 0 to 255 because the dtype is uint8; got 299$",
        ),
        (
            lambda: qkv.zeros(2, dtype="complex64"),
            TypeError,
            r"^zeros: dtype must be one of real numbers .*complex64$",
        ),
        (
            lambda: qkv.ones(2, dtype=object),
            TypeError,
            r"^ones: dtype must be one of real numbers .*; got object$",
        ),
        (lambda: qkv.zeros(True), TypeError, r"^zeros: size must be integers .*; got True$"),
        (lambda: qkv.linspace(0, 1, -1), ValueError, r"^linspace: num must be at least 0; got -1$"),
        (
            lambda: qkv.normalize(3.0),
            ValueError,
            r"^normalize: axis must be None because a number has no axes; got axis -1$",
        ),
        (
            lambda: qkv.split(np.arange(6), 2.0),
            TypeError,
            r"^split: indices_or_sections must be an integer because .*; got 2\.0$",
        ),
    ],
)
def test_what_a_dtype_or_an_axis_lacks_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_the_ends_of_narrow_dtypes():
    assert qkv.arange(256, dtype="uint8")[-1] == 255
    assert qkv.full((2,), -128, dtype="int8").tolist() == [-128, -128]
