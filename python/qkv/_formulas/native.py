"""What of a mask is a window of positions or lengths of keys, which kernels know without a look at pairs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from .canonical import applied
from .graph import Graph
from .nodes import DIAGONAL, KEY, Node


class Mask(NamedTuple):
    """A mask in parts that must all allow a pair."""

    window: tuple[int, int]  # (left, right); -1 is unlimited
    lengths: Any  # int64 (B,) or None
    rest: Node | None


def split(graph: Graph, mask: Node) -> Mask:
    """Return a mask as window, lengths and what is left, in every spelling: by the values of its parts."""
    left, right, lengths, rest = -1, -1, None, None
    for part in _parts(mask):
        if part.op == "const" and part.attr:
            continue
        window = _window(graph, part) if part.level == DIAGONAL else None
        found = _lengths(graph, part) if part.level == KEY else None
        if window is not None:
            left, right = (_smaller(a, b) for a, b in zip((left, right), window, strict=True))
        elif found is not None:
            lengths = found if lengths is None else np.minimum(lengths, found)
        else:
            rest = part if rest is None else applied(graph, "bitwise_and", [rest, part])
    return Mask((left, right), lengths, rest)


def _parts(n: Node) -> Iterator[Node]:
    if n.op == "bitwise_and":
        for part in n.args:
            yield from _parts(part)
    else:
        yield n


def _smaller(a: int, b: int) -> int:
    return max(a, b) if -1 in (a, b) else min(a, b)


def _window(graph: Graph, n: Node) -> tuple[int, int] | None:
    """Return (left, right) if exactly the differences from -right to left are allowed."""
    distance = graph.values(graph.delta)  # (B or 1, 1, Lq + Lk - 1)
    allowed = np.asarray(graph.values(n))
    if allowed.shape[1] != 1 or not allowed.any():
        return None
    allowed, distance = np.broadcast_arrays(allowed, distance)
    inside = distance[allowed]
    low, high = int(inside.min()), int(inside.max())
    if not np.array_equal(allowed, (distance >= low) & (distance <= high)):
        return None
    sides = []
    for far, most in ((high, int(distance.max())), (-low, -int(distance.min()))):
        if far < 0 and far != most:
            return None  # a window holds its own position
        sides.append(-1 if far == most else far)
    return sides[0], sides[1]


def _lengths(graph: Graph, n: Node) -> Any:
    """Return (B,) if each batch entry allows its first keys alone."""
    allowed = np.asarray(graph.values(n))
    if allowed.shape[1] != 1:
        return None
    count = allowed.sum(-1)
    if not np.array_equal(allowed, np.arange(allowed.shape[-1]) < count[..., None]):
        return None
    return np.broadcast_to(count[:, 0], graph.shape[:1]).astype(np.int64)
