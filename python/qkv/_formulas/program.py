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
from .graph import DIAGONAL, HEAD, KEY, PAIR, QUERY, Graph, Node
from .intervals import EMPTY, FULL, Blocks

BLOCK = 128  # queries and keys of a block that a mask is classified by
_LEVELS = {HEAD: "head", QUERY: "query", KEY: "key", DIAGONAL: "diagonal"}
_KINDS = {"f": "float", "i": "integer", "b": "boolean"}
_NAMES = {"bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "xor", "invert": "not"}


class _Writer:
    """The instructions of some roots, in an order in which each follows what it reads."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.formula = ""  # which is written, for errors
        self.nodes: list[tuple[Any, ...]] = []
        self.leaves: list[tuple[str, str]] = []
        self.arrays: list[Any] = []
        self._written: dict[Any, int] = {}
        self._leaf_numbers: dict[Any, int] = {}

    def _add(self, op: str, args: tuple[int, ...] = (), attribute: Any = None, line: str = "") -> int:
        key = op, args, repr(attribute)
        if key not in self._written:
            self._written[key] = len(self.nodes)
            self.nodes.append((op, args, attribute, line))
        return self._written[key]

    def _leaf(self, key: Any, level: str, kind: str, array: Any) -> int:
        if key not in self._leaf_numbers:
            self._leaf_numbers[key] = len(self.leaves)
            self.leaves.append((level, _KINDS[kind]))
            self.arrays.append(array)
        return self._leaf_numbers[key]

    def write(self, n: Node) -> int:
        """Give the number of a node's instruction."""
        if n.op == "const":
            return self._add("constant", (), n.attr)
        if n.op == "score":
            return self._add("score")
        if n.level != PAIR:
            values = self.graph.values(n)
            array = values if values.ndim else values.reshape((1, 1, 1))
            return self._add("leaf", (), self._leaf(n.number, _LEVELS[n.level], n.kind, array))
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
        number = self._leaf(("table", n.attr), "table", n.kind, table)
        strides = np.cumprod((1, *table.shape[:0:-1]))[::-1]
        index = self.graph.linear(*((int(s), a) for s, a in zip(strides, n.args, strict=False)))
        form = dict(self.graph.form(index))
        of_difference = form.pop(self.graph.delta, 0)
        of_key = form.pop(self.graph.k, 0) - of_difference
        form[self.graph.q] = form.get(self.graph.q, 0) + of_difference
        if of_key == 1 and all(atom is None or atom.level in (HEAD, QUERY) for atom in form):
            row = self.graph.linear(
                *((c, self.graph.const(1, "i") if atom is None else atom) for atom, c in form.items())
            )
            values = np.asarray(self.graph.values(row))
            level = "query" if row.level == QUERY else "head"
            leaf = self._leaf(
                ("row", row.number), level, "i", values.reshape((1, 1, 1)) if not values.ndim else values
            )
            return self._add("rows", (self._add("leaf", (), leaf),), number)
        return self._add("gather", (self.write(index),), number)


@lru_cache(256)
def _program(nodes: tuple[Any, ...], leaves: tuple[Any, ...], score: int | None, mask: int | None) -> Any:
    return _core.formula_program(list(nodes), list(leaves), score, mask)


def formula_of(graph: Graph, score: Node | None, mask: Node | None, names: tuple[str, str]) -> Any:
    """Give the core's formula of a score and a mask, either of which may be missing; `names` are for errors."""
    writer = _Writer(graph)
    numbers = []
    for root, writer.formula in zip((score, mask), names, strict=True):
        numbers.append(None if root is None else writer.write(root))
    program = _program(tuple(writer.nodes), tuple(writer.leaves), *numbers)
    if mask is None:
        return _core.formula(program, writer.arrays)
    kinds = Blocks(graph, (BLOCK, BLOCK)).kinds(mask)
    # A pair whose index may lie outside is looked at, whatever the range of the elements says.
    sure = not any(n.op == "index" and n.level == PAIR for n in needed(mask))
    return _core.formula(program, writer.arrays, kinds != EMPTY, (kinds == FULL) & sure)
