"""Which blocks of pairs a mask excludes, allows or divides, found without a look at each pair.

What depends on one index, or on their difference, has values, whose ranges in each block are exact; what combines
these is interval arithmetic. Ranges are pairs of arrays ``(B or 1, H or 1, query blocks or 1, key blocks or 1)``. Time
and memory grow with L and the number of blocks.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .graph import Graph, detached
from .nodes import HEAD, KEY, QUERY, Node
from .ranges import Bounds, Ranges

EMPTY, MIXED, FULL = 0, 1, 2
_LARGEST_TABLE = 2**22  # elements of a captured array up to which its ranges are looked at in parts


class Blocks(Ranges):
    """The ranges of a formula's nodes in blocks of `size` queries times `size` keys."""

    def __init__(self, graph: Graph, size: tuple[int, int]) -> None:
        super().__init__(graph.dtype, {})
        self._graph, (self._rows, self._columns) = graph, size
        _, _, Lq, Lk = graph.shape
        self._q0, self._k0 = np.arange(0, Lq, size[0]), np.arange(0, Lk, size[1])
        self._tables: dict[int, list[Bounds]] = {}
        self._sums: dict[int, Any] = {}

    def kinds(self, mask: Node) -> Any:
        """Return EMPTY, MIXED or FULL for each block, uint8 (B or 1, H or 1, query blocks, key blocks)."""
        blocks = 1, 1, len(self._q0), len(self._k0)
        if 0 in self._graph.shape:
            return np.zeros(blocks, np.uint8)
        must, may = self.of(mask)
        kinds = np.asarray(may, np.uint8) + np.asarray(np.logical_and(must, may), np.uint8)
        return np.broadcast_to(kinds, np.broadcast_shapes(kinds.shape, blocks))

    def below(self, n: Node) -> Bounds:
        """Return the exact range in each block of a node below pairs."""
        values = np.asarray(detached(self._graph.values(n)))
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
        """Return the ranges of q - k in each block, of pairs that there are."""
        _, _, Lq, Lk = self._graph.shape
        steps: list[Bounds] = []

        def of(q0: Any, k0: Any) -> Bounds:
            first = q0 - np.minimum(k0 + self._columns, Lk) + Lk
            return _ranges_of(
                values, first, np.minimum(q0 + self._rows, Lq) - 1 - k0 + Lk - 1, steps, low, high
            )

        if self._rows != self._columns or not (self._q0.size and self._k0.size):
            return of(self._q0[:, None], self._k0)
        # Square blocks on a diagonal are alike, except for the last ones, which may be smaller.
        places = np.arange(len(self._q0))[:, None] - np.arange(len(self._k0)) + len(self._k0) - 1
        whole = np.arange(-len(self._k0) + 1, len(self._q0)) * self._rows + Lk
        found = _ranges_of(values, whole - self._columns, whole + self._rows - 2, steps, low, high)
        blocks = tuple(x[..., places] for x in found)
        for x, last_row, last_column in zip(
            blocks, of(self._q0[-1:], self._k0), of(self._q0, self._k0[-1:]), strict=True
        ):
            x[..., -1, :], x[..., :, -1] = last_row, last_column
        return blocks

    def of_table(self, n: Node, indices: list[Bounds]) -> Bounds:
        shape = self._graph.tables[n.attr].shape
        flat = np.asarray(detached(self._graph.tables[n.attr])).reshape(-1)
        low, high = (np.logical_and, np.logical_or) if flat.dtype.kind == "b" else (np.minimum, np.maximum)
        if flat.size > _LARGEST_TABLE:
            return low.reduce(flat), high.reduce(flat)
        if flat.dtype.kind == "b" and len(indices) > 1 and all(np.array_equal(a, b) for a, b in indices[:-2]):
            return self._in_rectangles(n.attr, flat.reshape(shape), indices)
        first: Any = 0
        last: Any = 0
        for (a, b), stride in zip(indices, np.cumprod((1, *shape[:0:-1]))[::-1], strict=False):
            first, last = first + a * stride, last + b * stride
        first, last = np.broadcast_arrays(first, last)
        return _ranges_of(flat, first, last, self._tables.setdefault(n.attr, []), low, high)

    def _in_rectangles(self, number: int, table: Any, indices: list[Bounds]) -> Bounds:
        """Return whether all, and whether any, of a rectangle's conditions hold, by sums from the table's corner."""
        if number not in self._sums:
            sums = np.pad(table, [(0, 0)] * (table.ndim - 2) + [(1, 0), (1, 0)]).astype(np.int32)
            self._sums[number] = sums.cumsum(-1).cumsum(-2)
        *leading, (r0, r1), (c0, c1) = (
            (np.asarray(a, np.int64), np.asarray(b, np.int64) + 1) for a, b in indices
        )
        at = tuple(a for a, _ in leading)
        sums = self._sums[number]
        corners = [(*at, r, c) for r, c in ((r1, c1), (r0, c1), (r1, c0), (r0, c0))]
        inside = sums[corners[0]] - sums[corners[1]] - sums[corners[2]] + sums[corners[3]]
        return inside == (r1 - r0) * (c1 - c0), inside > 0


def _ranges_of(values: Any, first: Any, last: Any, steps: list[Bounds], low: Any, high: Any) -> Bounds:
    """Return the least and largest of values[..., first .. last], by the ranges of 1, 2, 4, ... elements, `steps`."""
    size = values.shape[-1]
    first, last = (np.atleast_1d(np.clip(x, 0, size - 1)).astype(np.int64) for x in (first, last))
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
