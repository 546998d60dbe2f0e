"""The value of a formula for all pairs at once, (B, H, Lq, Lk): what kernels compute tile by tile."""

from __future__ import annotations

from typing import Any

import numpy as np

from .errors import FormulaError
from .graph import HEAD, INT32, KEY, PAIR, QUERY, Graph, Node, compute


def at_pairs(graph: Graph, n: Node) -> Any:
    """Give the values of a node below PAIR with four axes, which broadcast to (B, H, Lq, Lk)."""
    values = graph.values(n)
    if n.op == "const" or values.ndim == 0:
        return values
    if n.level in (HEAD, QUERY):
        return values[..., None]
    if n.level == KEY:
        return values[:, :, None]
    return values[..., distances(graph)]


def distances(graph: Graph) -> Any:
    """Give the place of each pair's difference along a diagonal, (Lq, Lk)."""
    _, _, Lq, Lk = graph.shape
    return np.arange(Lq)[:, None] - np.arange(Lk) + Lk - 1


def evaluate(graph: Graph, root: Node, score: Any = None, allowed: Any = None) -> Any:
    """Give the values of a node at all pairs, of floats in the dtype of the Tensor `score`; `allowed`: which count.

    An index out of range is an error where the pair counts.
    """
    check_integers(graph, root)
    dtype = None if score is None else str(score.dtype)
    memo: dict[int, Any] = {graph.score.number: score}
    for n in needed(root):
        if n.number in memo:
            continue
        if n.level != PAIR:
            x = at_pairs(graph, n)
            if n.kind == "f" and dtype is not None and n.op != "const":
                x = x.astype(dtype)
        else:
            args = [memo[a.number] for a in n.args]
            if n.op == "index":
                _check(n, args[0], allowed)
                args[0] = np.clip(args[0], -n.attr, n.attr - 1)
            x = compute(graph, n, args, dtype or "float64")
            if n.op == "gather" and n.kind == "f" and dtype is not None:
                x = x.astype(dtype)
        memo[n.number] = x
    return memo[root.number]


def needed(root: Node) -> list[Node]:
    """Give the nodes that a pair's value reads: those of pairs, and below them the first that are none."""
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
        found = graph.range(n)
        if found is not None and not (INT32[0] <= found[0] and found[1] <= INT32[1]):
            worst = found[0] if -found[0] > found[1] else found[1]
            raise FormulaError(
                ValueError,
                f"must compute integers of 32 bits where they depend on query and key; got {worst}",
                n.line,
            )


def _is_read_at_pairs(n: Node, root: Node) -> bool:
    """Whether an integer meets integers of pairs, which have 32 bits; as a float it may be larger."""
    return any(n in reader.args and reader.kind != "f" for reader in needed(root) if reader.level == PAIR)


def _check(n: Node, x: Any, allowed: Any) -> None:
    outside = (x < -n.attr) | (x >= n.attr)
    if allowed is not None:
        outside = outside & np.asarray(allowed)
    if outside.any():
        worst = int(np.broadcast_to(x, outside.shape)[outside][0])
        raise FormulaError(
            IndexError, f"must index a captured array from {-n.attr} to {n.attr - 1}; got {worst}", n.line
        )
