"""The value of a formula for all pairs at once, (B, H, Lq, Lk): what kernels compute tile by tile."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .errors import FormulaError
from .graph import Graph, compute
from .nodes import HEAD, KEY, PAIR, QUERY, Node
from .ranges import INT32


def at_pairs(graph: Graph, n: Node) -> Any:
    """Return the values of a node below PAIR with four axes, which broadcast to (B, H, Lq, Lk)."""
    values = graph.values(n)
    if n.op == "const" or values.ndim == 0:
        return values
    if n.level in (HEAD, QUERY):
        return values[..., None]
    if n.level == KEY:
        return values[:, :, None]
    return values[..., distances(graph)]


def distances(graph: Graph) -> Any:
    """Return the place of each pair's difference along a diagonal, (Lq, Lk)."""
    _, _, Lq, Lk = graph.shape
    return np.arange(Lq)[:, None] - np.arange(Lk) + Lk - 1


def evaluate(graph: Graph, root: Node, score: Any = None) -> Any:
    """Return the values of a node at all pairs, for scores of the graph's dtype; an index out of range is an error."""
    check_integers(graph, root)
    memo: dict[int, Any] = {graph.score.number: score}
    with np.errstate(all="ignore"):
        for n in needed(root):
            if n.number not in memo:
                memo[n.number] = _computed(graph, n, memo)
    return memo[root.number]


def _computed(graph: Graph, n: Node, memo: dict[int, Any]) -> Any:
    if n.level != PAIR:
        x = at_pairs(graph, n)
        return x.astype(graph.dtype) if n.kind == "f" and n.op != "const" else x
    args = [memo[a.number] for a in n.args]
    if n.op == "index":
        _check(n, args[0])
        args[0] = np.clip(args[0], -n.attr, n.attr - 1)
    return compute(graph, n, args, graph.dtype)


def needed(root: Node) -> list[Node]:
    """Return the nodes that a pair's value reads: those of pairs, and below them the first that are none."""
    found: dict[int, Node] = {}
    stack = [root]
    while stack:
        n = stack.pop()
        if n.number not in found:
            found[n.number] = n
            stack.extend(n.args if n.level == PAIR else ())
    return [found[number] for number in sorted(found)]


def check_integers(graph: Graph, root: Node) -> None:
    """Refuse integers at pairs that 32 bits may not hold."""
    for n in needed(root):
        if n.kind != "i" or n.op in ("gather", "index"):
            continue
        if n.level != PAIR and not _is_read_at_pairs(n, root):
            continue
        of_float = n.op == "integer" and n.level == PAIR and n.args[0].kind == "f"
        found = _whole(graph, n.args[0]) if of_float else graph.range(n)
        if found is not None and not (INT32[0] <= found[0] and found[1] <= INT32[1]):
            worst = found[0] if -found[0] > found[1] else found[1]
            raise FormulaError(
                ValueError,
                f"must compute integers of 32 bits where they depend on query and key; got {worst}",
                n.line,
            )


def _whole(graph: Graph, n: Node) -> tuple[int, int] | None:
    """Return the range of floats without their places after the point, of those ends that are finite."""
    found = graph.bounds(n)
    return None if found is None else tuple(int(x) if math.isfinite(x) else 0 for x in found)  # type: ignore[return-value]


def _is_read_at_pairs(n: Node, root: Node) -> bool:
    """Whether an integer meets integers of pairs, which have 32 bits; as a float it may be larger."""
    return any(n in reader.args and reader.kind != "f" for reader in needed(root) if reader.level == PAIR)


def _check(n: Node, x: Any) -> None:
    outside = np.asarray((x < -n.attr) | (x >= n.attr))
    if outside.any():
        worst = int(np.asarray(x)[outside][0])
        raise FormulaError(
            IndexError, f"must index a captured array from {-n.attr} to {n.attr - 1}; got {worst}", n.line
        )
