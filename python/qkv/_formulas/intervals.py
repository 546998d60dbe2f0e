"""Which blocks of pairs a mask excludes, allows or divides, found without a look at each pair.

What depends on one index, or on their difference, has values, whose ranges in each block are exact; what combines
these is interval arithmetic. Ranges are pairs of arrays ``(B or 1, H or 1, query blocks or 1, key blocks or 1)``:
the least and largest number, or whether a condition must and may hold. Time and memory grow with L and the number of
blocks.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .graph import HEAD, KEY, PAIR, QUERY, Graph, Node
from .operations import NUMPY

EMPTY, MIXED, FULL = 0, 1, 2
_FAR = 2**62
_LARGEST_TABLE = 2**22  # elements of a captured array up to which its ranges are looked at in parts
_MONOTONE = frozenset(["exp", "exp2", "log", "tanh", "sigmoid", "sqrt", "floor", "float", "integer"])
Bounds = tuple[Any, Any]


class Blocks:
    """The ranges of a formula's nodes in blocks of `size` queries times `size` keys."""

    def __init__(self, graph: Graph, size: tuple[int, int]) -> None:
        self._graph, (self._rows, self._columns) = graph, size
        _, _, Lq, Lk = graph.shape
        self._q0, self._k0 = np.arange(0, Lq, size[0]), np.arange(0, Lk, size[1])
        self._ranges: dict[int, Bounds] = {}
        self._tables: dict[int, list[Bounds]] = {}

    def kinds(self, mask: Node) -> Any:
        """Give EMPTY, MIXED or FULL for each block, uint8 (B or 1, H or 1, query blocks, key blocks)."""
        must, may = self.of(mask)
        kinds = np.asarray(may, np.uint8) + np.asarray(np.logical_and(must, may), np.uint8)
        return np.broadcast_to(
            kinds, (*kinds.shape[:-2], len(self._q0), len(self._k0)) if kinds.ndim else self._all()
        )

    def _all(self) -> tuple[int, ...]:
        return 1, 1, len(self._q0), len(self._k0)

    def of(self, n: Node) -> Bounds:
        if n.number not in self._ranges:
            if n.level != PAIR:
                self._ranges[n.number] = self._reduced(n)
            else:
                with np.errstate(all="ignore"):
                    self._ranges[n.number] = self._combined(n, [self.of(a) for a in n.args])
        return self._ranges[n.number]

    def _reduced(self, n: Node) -> Bounds:
        """Give the exact range in each block of a node below pairs."""
        values = self._graph.values(n)
        values = np.asarray(values.detach().numpy() if hasattr(values, "detach") else values)
        low, high = (np.logical_and, np.logical_or) if n.kind == "b" else (np.minimum, np.maximum)
        if values.ndim == 0:
            return values, values
        if n.level == HEAD:
            return values[..., None], values[..., None]
        if n.level == QUERY:
            return low.reduceat(values, self._q0, -1)[..., None], high.reduceat(values, self._q0, -1)[
                ..., None
            ]
        if n.level == KEY:
            parts = low.reduceat(values, self._k0, -1), high.reduceat(values, self._k0, -1)
            return parts[0][:, :, None], parts[1][:, :, None]
        return self._along_diagonals(values, low, high)

    def _along_diagonals(self, values: Any, low: Any, high: Any) -> Bounds:
        """Give the ranges of q - k in each block, of pairs that there are."""
        _, _, Lq, Lk = self._graph.shape
        steps: list[Bounds] = []

        def of(q0: Any, k0: Any) -> Bounds:
            first = q0 - np.minimum(k0 + self._columns, Lk) + Lk
            return _ranges_of(
                values, first, np.minimum(q0 + self._rows, Lq) - 1 - k0 + Lk - 1, steps, low, high
            )

        if self._rows != self._columns or not (self._q0.size and self._k0.size):
            return of(self._q0[:, None], self._k0)
        # Square blocks on a diagonal are alike, but for the last ones, which may be smaller.
        places = np.arange(len(self._q0))[:, None] - np.arange(len(self._k0)) + len(self._k0) - 1
        whole = np.arange(-len(self._k0) + 1, len(self._q0)) * self._rows + Lk
        found = _ranges_of(values, whole - self._columns, whole + self._rows - 2, steps, low, high)
        blocks = tuple(x[..., places] for x in found)
        for x, last_row, last_column in zip(
            blocks, of(self._q0[-1:], self._k0), of(self._q0, self._k0[-1:]), strict=True
        ):
            x[..., -1, :], x[..., :, -1] = last_row, last_column
        return blocks

    def _of_table(self, number: int, low_index: Any, high_index: Any) -> Bounds:
        table = self._graph.tables[number]
        flat = np.asarray(table.detach().numpy() if hasattr(table, "detach") else table).reshape(-1)
        low, high = (np.logical_and, np.logical_or) if flat.dtype.kind == "b" else (np.minimum, np.maximum)
        if flat.size > _LARGEST_TABLE:
            return low.reduce(flat), high.reduce(flat)
        steps = self._tables.setdefault(number, [])
        first, last = np.broadcast_arrays(low_index, high_index)
        return _ranges_of(flat, first, last, steps, low, high)

    def _combined(self, n: Node, of: list[Bounds]) -> Bounds:
        """Give the range of a node of pairs from those of its arguments."""
        op = n.op
        if op == "gather":
            strides = np.cumprod((1, *self._graph.tables[n.attr].shape[:0:-1]))[::-1]
            ends = zip(of, strides, strict=False)
            low, high = 0, 0
            for (a, b), stride in ends:
                low, high = low + a * stride, high + b * stride
            return self._of_table(n.attr, low, high)
        if op in ("less", "less_equal", "equal"):
            (a, b), (c, d) = of
            if op == "equal":
                return (a == b) & (c == d) & (a == c), (a <= d) & (c <= b)
            return (b < c, a < d) if op == "less" else (b <= c, a <= d)
        if n.kind == "b" and op in _CONDITIONS:
            found: Bounds | None = _CONDITIONS[op](*of)
            assert found is not None
            return found
        if op == "index":
            inside = (of[0][0] >= 0) & (of[0][1] < n.attr)
            return np.where(inside, of[0][0], 0), np.where(inside, of[0][1], n.attr - 1)
        if op in _MONOTONE:
            function: Any = {"float": np.asarray, "integer": np.trunc}.get(op) or NUMPY[op]
            return function(of[0][0]), function(of[0][1])
        if op in _NUMBERS:
            found = _NUMBERS[op](*of)
            if found is not None:
                return found
        return (False, True) if n.kind == "b" else (-_FAR, _FAR)


def _ranges_of(values: Any, first: Any, last: Any, steps: list[Bounds], low: Any, high: Any) -> Bounds:
    """Give the least and largest of values[..., first .. last], by the ranges of 1, 2, 4, ... elements, `steps`."""
    size = values.shape[-1]
    first, last = np.clip(first, 0, size - 1).astype(np.int64), np.clip(last, 0, size - 1).astype(np.int64)
    power = np.frexp((last - first + 1).astype(np.float64))[1] - 1
    found = np.empty((2, *values.shape[:-1], *first.shape), values.dtype)
    if not steps:
        steps.append((values, values))
    for j in range(int(power.max(initial=0)) + 1):
        if j == len(steps):
            a, b = steps[-1]
            half = 1 << (j - 1)
            steps.append((low(a[..., :-half], a[..., half:]), high(b[..., :-half], b[..., half:])))
        at = power == j
        if at.any():
            begin, end = first[at], last[at] + 1 - (1 << j)
            found[0][..., at] = low(steps[j][0][..., begin], steps[j][0][..., end])
            found[1][..., at] = high(steps[j][1][..., begin], steps[j][1][..., end])
    return found[0], found[1]


def _xor(a: Bounds, b: Bounds) -> Bounds:
    known = (a[0] == a[1]) & (b[0] == b[1])
    return known & (a[0] ^ b[0]), ~known | (a[0] ^ b[0])


def _where(condition: Bounds, a: Bounds, b: Bounds) -> Bounds:
    must, may = condition
    if np.asarray(a[0]).dtype.kind == "b":
        low, high = a[0] & b[0], a[1] | b[1]
    else:
        low, high = np.minimum(a[0], b[0]), np.maximum(a[1], b[1])
    return np.where(must, a[0], np.where(may, low, b[0])), np.where(must, a[1], np.where(may, high, b[1]))


_CONDITIONS: dict[str, Any] = {
    "bitwise_and": lambda a, b: (a[0] & b[0], a[1] & b[1]),
    "bitwise_or": lambda a, b: (a[0] | b[0], a[1] | b[1]),
    "bitwise_xor": _xor,
    "invert": lambda a: (~np.asarray(a[1], bool), ~np.asarray(a[0], bool)),
    "where": _where,
}


def _products(function: Any, a: Bounds, b: Bounds) -> Bounds:
    ends = [function(x, y) for x in a for y in b]
    return np.minimum.reduce(np.broadcast_arrays(*ends)), np.maximum.reduce(np.broadcast_arrays(*ends))


def _quotients(function: Any, a: Bounds, b: Bounds) -> Bounds | None:
    return _products(function, a, b) if np.all((b[0] > 0) | (b[1] < 0)) else None


def _remainder(a: Bounds, b: Bounds) -> Bounds | None:
    divisor = b[0]
    if not np.all((b[0] == b[1]) & (divisor > 0)):
        return None
    same = a[0] // divisor == a[1] // divisor
    return np.where(same, a[0] % divisor, 0), np.where(same, a[1] % divisor, divisor)


def _absolute(a: Bounds) -> Bounds:
    return np.maximum(np.maximum(a[0], -a[1]), 0), np.maximum(-a[0], a[1])


def _bits(a: Bounds, b: Bounds) -> Bounds | None:
    if not np.all((a[0] >= 0) & (b[0] >= 0)):
        return None
    return np.zeros_like(a[0] + b[0]), np.minimum(a[1], b[1])


_NUMBERS: dict[str, Any] = {
    "add": lambda a, b: (a[0] + b[0], a[1] + b[1]),
    "subtract": lambda a, b: (a[0] - b[1], a[1] - b[0]),
    "multiply": lambda a, b: _products(np.multiply, a, b),
    "negative": lambda a: (-a[1], -a[0]),
    "absolute": _absolute,
    "minimum": lambda a, b: (np.minimum(a[0], b[0]), np.minimum(a[1], b[1])),
    "maximum": lambda a, b: (np.maximum(a[0], b[0]), np.maximum(a[1], b[1])),
    "divide": lambda a, b: _quotients(np.divide, a, b),
    "floor_divide": lambda a, b: _quotients(np.floor_divide, a, b),
    "remainder": _remainder,
    "bitwise_and": _bits,
    "where": _where,
}
