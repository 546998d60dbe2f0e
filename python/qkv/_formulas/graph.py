"""The graph of a traced formula: equal nodes are one, constants are folded, sums of integers are linear forms.

A node's level says what it depends on besides batch and head: nothing (HEAD), the query, the key, their difference
``q_idx - kv_idx`` (DIAGONAL), or the pair of both or its score (PAIR). Below PAIR it has values: an array or Tensor
``(B or 1, H or 1, n)`` with n = 1, Lq, Lk or Lq + Lk - 1, where element ``i - j + Lk - 1`` of a diagonal belongs to
query i and key j.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import _core
from .errors import FormulaError
from .nodes import DIAGONAL, HEAD, KEY, PAIR, QUERY, Node
from .operations import NUMPY, ON_TENSORS
from .ranges import INT32, Bounds, Ranges

Range = tuple[int, int]


class Graph:
    """The nodes of one formula over indices of (B, H, Lq, Lk).

    Query 0 has position ``offsets`` (B or 1,), key 0 ``first_key``. Floats of pairs have ``dtype``; below pairs they
    are NumPy's, where captured floats and ``.float()`` have at least ``dtype``.
    """

    def __init__(
        self, shape: Sequence[int], offsets: Any = None, first_key: int = 0, dtype: str = "float32"
    ) -> None:
        self.nodes: list[Node] = []
        self.tables: list[Any] = []  # captured arrays: NumPy's, or Tensors that take a gradient
        self._known: dict[Any, Node] = {}
        self._captured: list[tuple[Any, Callable[[Any], Any]]] = []  # what these are of, and what reads it
        self.b, self.h = self.node("b", kind="i"), self.node("h", kind="i")
        self.q, self.k = self.node("q", kind="i", level=QUERY), self.node("k", kind="i", level=KEY)
        self.delta = self.node("delta", kind="i", level=DIAGONAL)
        self.score = self.node("score", kind="f", level=PAIR)
        self._place(shape, offsets, first_key, dtype)

    def _place(self, shape: Sequence[int], offsets: Any, first_key: int, dtype: str) -> None:
        B, H, Lq, Lk = self.shape = tuple(int(n) for n in shape)
        start = (
            np.zeros((1, 1, 1), np.int64)
            if offsets is None
            else np.asarray(offsets, np.int64).reshape(-1, 1, 1)
        )
        if start.size > 1 and (start == start[0]).all():
            start = start[:1]
        self.start = start
        self.dtype = dtype
        self._ranges: dict[int, Range | None] = {}
        self._bounds: dict[int, Bounds] = {}
        self._values: dict[int, Any] = {
            self.b.number: np.arange(B).reshape(-1, 1, 1),
            self.h.number: np.arange(H).reshape(1, -1, 1),
            self.q.number: start + np.arange(Lq),
            self.k.number: first_key + np.arange(Lk).reshape(1, 1, -1),
            self.delta.number: start - first_key + np.arange(1 - Lk, Lq),
        }

    def at(self, shape: Sequence[int], offsets: Any, dtype: str) -> Graph | None:
        """Return the same nodes at another shape; None if an index of pairs might lie outside there."""
        other = copy.copy(self)
        other.tables = [_readable(read(array)) for array, read in self._captured]
        other._place(shape, offsets, 0, dtype)
        for n in self.nodes:
            if n.op != "gather" or n.level != PAIR:
                continue
            for a, size in zip(n.args, self.tables[n.attr].shape, strict=False):
                found = other.range(a)
                if found is None or found[0] < 0 or found[1] >= size:
                    return None
        return other

    # --- nodes

    def node(self, op: str, *args: Node, attr: Any = None, kind: str, level: int | None = None) -> Node:
        if op in NUMPY and args and all(a.op == "const" for a in args):
            with np.errstate(all="ignore"):
                return self.const(np.asarray(NUMPY[op](*(a.attr for a in args))).item(), kind)
        key = (op, tuple(a.number for a in args), repr(attr) if op == "const" else attr, kind)
        found = self._known.get(key)
        if found is None:
            if level is None:
                levels = {a.level for a in args} - {HEAD}
                level = PAIR if len(levels) > 1 else levels.pop() if levels else HEAD
            found = self._known[key] = Node(op, args, attr, kind, level, len(self.nodes))
            self.nodes.append(found)
        return found

    def const(self, x: Any, kind: str | None = None) -> Node:
        kind = kind or (
            "b" if isinstance(x, (bool, np.bool_)) else "i" if isinstance(x, (int, np.integer)) else "f"
        )
        value: Any = {"b": bool, "i": int, "f": float}[kind](x)
        if kind == "i" and not -(2**63) <= value < 2**63:
            raise FormulaError(ValueError, f"must use integers of 64 bits at most; got {value}")
        return self.node("const", attr=value, kind=kind)

    def form(self, n: Node) -> dict[Node | None, int]:
        if n.form is not None:
            return n.form
        return {None: n.attr} if n.op == "const" else {n: 1}

    def linear(self, *terms: tuple[int, Node]) -> Node:
        """Return the sum of coefficients times integer nodes, grouped by level, with q - k as one node."""
        form: dict[Node | None, int] = {}
        for c, n in terms:
            for atom, times in self.form(n).items():
                if atom is self.delta:
                    form[self.q] = form.get(self.q, 0) + c * times
                    form[self.k] = form.get(self.k, 0) - c * times
                else:
                    form[atom] = form.get(atom, 0) + c * times
        of_q = form.get(self.q, 0)
        if of_q and of_q == -form.get(self.k, 0):
            form[self.delta] = form.pop(self.q)
            del form[self.k]
        form = {atom: c for atom, c in form.items() if c}
        key = ("linear", frozenset(form.items()))
        if key in self._known:
            return self._known[key]
        parts: dict[int, Node] = {}
        for atom, c in sorted(form.items(), key=lambda item: -1 if item[0] is None else item[0].number):
            if atom is None:
                level, term = HEAD, self.const(c, "i")
            else:
                level = atom.level
                term = atom if c == 1 else self.node("multiply", atom, self.const(c, "i"), kind="i")
            parts[level] = self.node("add", parts[level], term, kind="i") if level in parts else term
        total: Node | None = None
        for level in sorted(parts):
            total = parts[level] if total is None else self.node("add", total, parts[level], kind="i")
        if total is None:
            total = self.const(0, "i")
        if total.op != "const" and total not in form:
            total.form = form
        self._known[key] = total
        return total

    # --- captured arrays

    def table(self, array: Any, read: Callable[[Any], Any]) -> int:
        """Return the number of a captured array, which is read when it is met first."""
        for number, (known, _) in enumerate(self._captured):
            if known is array:
                return number
        made = _readable(read(array))
        self._captured.append((array, read))
        self.tables.append(made)
        return len(self.tables) - 1

    def gather(self, table: int, indices: Sequence[Node]) -> Node:
        """Return the element of a captured array; later axes have one element."""
        values = self.tables[table]
        if 0 in values.shape and 0 not in self.shape:
            raise FormulaError(
                IndexError, f"must not index a captured array without elements, {tuple(values.shape)}"
            )
        checked = [
            self._index(n, size, axis)
            for axis, (n, size) in enumerate(zip(indices, values.shape, strict=False))
        ]
        return self.node("gather", *checked, attr=table, kind=kind_of(values.dtype))

    def _index(self, n: Node, size: int, axis: int) -> Node:
        found = self.range(n)
        if found is not None and found[0] >= 0 and found[1] < size:
            return n
        if (
            found is not None
            and found[0] <= found[1]
            and (found[1] < -size or found[0] >= size or n.level != PAIR)
        ):
            worst = found[0] if found[0] < -size else found[1]
            if not -size <= worst < size:
                raise FormulaError(
                    IndexError,
                    f"must index axis {axis} of a captured array from {-size} to {size - 1}; got {worst}",
                )
        if n.op == "const":
            return self.const(n.attr + size, "i")
        return self.node("index", n, attr=size, kind="i")

    # --- values below pairs

    def values(self, n: Node) -> Any:
        """Return the values of a node below PAIR: a NumPy array, or a Tensor if it takes a gradient."""
        if n.number not in self._values:
            if n.op == "const":
                self._values[n.number] = n.attr
            else:
                self._values[n.number] = compute(self, n, [self.values(a) for a in n.args])
        return self._values[n.number]

    def range(self, n: Node) -> Range | None:
        """Return the least and largest value of an integer node; None if that is not known, or there is no value."""
        if n.number not in self._ranges:
            self._ranges[n.number] = self._range(n)
        return self._ranges[n.number]

    def _range(self, n: Node) -> Range | None:
        if n.op == "const":
            return (int(n.attr), int(n.attr))
        if n.level == PAIR:
            found = self.bounds(n)
            return (
                None
                if found is None or not all(map(math.isfinite, found))
                else (int(found[0]), int(found[1]))
            )
        values = np.asarray(self.values(n))
        return (int(values.min()), int(values.max())) if values.size else None

    def bounds(self, n: Node) -> tuple[float, float] | None:
        """Return the range of a node's values over all pairs, of floats as well; None if there are no pairs."""
        if 0 in self.shape:
            return None
        low, high = _OverAll(self, self._bounds).of(n)
        return float(low), float(high)


class _OverAll(Ranges):
    """The ranges of a graph's nodes over all pairs."""

    def __init__(self, graph: Graph, found: dict[int, Bounds]) -> None:
        super().__init__(graph.dtype, found)
        self._graph = graph

    def below(self, n: Node) -> Bounds:
        values = np.asarray(detached(self._graph.values(n)))
        return values.min(), values.max()

    def of_table(self, n: Node, indices: list[Bounds]) -> Bounds:
        values = np.asarray(detached(self._graph.tables[n.attr]))
        return values.min(), values.max()


def detached(x: Any) -> Any:
    return x.detach().numpy() if isinstance(x, _core.Tensor) else x


def _readable(array: Any) -> Any:
    """Return a captured array as it is now: as NumPy's unless it takes a gradient."""
    if isinstance(array, _core.Tensor) and not (array.requires_grad and _core.grad_enabled()):
        array = array.detach().numpy()
    if isinstance(array, np.ndarray) and array.dtype.kind == "f" and array.dtype.itemsize not in (4, 8):
        return array.astype(np.float32 if array.dtype.itemsize < 4 else np.float64)
    if array.dtype == np.uint64 and array.size and array.max() >= 2**63:
        raise FormulaError(ValueError, f"must capture integers of 64 bits with a sign; got {array.max()}")
    return array


def kind_of(dtype: Any) -> str:
    kind = np.dtype(dtype).kind
    return kind if kind in "bf" else "i"


def compute(graph: Graph, n: Node, args: list[Any], pair_dtype: Any = None) -> Any:
    """Compute a node from its arguments' values; floats of pairs have ``pair_dtype``."""
    wide = graph.dtype if graph.dtype == "float64" else None
    if n.op == "gather":
        table = graph.tables[n.attr]
        if not args:  # one element
            x = table.reshape(()) if isinstance(table, _core.Tensor) else np.asarray(table).reshape(())
        else:
            x = table[tuple(args) + (0,) * (table.ndim - len(args))]
        dtype = {"f": pair_dtype or wide, "i": "int64"}.get(n.kind)
        return x if dtype is None or x.dtype == dtype else x.astype(dtype)
    if n.op == "index":
        (x,), size = args, n.attr
        return np.where(x < 0, x + size, x)
    if n.op == "float":
        dtype = pair_dtype or (graph.dtype if n.attr == "float" else n.attr) or "float64"
        x = args[0]
        return x.astype(dtype) if isinstance(x, _core.Tensor) else np.asarray(x, dtype)
    if n.op == "integer":
        x = np.asarray(detached(args[0]))
        if x.dtype.kind != "f":
            return x.astype(np.int64)
        limit = 2.0**63 if pair_dtype is None else 2.0**31
        return np.where(np.abs(x) < limit, np.trunc(x), INT32[0]).astype(
            np.int64
        )  # also of NaN, at all levels
    if any(isinstance(x, _core.Tensor) for x in args):
        if n.kind == "f":
            return ON_TENSORS[n.op](*args)
        args = [detached(x) for x in args]
    with np.errstate(all="ignore"):
        result = NUMPY[n.op](*args)
    if pair_dtype is not None and n.kind == "f" and result.dtype != pair_dtype:
        return result.astype(pair_dtype)
    return result
