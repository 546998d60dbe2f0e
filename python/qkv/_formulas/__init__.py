"""Attention by its formula: score_mod and mask_mod, traced.

`values` stand for the formula's arguments while it is called once, `capture` finds the arrays that it reads, `graph`
holds what it computes and the values of what does not depend on the pair of query and key, `native` finds what kernels
know by rules, `program` hands the rest to the core, `evaluation` gives it for all pairs, to be looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import _core
from .._words.errors import shown
from .errors import name_of
from .evaluation import at_pairs, check_integers, evaluate
from .graph import Graph
from .native import split
from .nodes import PAIR, Node
from .program import Written
from .ready import Formula, fixed, of_part
from .trace import failure, trace, traced_graph
from .values import array_of, is_array

__all__ = [
    "Formula",
    "TracedFormula",
    "array_of",
    "captured_tensors",
    "dense",
    "fixed",
    "is_array",
    "of_part",
    "traced_formula",
]


class TracedFormula:
    """The formulas of one call; they are traced once for a shape and positions."""

    def __init__(
        self, operation: str, score_mod: Any, mask_mod: Any, score_name: str, mask_name: str
    ) -> None:
        self.score_mod, self.mask_mod = score_mod, mask_mod
        self._operation, self._names = operation, {True: score_name, False: mask_name}
        self._bound: dict[Any, Any] = {}
        for function, name in ((score_mod, score_name), (mask_mod, mask_name)):
            if function is not None and not callable(function):
                raise TypeError(f"{operation}: {name} must be a function; got {shown(function)}")

    def bind(self, shape: tuple[int, int, int, int], offsets: Any, dtype: str) -> Any:
        """Return window (left, right), lengths (B,) or None, and the core's formula of the rest, or None."""
        key = tuple(shape), None if offsets is None else offsets.tobytes(), dtype
        if key not in self._bound:
            fixed = isinstance(self.score_mod, Formula) and self.score_mod.arrays is not None
            if fixed and (wrong := self.score_mod.misfit(shape)):
                raise ValueError(f"{self._operation}: {self._name(True)} {wrong}")
            bind = self._fixed if fixed and self.mask_mod is None else self._traced_now
            self._bound[key] = bind(shape, offsets, dtype)
        return self._bound[key]

    def _traced_now(self, shape: tuple[int, int, int, int], offsets: Any, dtype: str) -> Any:
        graph = Graph(shape, offsets, dtype=dtype)
        mask, score = self._traced(graph, self.mask_mod, False), self._traced(graph, self.score_mod, True)
        window, lengths, rest = ((-1, -1), None, None) if mask is None else split(graph, mask)
        changed = None if score is graph.score else score
        if rest is None and changed is None:
            return window, lengths, None
        names = self._name(True), self._name(False)
        return window, lengths, Written(graph, changed, rest, names).formula(graph)

    def _fixed(self, shape: tuple[int, int, int, int], offsets: Any, dtype: str) -> Any:
        """Bind a fixed formula, which is traced only where no trace of it serves this shape."""
        written = self.score_mod.written
        graph = None if written is None else written.graph.at(shape, offsets, dtype)
        if graph is not None:
            for root in written.roots:
                check_integers(graph, root)
        else:
            first = Graph(shape, offsets, dtype=dtype)
            written = Written(first, self._traced(first, self.score_mod, True), None, (self._name(True), ""))
            if 0 not in shape:  # nothing is known of the indices of no pairs
                self.score_mod.written = written
            # What it computes is kept no longer than the call.
            graph = first.at(shape, offsets, dtype) or first
        return (-1, -1), None, written.formula(graph)

    def _name(self, scores: bool) -> str:
        return f"{self._names[scores]} {name_of(self.score_mod if scores else self.mask_mod)}"

    def _traced(self, graph: Graph, function: Any, scores: bool) -> Node | None:
        if function is None:
            return None
        try:
            node = trace(graph, function, scores)
            check_integers(graph, node)
            return node
        except Exception as error:
            raise failure(self._operation, self._names[scores], function, error) from error


traced_formula = TracedFormula


def dense(
    operation: str,
    argument: str,
    function: Callable[..., Any],
    shape: Any,
    scores: bool,
    dtype: str | None = None,
) -> Any:
    """Return a mask's conditions of all pairs, or what a score_mod makes of scores of 0; they broadcast to `shape`.

    Floats of pairs have the dtype; without one, the widest of the arrays that the formula reads, at least float32.
    """
    try:
        graph, node = traced_graph(function, scores, shape, dtype)
        if node.level != PAIR:
            return np.asarray(at_pairs(graph, node))
        return np.asarray(
            evaluate(graph, node, _core.tensor(np.zeros(shape, graph.dtype)) if scores else None)
        )
    except Exception as error:
        raise failure(operation, argument, function, error) from error


def captured_tensors(operation: str, argument: str, function: Any, shape: Any, scores: bool) -> list[Any]:
    """Return the Tensors that take a gradient among the arrays that a formula of a call with these sizes reads."""
    if not callable(function):
        raise TypeError(f"{operation}: {argument} must be a function; got {shown(function)}")
    if isinstance(function, Formula) and (wrong := function.misfit(shape)):
        raise ValueError(f"{operation}: {argument} {name_of(function)} {wrong}")
    try:
        graph = Graph(shape)
        trace(graph, function, scores)
    except Exception as error:
        raise failure(operation, argument, function, error) from error
    return [x for x in graph.tables if isinstance(x, _core.Tensor)]
