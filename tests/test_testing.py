"""The checkers accept what is right and are shown to fail on what is wrong."""

from __future__ import annotations

import re

import numpy as np
import pytest

from qkv.testing import assert_close, assert_shape


class TestAssertShape:
    def test_returns_its_argument(self):
        x = np.zeros((2, 4, 7))
        assert assert_shape(x, (2, 4, None)) is x
        assert assert_shape(x, "B L M", B=2) is x
        assert assert_shape(x, "2 _ M", M=7) is x
        assert assert_shape(x, ("B", 4, "M"), B=2) is x
        assert assert_shape(3.0, ()) == 3.0
        assert assert_shape([[1, 2, 3]], "Lq Lk", Lk=3) == [[1, 2, 3]]

    @pytest.mark.parametrize(
        ("shape", "sizes", "message"),
        [
            ((2, 5, None), {}, "axis 1 must be 5 because the shape is (2, 5, _); got 4 in shape (2, 4, 7)"),
            ("B L M", {"M": 6}, "axis 2 must be 6 because M = 6; got 7 in shape (2, 4, 7)"),
            ("B L L", {}, "axis 2 must be 4 because L = 4; got 7 in shape (2, 4, 7)"),
            ("B L", {}, "x must have 2 axes to be (B, L); got 3 in shape (2, 4, 7)"),
            ("3 L M", {}, "axis 0 must be 3 because the shape is (3, L, M); got 2 in shape (2, 4, 7)"),
        ],
    )
    def test_names_the_axis(self, shape, sizes, message):
        with pytest.raises(AssertionError, match=f"^assert_shape: {re.escape(message)}$"):
            assert_shape(np.zeros((2, 4, 7)), shape, **sizes)


class TestAssertClose:
    def test_accepts_what_is_close(self):
        assert_close(np.float32([1 / 3]), [1 / 3])
        assert_close([1.0, np.nan, np.inf, -np.inf], [1.0 + 1e-10, np.nan, np.inf, -np.inf])
        assert_close(np.float16([0.1]), np.float64([0.1]))
        assert_close([[1, 2]], np.array([[1, 2]], np.int32))
        assert_close([], [])
        assert_close([1.0], [1.09], rtol=0.1)
        assert_close([1], [2], atol=1)

    def test_names_the_worst_entry(self):
        message = (
            "assert_close: 2 of 6 entries differ, most at (1, 2): actual 5.0, expected 7.0 "
            "(rtol = 1e-09, atol = 1e-11)"
        )
        with pytest.raises(AssertionError, match=f"^{re.escape(message)}$"):
            assert_close([[0.0, 1, 2], [3, 4, 5]], [[0.0, 1, 2.5], [3, 4, 7]])

    @pytest.mark.parametrize(
        ("dtype", "error"),
        [("float64", 1e-8), ("float32", 1e-4), ("float16", 1e-2), ("int64", 1), ("bool", True)],
    )
    def test_default_tolerances(self, dtype, error):
        expected = np.zeros(3, dtype) if dtype in ("int64", "bool") else np.ones(3, dtype)
        actual = expected.copy()
        assert_close(actual, expected)
        actual[1] += np.asarray(error, dtype)
        with pytest.raises(AssertionError, match=r"1 of 3 entries differ, most at \(1,\)"):
            assert_close(actual, expected)

    @pytest.mark.parametrize(
        ("actual", "expected"),
        [(np.nan, 1.0), (1.0, np.nan), (np.inf, 1.0), (np.inf, -np.inf), (1.0, np.inf), (np.inf, np.nan)],
    )
    def test_special_values_differ(self, actual, expected):
        with pytest.raises(AssertionError, match=r"1 of 2 entries differ, most at \(1,\)"):
            assert_close([0.0, actual], [0.0, expected])
        with pytest.raises(AssertionError, match="1 of 2 entries differ"):
            assert_close([0.0, actual], [0.0, expected], rtol=1e300, atol=1e300)

    def test_large_integers_are_compared_exactly(self):
        with pytest.raises(AssertionError, match="1 of 1 entries differ"):
            assert_close([2**60], [2**60 + 1])

    def test_nothing_is_broadcast(self):
        message = r"^assert_close: actual must have the shape of expected, \(2, 1\); got actual \(2,\)$"
        with pytest.raises(AssertionError, match=message):
            assert_close([1.0, 1.0], [[1.0], [1.0]])
        with pytest.raises(AssertionError, match="got actual"):
            assert_close(np.ones(3), 1.0)

    def test_takes_what_numpy_takes(self):
        class Convertible:
            def __array__(self, dtype=None, copy=None):
                return np.array([1.5], dtype)

        assert_close(Convertible(), [1.5])
        with pytest.raises(AssertionError, match=r"actual 1\.5, expected 1\.6"):
            assert_close(Convertible(), [1.6])
