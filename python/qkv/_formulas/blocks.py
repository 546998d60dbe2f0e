"""The kinds of a mask's blocks, exact where looking at the pairs of doubtful blocks is cheap."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .evaluation import at_pairs, check_integers, evaluate
from .graph import Graph
from .intervals import MIXED, Blocks
from .nodes import PAIR
from .trace import failure, trace, traced_graph

_PAIRS = 2**24  # of mixed blocks that are looked at, one by one


def block_kinds(
    operation: str,
    mask_mod: Callable[..., Any],
    shape: Sequence[int],
    size: tuple[int, int],
    dtype: str | None = None,
) -> Any:
    """Return EMPTY, MIXED or FULL for the blocks of pairs (B, H, Lq, Lk), uint8 (B or 1, H or 1, rows, columns).

    Kinds are found by intervals; blocks that are mixed by these are looked at if they are few, and may else be of
    another kind. `dtype`: as for :func:`qkv._formulas.dense`.
    """
    try:
        graph, node = traced_graph(mask_mod, False, shape, dtype)
        check_integers(graph, node)
        kinds = Blocks(graph, size).kinds(node)
        if node.level == PAIR and np.count_nonzero(kinds == MIXED) * size[0] * size[1] <= _PAIRS:
            return _looked_at(mask_mod, kinds, shape, size, graph.dtype)
        return kinds
    except Exception as error:
        raise failure(operation, "mask_mod", mask_mod, error) from error


def _looked_at(
    mask_mod: Callable[..., Any], kinds: Any, shape: Sequence[int], size: tuple[int, int], dtype: str
) -> Any:
    kinds = kinds.copy()
    _, _, Lq, Lk = shape
    for i, j in np.argwhere((kinds == MIXED).any((0, 1))):
        rows, columns = (min(n, end - at * n) for n, end, at in zip(size, (Lq, Lk), (i, j), strict=True))
        # The block's keys have positions of their own: the mask is traced with them moved to 0.
        graph = Graph((*shape[:2], rows, columns), np.full(shape[0], i * size[0]), j * size[1], dtype)
        node = trace(graph, mask_mod, False)
        allowed = np.asarray(evaluate(graph, node) if node.level == PAIR else at_pairs(graph, node))
        exact = allowed.any((2, 3)).astype(np.uint8) + allowed.all((2, 3))
        kinds[..., i, j] = np.where(kinds[..., i, j] == MIXED, exact, kinds[..., i, j])
    return kinds
