"""Hands the nodes of pairs to the core: an instruction for each, and what lies below pairs as leaves.

The core interprets them on tiles of scores, forwards and backwards. Leaves are values of the graph; programs are
found again by their instructions.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from .. import _core
from .canonical import applied
from .evaluation import needed
from .graph import Graph
from .intervals import EMPTY, FULL, Blocks
from .nodes import DIAGONAL, HEAD, KEY, PAIR, QUERY, Node

BLOCK = 128  # queries and keys of a block that a mask is classified by
_LEVELS = {HEAD: "head", QUERY: "query", KEY: "key", DIAGONAL: "diagonal"}
_KINDS = {"f": "float", "i": "integer", "b": "boolean"}
_NAMES = {"bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "xor", "invert": "not"}

# Of a leaf: a node below pairs, or a captured array's number and how many of its axes are those of batch and head.
_Source = Node | tuple[int, int]


class _Writer:
    """The instructions of some roots, in an order in which each follows what it reads."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.formula = ""  # which is written, for errors
        self.nodes: list[tuple[Any, ...]] = []
        self.keys: list[Any] = []  # by what they are: -0.0 is not 0.0, and NaN is NaN
        self.leaves: list[tuple[str, str]] = []
        self.sources: list[_Source] = []
        self._written: dict[Any, int] = {}
        self._leaf_numbers: dict[Any, int] = {}

    def _add(self, op: str, args: tuple[int, ...] = (), attribute: Any = None, line: str = "") -> int:
        key = op, args, repr(attribute)
        if key not in self._written:
            self._written[key] = len(self.nodes)
            self.nodes.append((op, args, attribute, line))
            self.keys.append((*key, line))
        return self._written[key]

    def _leaf(self, source: _Source, level: str, kind: str) -> int:
        if source not in self._leaf_numbers:
            self._leaf_numbers[source] = len(self.leaves)
            self.leaves.append((level, _KINDS[kind]))
            self.sources.append(source)
        return self._leaf_numbers[source]

    def write(self, n: Node) -> int:
        """Return the number of a node's instruction."""
        if n.op == "const":
            return self._add("constant", (), n.attr)
        if n.op == "score":
            return self._add("score")
        if n.level != PAIR:
            return self._add("leaf", (), self._leaf(n, _LEVELS[n.level], n.kind))
        if n.op == "gather":
            return self._gather(n)
        if n.op == "index":
            return self._add("index", (self.write(n.args[0]),), n.attr, f"{self.formula}, {n.line}")
        if n.op == "exp2":
            log2 = self._add("constant", (), float(np.log(2)))
            return self._add("exp", (self._add("multiply", (self.write(n.args[0]), log2)),))
        if n.op == "divide" and n.args[0].score and n.args[1].level != PAIR:
            # One division for a row, not one for each pair.
            one = applied(self.graph, "divide", [self.graph.const(1.0), n.args[1]])
            return self._add("multiply", (self.write(n.args[0]), self.write(one)))
        return self._add(_NAMES.get(n.op, n.op), tuple(self.write(a) for a in n.args))

    def _gather(self, n: Node) -> int:
        """A captured array at an index of pairs: by rows where keys follow each other in memory."""
        table = self.graph.tables[n.attr]
        strides = np.cumprod((1, *table.shape[:0:-1]))[::-1]
        terms = [(int(s), a) for s, a in zip(strides, n.args, strict=False)]
        index = self.graph.linear(*terms)
        form = dict(self.graph.form(index))
        of_difference = form.pop(self.graph.delta, 0)
        of_key = form.pop(self.graph.k, 0) - of_difference
        form[self.graph.q] = form.get(self.graph.q, 0) + of_difference
        if of_key == 1 and all(atom is None or atom.level in (HEAD, QUERY) for atom in form):
            row = self.graph.linear(
                *((c, self.graph.const(1, "i") if atom is None else atom) for atom, c in form.items())
            )
            leaf = self._leaf(row, "query" if row.level == QUERY else "head", "i")
            return self._add("rows", (self._add("leaf", (), leaf),), self._leaf((n.attr, 0), "table", n.kind))
        level, of_heads = "table", _axes_of_heads(self.graph, n)
        if of_heads:  # each head reads its own
            level, index = "head_table", self.graph.linear(*terms[of_heads:])
        return self._add("gather", (self.write(index),), self._leaf((n.attr, of_heads), level, n.kind))


def _axes_of_heads(graph: Graph, n: Node) -> int:
    """Return how many axes of a captured array are those of batch and head, or of head alone; 0 if neither."""
    shape = graph.tables[n.attr].shape
    if n.args[:2] == (graph.b, graph.h) and shape[:2] == graph.shape[:2] and len(n.args) > 2:
        return 2
    return int(n.args[0] is graph.h and shape[0] == graph.shape[1] and len(n.args) > 1)


class _Program:
    """What a program is made from, equal where the program is."""

    def __init__(self, writer: _Writer, score: int | None, mask: int | None) -> None:
        self._made_from = writer.nodes, writer.leaves, score, mask
        self._key = tuple(writer.keys), tuple(writer.leaves), score, mask

    def __eq__(self, other: Any) -> bool:
        return bool(self._key == other._key)

    def __hash__(self) -> int:
        return hash(self._key)

    @lru_cache(256)  # noqa: B019
    def compiled(self) -> Any:
        return _core.formula_program(*self._made_from)


class Written:
    """A formula's program and where its arrays come from, for the graph or for it at other shapes."""

    def __init__(self, graph: Graph, score: Node | None, mask: Node | None, names: tuple[str, str]) -> None:
        """Write a score and a mask, either of which may be missing; `names` are for errors."""
        writer = _Writer(graph)
        numbers = []
        for root, writer.formula in zip((score, mask), names, strict=True):
            numbers.append(None if root is None else writer.write(root))
        self.graph, self._mask = graph, mask
        self.roots = [root for root in (score, mask) if root is not None]
        self._sources = writer.sources
        self._program = _Program(writer, *numbers).compiled()

    def formula(self, graph: Graph) -> Any:
        """Return the core's formula at a graph's shape."""
        arrays = [_array(graph, source) for source in self._sources]
        if self._mask is None:
            return _core.formula(self._program, arrays)
        kinds = Blocks(graph, (BLOCK, BLOCK)).kinds(self._mask)
        # A pair whose index may lie outside is looked at for any range of the elements.
        sure = not any(n.op == "index" and n.level == PAIR for n in needed(self._mask))
        return _core.formula(self._program, arrays, kinds != EMPTY, (kinds == FULL) & sure)


def _array(graph: Graph, source: _Source) -> Any:
    if isinstance(source, tuple):
        table = graph.tables[source[0]]
        return table[None] if source[1] == 1 else table
    values = graph.values(source)
    return values if values.ndim else values.reshape((1, 1, 1))
