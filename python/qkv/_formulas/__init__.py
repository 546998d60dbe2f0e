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
from .._errors import shown
from .errors import name_of
from .evaluation import at_pairs, check_integers, evaluate
from .graph import PAIR, Graph, Node
from .native import split
from .program import Written
from .trace import failure, trace
from .values import array_of, is_array

__all__ = ["TracedFormula", "array_of", "captured_tensors", "dense", "fixed", "is_array", "traced_formula"]


def fixed(**arrays: tuple[int, Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Mark a score_mod that always reads the same arrays: it is traced once, not at each call.

    Each array comes with its axis of heads, of which there must be as many as in the call.
    """

    def marked(function: Callable[..., Any]) -> Callable[..., Any]:
        function.traces, function.arrays = [], arrays  # type: ignore[attr-defined]
        return function

    return marked


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

    def bind(self, shape: tuple[int, int, int, int], offsets: Any) -> Any:
        """Give window (left, right), lengths (B,) or None, and the core's formula of the rest, or None."""
        key = tuple(shape), None if offsets is None else offsets.tobytes()
        if key not in self._bound:
            self._check_heads(shape[1])
            traces = getattr(self.score_mod, "traces", None) if self.mask_mod is None else None
            bound = (
                self._traced_now(shape, offsets) if traces is None else self._fixed(traces, shape, offsets)
            )
            self._bound[key] = bound
        return self._bound[key]

    def _check_heads(self, heads: int) -> None:
        for name, (axis, array) in getattr(self.score_mod, "arrays", {}).items():
            if array.shape[axis] != heads:
                raise ValueError(
                    f"{self._operation}: {self._name(True)} must have {name} of H = {heads} heads as the call has; "
                    f"got {name} {tuple(array.shape)}"
                )

    def _traced_now(self, shape: tuple[int, int, int, int], offsets: Any) -> Any:
        graph = Graph(shape, offsets)
        mask, score = self._traced(graph, self.mask_mod, False), self._traced(graph, self.score_mod, True)
        window, lengths, rest = ((-1, -1), None, None) if mask is None else split(graph, mask)
        changed = None if score is graph.score else score
        if rest is None and changed is None:
            return window, lengths, None
        names = self._name(True), self._name(False)
        return window, lengths, Written(graph, changed, rest, names).formula(graph)

    def _fixed(self, traces: list[Written], shape: tuple[int, int, int, int], offsets: Any) -> Any:
        """Bind a fixed formula, which is traced only where no trace of it serves this shape."""
        graph = traces[-1].graph.at(shape, offsets) if traces else None
        if graph is not None:
            written = traces[-1]
            for root in written.roots:
                check_integers(graph, root)
        else:
            first = Graph(shape, offsets)
            written = Written(first, self._traced(first, self.score_mod, True), None, (self._name(True), ""))
            traces[:] = [written]
            graph = first.at(shape, offsets) or first  # what it computes is kept no longer than the call
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


def dense(operation: str, argument: str, function: Callable[..., Any], shape: Any, scores: bool) -> Any:
    """Give a mask's conditions of all pairs, or what a score_mod makes of scores of 0; they broadcast to `shape`."""
    try:
        graph = Graph(shape)
        node = trace(graph, function, scores)
        if node.level != PAIR:
            return np.asarray(at_pairs(graph, node))
        return np.asarray(
            evaluate(graph, node, _core.tensor(np.zeros(shape, np.float32)) if scores else None)
        )
    except Exception as error:
        raise failure(operation, argument, function, error) from error


def captured_tensors(operation: str, argument: str, function: Any, shape: Any, scores: bool) -> list[Any]:
    """Give the Tensors that take a gradient among the arrays that a formula reads."""
    if not callable(function):
        raise TypeError(f"{operation}: {argument} must be a function; got {shown(function)}")
    try:
        graph = Graph(shape)
        trace(graph, function, scores)
    except Exception as error:
        raise failure(operation, argument, function, error) from error
    return [x for x in graph.tables if isinstance(x, _core.Tensor)]
