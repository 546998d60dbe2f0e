"""Traces score_mod and mask_mod: a call of each with what stands for its indices gives a graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .canonical import to_float
from .capture import Capture
from .errors import FormulaError, defined_at, name_of, raised_at
from .graph import Graph
from .nodes import Node
from .values import Symbol, Traced, lift

_KINDS = (TypeError, IndexError, ValueError)
ARGUMENTS = {True: "(score, b, h, q_idx, kv_idx)", False: "(b, h, q_idx, kv_idx)"}


def failure(operation: str, argument: str, function: Any, error: Exception) -> Exception:
    """Return the error of a call whose formula raised, with the formula's name and line."""
    if isinstance(error, FormulaError):
        kind, text, line = error.kind, error.text, error.line or defined_at(function)
    else:
        kind = next((kind for kind in _KINDS if isinstance(error, kind)), ValueError)
        words = " ".join(str(error).split())
        text, line = (
            f"must not raise; got {type(error).__name__}: {words}",
            raised_at(error.__traceback__, function),
        )
    return kind(f"{operation}: {argument} {text} (in {name_of(function)}, {line})")


def traced_graph(
    function: Callable[..., Any], scores: bool, shape: Sequence[int], dtype: str | None
) -> tuple[Graph, Node]:
    """Return a formula's graph and node for pairs of a dtype, or of the widest of the arrays that it reads."""
    graph = Graph(shape, dtype=dtype or "float32")
    node = trace(graph, function, scores)
    if dtype is None and any(str(x.dtype) == "float64" for x in graph.tables):
        return traced_graph(function, scores, shape, "float64")
    return graph, node


def trace(graph: Graph, function: Callable[..., Any], scores: bool) -> Node:
    """Return the node of a score_mod's (`scores`) or mask_mod's result."""
    indices = [Traced(graph, n) for n in (graph.b, graph.h, graph.q, graph.k)]
    arguments = [Traced(graph, graph.score), *indices] if scores else indices
    made = Capture(graph)(function)
    try:
        result = made(*arguments)
    except TypeError as error:
        if not _innermost_is_ours(error):
            raise
        takes = f"must take {len(arguments)} arguments {ARGUMENTS[scores]}"
        raise _of_the_whole(f"{takes}; got a function that does not: {error}") from None
    if not isinstance(result, (Symbol, bool, int, float)) and not hasattr(result, "dtype"):
        kind = "score" if scores else "condition"
        raise _of_the_whole(f"must return a {kind}; got {type(result).__name__}")
    node = lift(graph, result)
    if scores and node.kind == "b":
        raise _of_the_whole("must return a score; got a condition, which is a mask_mod's")
    if not scores and node.kind != "b":
        raise _of_the_whole("must return a condition; got a number, compare it")
    return to_float(graph, node) if scores else node


def _of_the_whole(text: str) -> FormulaError:
    """Return the error of a formula as a whole: :func:`failure` says where it is defined."""
    return FormulaError(TypeError, text, "")


def _innermost_is_ours(error: Exception) -> bool:
    """Whether the call itself failed: nothing of the function has run."""
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    return frame is not None and frame.tb_frame.f_code.co_filename in (__file__,)
