"""Attention by its formula: score_mod and mask_mod, traced.

`values` stand for the formula's arguments while it is called once, `capture` finds the arrays that it reads, `graph`
holds what it computes and the values of what does not depend on the pair of query and key, `evaluation` gives the rest
for all pairs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import _core
from .._errors import shown
from .evaluation import at_pairs, evaluate
from .graph import PAIR, Graph, Node
from .native import split
from .trace import failure, trace
from .values import is_array

__all__ = ["TracedFormula", "captured_tensors", "dense", "is_array", "traced_formula"]


class TracedFormula:
    """The formulas of one call; each is traced once for a shape and positions."""

    def __init__(
        self, operation: str, score_mod: Any, mask_mod: Any, score_name: str, mask_name: str
    ) -> None:
        self.score_mod, self.mask_mod = score_mod, mask_mod
        self._operation, self._names = operation, {True: score_name, False: mask_name}
        self._traces: dict[Any, tuple[Graph, Node]] = {}
        for function, name in ((score_mod, score_name), (mask_mod, mask_name)):
            if function is not None and not callable(function):
                raise TypeError(f"{operation}: {name} must be a function; got {shown(function)}")

    def mask(self, shape: tuple[int, int, int, int], offsets: Any) -> Any:
        """Give window (left, right), lengths (B,) or None, and which other pairs mask_mod excludes.

        Those are None or boolean with four axes that broadcast to `shape`, True where a pair is allowed.
        """

        def parts(graph: Graph, node: Node) -> Any:
            window, lengths, rest = split(graph, node)
            if rest is None:
                return window, lengths, None
            return window, lengths, evaluate(graph, rest) if rest.level == PAIR else at_pairs(graph, rest)

        return (
            (((-1, -1), None, None))
            if self.mask_mod is None
            else self._computed(False, shape, offsets, parts)
        )

    def score(self, scores: Any, allowed: Any, shape: tuple[int, int, int, int], offsets: Any) -> Any:
        """Give the scores that score_mod makes of Tensor (B, H, Lq, Lk) `scores`, where they are allowed."""

        def changed(graph: Graph, node: Node) -> Any:
            y = evaluate(graph, node, scores, allowed)
            return (
                y
                if isinstance(y, _core.Tensor) and y.shape == scores.shape
                else _core.tensor(np.zeros(shape, str(scores.dtype))) + y
            )

        return self._computed(True, shape, offsets, changed)

    def _computed(self, scores: bool, shape: Any, offsets: Any, compute: Callable[[Graph, Node], Any]) -> Any:
        function = self.score_mod if scores else self.mask_mod
        key = scores, tuple(shape), None if offsets is None else offsets.tobytes()
        try:
            if key not in self._traces:
                graph = Graph(shape, offsets)
                self._traces[key] = graph, trace(graph, function, scores)
            return compute(*self._traces[key])
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
