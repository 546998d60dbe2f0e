"""Formulas written once: as nodes for the kernels, and as Tensor operations on all pairs."""

from __future__ import annotations

from typing import Any

import numpy as np

import qkv
from qkv import _core

BLOCK = 128


class Nodes:
    """Builds the graph that `_core.formula_program` takes; a value is the number of a node."""

    def __init__(self) -> None:
        self.nodes: list[tuple[Any, ...]] = []
        self.leaves: list[tuple[str, str]] = []
        self.arrays: list[Any] = []

    def _node(self, name: str, args: tuple[int, ...], attribute: Any = None, *where: str) -> int:
        self.nodes.append((name, args, attribute, *where))
        return len(self.nodes) - 1

    def _array(self, level: str, array: Any) -> int:
        kind = {"f": "float", "i": "integer", "b": "boolean"}[
            (array.numpy() if isinstance(array, qkv.Tensor) else np.asarray(array)).dtype.kind
        ]
        self.leaves.append((level, kind))
        self.arrays.append(array)
        return len(self.arrays) - 1

    @property
    def score(self) -> int:
        return self._node("score", ())

    def constant(self, x: float | bool) -> int:
        return self._node("constant", (), x)

    def leaf(self, level: str, array: Any) -> int:
        return self._node("leaf", (), self._array(level, array))

    def gather(self, table: Any, index: int, level: str = "table") -> int:
        return self._node("gather", (index,), self._array(level, table))

    def rows(self, table: Any, row: int) -> int:
        return self._node("rows", (row,), self._array("table", table))

    def index(self, x: int, size: int, where: str = "") -> int:
        return self._node("index", (x,), size, where)

    def __getattr__(self, name: str) -> Any:
        return lambda *args: self._node(name.rstrip("_"), args)

    def formula(self, score: int | None, mask: int | None, blocks: tuple[Any, Any] = (None, None)) -> Any:
        program = _core.formula_program(self.nodes, self.leaves, score, mask)
        return _core.formula(program, self.arrays, *blocks)


class AllPairs:
    """The same operations on arrays (B, H, Lq, Lk) or ones that broadcast to them."""

    def __init__(self, score: Any, queries: int, keys: int) -> None:
        self.score = score
        self.difference = np.arange(queries)[:, None] - np.arange(keys) + keys - 1
        self.keys = np.arange(keys)

    def constant(self, x: float | bool) -> Any:
        return x

    def leaf(self, level: str, array: Any) -> Any:
        x = array if isinstance(array, qkv.Tensor) else np.asarray(array)
        if level == "diagonal":
            return x[:, :, self.difference]
        return x[..., None] if level == "query" else x[:, :, None]

    def gather(self, table: Any, index: Any, level: str = "table") -> Any:
        if level == "head_table":
            batches, heads = table.shape[:2]
            each = int(np.prod(table.shape[2:]))
            index = index + each * np.arange(batches * heads).reshape(batches, heads, 1, 1)
        return table.reshape(-1)[index]

    def rows(self, table: Any, row: Any) -> Any:
        return table.reshape(-1)[row + self.keys]

    def index(self, x: Any, size: int, where: str = "") -> Any:
        return np.clip(np.where(x < 0, x + size, x), 0, size - 1)

    def where(self, condition: Any, a: Any, b: Any) -> Any:
        return (
            qkv.where(condition, a, b)
            if any(isinstance(x, qkv.Tensor) for x in (a, b))
            else np.where(condition, a, b)
        )

    def sigmoid(self, x: Any) -> Any:
        return qkv.sigmoid(x)

    def erf(self, x: Any) -> Any:
        return qkv.erf(x)

    def floor(self, x: Any) -> Any:
        return x // 1.0

    def float(self, x: Any) -> Any:
        return np.asarray(x).astype(np.float64)

    def integer(self, x: Any) -> Any:
        return np.asarray(x).astype(np.int64)

    def and_(self, a: Any, b: Any) -> Any:
        return a & b

    def or_(self, a: Any, b: Any) -> Any:
        return a | b

    def xor_(self, a: Any, b: Any) -> Any:
        return a ^ b

    def not_(self, a: Any) -> Any:
        return ~a

    def __getattr__(self, name: str) -> Any:
        return lambda *args: getattr(np, name)(*args)


def blocks_of(mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return which blocks of a mask (B or 1, H or 1, Lq, Lk) hold some allowed pair, and only allowed ones."""
    *outer, queries, keys = mask.shape
    down, right = -queries % BLOCK, -keys % BLOCK
    pad = [(0, 0)] * len(outer) + [(0, down), (0, right)]
    split = (*outer, (queries + down) // BLOCK, BLOCK, (keys + right) // BLOCK, BLOCK)
    some = np.pad(mask, pad).reshape(split).any((3, 5))
    every = np.pad(mask, pad, constant_values=True).reshape(split).all((3, 5))
    return some, every
