"""Interval arithmetic: between which values a node of pairs lies, from the ranges of what it is computed from.

A range is the least and largest number, or whether a condition must and may hold: two numbers, or two arrays with a
place for each block of pairs. Floats are computed in the dtype in which kernels compute them, so that ends are rounded
as values are; where functions are not rounded correctly, ranges are wider. Both ends of a range of floats are NaN if a
value may be NaN: then comparisons decide nothing. Integers are float64, exact up to what pairs may hold; infinite ends
are those of integers that a score gives, which are unknown.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .nodes import PAIR, Node
from .operations import NUMPY

INT32 = (-(2**31), 2**31 - 1)
Bounds = tuple[Any, Any]


class Ranges:
    """The ranges of a formula's nodes; what lies below pairs and in captured arrays is left to subclasses."""

    def __init__(self, dtype: str, found: dict[int, Bounds]) -> None:
        """`found` holds the ranges of nodes by their numbers, as they become known."""
        self.dtype, self._found = np.dtype(dtype), found

    def below(self, n: Node) -> Bounds:
        """Return the range of a node below pairs."""
        raise NotImplementedError

    def of_table(self, n: Node, indices: list[Bounds]) -> Bounds:
        """Return the range of a captured array's elements at an index of pairs."""
        raise NotImplementedError

    def of(self, n: Node) -> Bounds:
        with np.errstate(all="ignore"):
            return self._of(n)

    def _of(self, n: Node) -> Bounds:
        if n.number not in self._found:
            self._found[n.number] = self._of_pairs(n) if n.level == PAIR else self._read(n, self.below(n))
        return self._found[n.number]

    def _read(self, n: Node, found: Bounds) -> Bounds:
        """Return the range of what pairs read, in the dtype in which they do."""
        if n.kind == "b":
            return found
        dtype = self.dtype if n.kind == "f" else np.float64
        return np.asarray(found[0], dtype), np.asarray(found[1], dtype)

    def _of_pairs(self, n: Node) -> Bounds:
        if n.op == "score":
            return self.dtype.type(np.nan), self.dtype.type(np.nan)
        of = [self._of(a) for a in n.args]
        if n.op == "gather":
            return self._read(n, self.of_table(n, of))
        if n.op == "index":
            inside = (of[0][0] >= 0) & (of[0][1] < n.attr)
            return np.where(inside, of[0][0], 0.0), np.where(inside, of[0][1], n.attr - 1.0)
        if n.op == "float":
            return np.asarray(of[0][0], self.dtype), np.asarray(of[0][1], self.dtype)
        if n.op == "integer":
            return _to_integer(n, *of)
        if n.op == "multiply" and n.args[0] is n.args[1]:
            return _square(of[0])
        rules = _CONDITIONS if n.kind == "b" else _INTEGERS if n.kind == "i" else _FLOATS
        return rules[n.op](*of)


def _known(low: Any, high: Any, unknown: Any) -> Bounds:
    """Return the range, or NaN where it is unknown."""
    return (
        (np.where(unknown, np.nan, low), np.where(unknown, np.nan, high)) if np.any(unknown) else (low, high)
    )


def _has_zero(a: Bounds) -> Any:
    return (a[0] <= 0) & (a[1] >= 0)


def _infinite(a: Bounds) -> Any:
    return np.isinf(a[0]) | np.isinf(a[1])


def _point(a: Bounds) -> Any:
    return a[0] == a[1]


def _corners(function: Callable[[Any, Any], Any], a: Bounds, b: Bounds) -> Bounds:
    """Return the range of a function that is monotone in each of two numbers."""
    w, x, y, z = (function(one, other) for one in a for other in b)
    return np.minimum(np.minimum(w, x), np.minimum(y, z)), np.maximum(np.maximum(w, x), np.maximum(y, z))


# --- conditions


def _less(a: Bounds, b: Bounds) -> Bounds:
    return a[1] < b[0], ~np.asarray(a[0] >= b[1])


def _less_equal(a: Bounds, b: Bounds) -> Bounds:
    return a[1] <= b[0], ~np.asarray(a[0] > b[1])


def _equal(a: Bounds, b: Bounds) -> Bounds:
    return _point(a) & _point(b) & (a[0] == b[0]), ~np.asarray((a[0] > b[1]) | (b[0] > a[1]))


def _xor_conditions(a: Bounds, b: Bounds) -> Bounds:
    known = _point(a) & _point(b)
    return known & (a[0] ^ b[0]), ~np.asarray(known) | (a[0] ^ b[0])


def _chosen(low: Callable[[Any, Any], Any], high: Callable[[Any, Any], Any]) -> Callable[..., Bounds]:
    def where(condition: Bounds, a: Bounds, b: Bounds) -> Bounds:
        must, may = condition
        return tuple(
            np.where(must, x, np.where(may, either(x, y), y))
            for x, y, either in zip(a, b, (low, high), strict=True)
        )

    return where


_CONDITIONS: dict[str, Callable[..., Bounds]] = {
    "less": _less,
    "less_equal": _less_equal,
    "equal": _equal,
    "bitwise_and": lambda a, b: (a[0] & b[0], a[1] & b[1]),
    "bitwise_or": lambda a, b: (a[0] | b[0], a[1] | b[1]),
    "bitwise_xor": _xor_conditions,
    "invert": lambda a: (~np.asarray(a[1], bool), ~np.asarray(a[0], bool)),
    "where": _chosen(np.logical_and, np.logical_or),
}


# --- numbers of both kinds


def _square(a: Bounds) -> Bounds:
    low, high = a[0] * a[0], a[1] * a[1]
    return np.where(_has_zero(a), 0, np.minimum(low, high)).astype(low.dtype), np.maximum(low, high)


def _absolute(a: Bounds) -> Bounds:
    return np.maximum(np.maximum(a[0], -a[1]), 0), np.maximum(-a[0], a[1])


_NUMBERS: dict[str, Callable[..., Bounds]] = {
    "negative": lambda a: (-a[1], -a[0]),
    "absolute": _absolute,
    "minimum": lambda a, b: (np.minimum(a[0], b[0]), np.minimum(a[1], b[1])),
    "maximum": lambda a, b: (np.maximum(a[0], b[0]), np.maximum(a[1], b[1])),
    "where": _chosen(np.minimum, np.maximum),
}


# --- integers


def _to_integer(n: Node, a: Bounds) -> Bounds:
    if n.args[0].kind == "b":
        return np.asarray(a[0], np.float64), np.asarray(a[1], np.float64)
    if n.score:
        return np.float64(-np.inf), np.float64(np.inf)
    low, high = (np.asarray(x, np.float64) for x in a)
    inside = (np.abs(low) < 2.0**31) & (np.abs(high) < 2.0**31)  # others become the least number
    below = high < 2.0**31
    return np.where(inside, np.trunc(low), INT32[0]), np.where(below, np.trunc(high), INT32[1])


def _quotient(a: Any, b: Any) -> Any:
    return np.floor(a / b)


def _floor_divide(a: Bounds, b: Bounds) -> Bounds:
    low, high = _corners(_quotient, a, b)
    most = np.maximum(np.abs(a[0]), np.abs(a[1]))  # by integers from 1, or by 0
    apart = ~np.asarray(_has_zero(b) | np.isnan(low))
    return np.where(apart, low, -most), np.where(apart, high, most)


def _remainder(a: Bounds, b: Bounds) -> Bounds:
    divisor = b[0]
    whole = _quotient(a[0], divisor)
    same = _point(b) & (divisor != 0) & (whole == _quotient(a[1], divisor))
    return (
        np.where(same, a[0] - whole * divisor, np.minimum(b[0] + 1, 0)),
        np.where(same, a[1] - whole * divisor, np.maximum(b[1] - 1, 0)),
    )


def _product(a: Any, b: Any) -> Any:
    y = a * b
    none = np.isnan(y)  # 0 times what is not known
    return np.where(none, 0.0, y) if none.any() else y


def _bits(function: Callable[[Any, Any], Any], a: Bounds, b: Bounds) -> Bounds:
    """Return the range of what has the bits above those that differ within a range, and any below."""
    ends = [np.clip(x, -(2.0**62), 2.0**62 - 512).astype(np.int64) for x in (*a, *b)]
    differ = (ends[0] ^ ends[1]) | (ends[2] ^ ends[3])
    # All bits from the highest that differs; if the sign does, from the highest of any number.
    largest = np.maximum.reduce(np.broadcast_arrays(*(x ^ (x >> 63) for x in ends)))
    below = (np.int64(1) << np.frexp(np.where(differ < 0, largest, differ).astype(np.float64))[1]) - 1
    common = function(ends[0], ends[2])
    low, high = np.where(differ < 0, -1 - below, common & ~below), np.where(differ < 0, below, common | below)
    unknown = _infinite(a) | _infinite(b)
    return np.where(unknown, -np.inf, low), np.where(unknown, np.inf, high)


def _and(a: Bounds, b: Bounds) -> Bounds:
    low, high = _bits(np.bitwise_and, a, b)
    for one, other in ((a, b), (b, a)):  # no more bits than one that is not negative has
        certain = one[0] >= 0
        low = np.where(certain, np.maximum(low, 0), low)
        high = np.where(certain, np.minimum(high, one[1]), np.minimum(high, np.maximum(one[1], other[1])))
    return low, high


def _invert(a: Bounds) -> Bounds:
    return -1.0 - a[1], -1.0 - a[0]


def _or(a: Bounds, b: Bounds) -> Bounds:
    return _invert(_and(_invert(a), _invert(b)))


def _xor(a: Bounds, b: Bounds) -> Bounds:
    return _bits(np.bitwise_xor, a, b)


def _counts(b: Bounds) -> Bounds:
    """Return the counts by which bits are moved: one that is negative or too large moves out all."""
    low, high = np.clip(b[0], 0, 63), np.clip(b[1], 0, 63)
    return low, np.where(b[0] < 0, 63.0, high)


def _left_shift(a: Bounds, b: Bounds) -> Bounds:
    low, high = _corners(
        lambda x, count: _product(x, np.exp2(count)), a, (np.clip(b[0], 0, 63), np.clip(b[1], 0, 63))
    )
    some = (b[0] < 0) | (b[1] > 63)
    return np.where(some, np.minimum(low, 0), low), np.where(some, np.maximum(high, 0), high)


def _right_shift(a: Bounds, b: Bounds) -> Bounds:
    return _corners(lambda x, count: np.floor(x * np.exp2(-count)), a, _counts(b))


def _integer_power(a: Bounds, b: Bounds) -> Bounds:
    exponents = np.maximum(b[0], 0), np.maximum(b[1], 0)
    low, high = _corners(np.power, (np.maximum(a[0], 0), np.maximum(a[1], 0)), exponents)
    most = np.power(np.maximum(1, np.maximum(np.abs(a[0]), np.abs(a[1]))), exponents[1])
    signed = a[0] < 0
    low, high = np.where(signed, -most, low), np.where(signed, most, high)
    unknown = _infinite(a) | _infinite(b)
    return np.where(unknown, -np.inf, np.maximum(low, -1e300)), np.where(
        unknown, np.inf, np.minimum(high, 1e300)
    )


_INTEGERS = _NUMBERS | {
    "add": lambda a, b: (a[0] + b[0], a[1] + b[1]),
    "subtract": lambda a, b: (a[0] - b[1], a[1] - b[0]),
    "multiply": lambda a, b: _corners(_product, a, b),
    "floor_divide": _floor_divide,
    "remainder": _remainder,
    "power": _integer_power,
    "bitwise_and": _and,
    "bitwise_or": _or,
    "bitwise_xor": _xor,
    "invert": _invert,
    "left_shift": _left_shift,
    "right_shift": _right_shift,
}


# --- floats


def _add(a: Bounds, b: Bounds) -> Bounds:
    unknown = np.isnan(a[0] + b[1]) | np.isnan(a[1] + b[0])  # of infinities with different signs, too
    return _known(a[0] + b[0], a[1] + b[1], unknown)


def _multiply(a: Bounds, b: Bounds) -> Bounds:
    low, high = _corners(np.multiply, a, b)
    return _known(low, high, np.isnan(low) | (_has_zero(a) & _infinite(b)) | (_has_zero(b) & _infinite(a)))


def _divide(a: Bounds, b: Bounds) -> Bounds:
    low, high = _corners(np.divide, a, b)
    return _known(low, high, np.isnan(low) | _has_zero(b) | (_infinite(a) & _infinite(b)))


def _float_floor_divide(a: Bounds, b: Bounds) -> Bounds:
    low, high = _corners(np.floor_divide, a, b)
    low, high = (
        np.where(np.abs(x) < 2**22, x, wide)
        for x, wide in zip((low, high), _wider(low, high, 4), strict=True)
    )
    return _known(low, high, np.isnan(low) | _has_zero(b) | _infinite(a) | _infinite(b))


def _float_remainder(a: Bounds, b: Bounds) -> Bounds:
    divisor = b[0]
    whole = np.floor_divide(a[0], divisor)
    same = _point(b) & (whole == np.floor_divide(a[1], divisor)) & (np.abs(whole) < 2**22)
    low = np.where(same, np.remainder(a[0], divisor), np.minimum(b[0], 0))
    high = np.where(same, np.remainder(a[1], divisor), np.maximum(b[1], 0))
    return _known(low, high, np.isnan(a[0]) | np.isnan(b[0]) | _has_zero(b) | _infinite(a))


def _wider(low: Any, high: Any, places: Any) -> Bounds:
    """Return the range that holds what differs from its ends in so many of their last places."""
    info = np.finfo(low.dtype)

    def moved(x: Any, by: Any) -> Any:
        return np.where(np.isinf(x), x, x + by * (np.abs(x) * info.eps + info.tiny)).astype(x.dtype)

    return moved(low, -places), moved(high, places)


_LIMITS = {"exp": (0, np.inf), "exp2": (0, np.inf), "tanh": (-1, 1), "sigmoid": (0, 1), "erf": (-1, 1)}


def _rough(op: str) -> Callable[[Bounds], Bounds]:
    """Return the rule of a rising function that kernels compute in their own way."""
    least, largest = _LIMITS.get(op, (-np.inf, np.inf))

    def rule(a: Bounds) -> Bounds:
        low, high = (NUMPY[op](np.asarray(x, np.float64)).astype(a[0].dtype) for x in a)
        # The exponent of 2^x is rounded.
        places = 16 + 2 * np.maximum(np.abs(a[0]), np.abs(a[1])) if op == "exp2" else 16
        low, high = _wider(low, high, np.minimum(places, 1e4))
        high = np.where(high > np.finfo(high.dtype).max / 4, np.inf, high)  # where exp overflows
        return _known(np.clip(low, least, largest), np.clip(high, least, largest), np.isnan(low))

    return rule


def _of_negative_unknown(rule: Callable[[Bounds], Bounds]) -> Callable[[Bounds], Bounds]:
    return lambda a: _known(*rule(a), np.isnan(a[0]) | (a[0] < 0))


def _wave(a: Bounds) -> Bounds:
    one = np.ones_like(a[0] + a[1])
    return _known(*_wider(-one, one, 4), np.isnan(a[0]) | _infinite(a))


def _power(a: Bounds, b: Bounds) -> Bounds:
    low, high = _wider(*_corners(np.power, a, b), 16)
    return _known(low, high, np.isnan(a[0]) | np.isnan(b[0]) | ~np.asarray(a[0] > 0))


_FLOATS = (
    _NUMBERS
    | {
        "add": _add,
        "subtract": lambda a, b: _add(a, (-b[1], -b[0])),
        "multiply": _multiply,
        "divide": _divide,
        "floor_divide": _float_floor_divide,
        "remainder": _float_remainder,
        "power": _power,
        "sqrt": _of_negative_unknown(lambda a: (np.sqrt(a[0]), np.sqrt(a[1]))),
        "log": _of_negative_unknown(_rough("log")),
        "floor": lambda a: (np.floor(a[0]), np.floor(a[1])),
        "sin": _wave,
        "cos": _wave,
    }
    | {op: _rough(op) for op in _LIMITS}
)
