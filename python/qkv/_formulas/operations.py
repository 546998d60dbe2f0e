"""The operations of formulas: rows of the table of operations that pairs know, and a few that are none.

Values are of three kinds: "b" booleans, "i" integers, "f" floats. Names are NumPy's.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .. import _core
from .. import _operations as table
from .composed import COMPOSED

ROWS = {row.numpy or row.name: row for row in table.OPERATIONS.values() if row.traced}


def _of(*dtypes: str) -> set[str]:
    return {op for op, row in ROWS.items() if row.dtype in dtypes}


FLOATING = _of(table.FLOATS, table.QUOTIENT) | {"floor"}
COMPARISONS = _of(table.TRUTH)
LOGICAL = _of(table.BITS) | {"invert"}
SWAPPED = {"greater": "less", "greater_equal": "less_equal"}

# Names without a row, with their other names by NumPy, PyTorch and Python.
_OTHERS = {
    "invert": "bitwise_not bitwise_invert",
    "left_shift": "lshift bitwise_left_shift",
    "right_shift": "rshift bitwise_right_shift",
    "absolute": "fabs",
    "clip": "clamp",
    **dict.fromkeys(["logical_and", "logical_or", "logical_xor", "logical_not", "square", "rsub"], ""),
}
INTEGER = {"left_shift", "right_shift"}
SPELLINGS: dict[str, str] = {op: op for op in [*ROWS, *_OTHERS]}
for _op, _row in ROWS.items():
    SPELLINGS |= dict.fromkeys([_row.name, *_row.torch.split(), *_row.operator.split()], _op)
for _op, _words in _OTHERS.items():
    SPELLINGS |= dict.fromkeys(_words.split(), _op)

NUMPY: dict[str, Callable[..., Any]] = {op: getattr(np, op) for op in SPELLINGS.values() if hasattr(np, op)}
NUMPY["sigmoid"] = lambda x: 1 / (1 + np.exp(-x))
NUMPY["erf"] = lambda x: _core.erf(np.asarray(x))
# The operations on floats that Tensors record.
ON_TENSORS: dict[str, Callable[..., Any]] = {
    op: getattr(operator, f"__{row.operator}__") if row.operator else row.compute for op, row in ROWS.items()
}
KNOWN = SPELLINGS.keys() | COMPOSED.keys()
# Functions of this package that are operations, by identity, and their names. Other modules add theirs.
OWN: dict[int, tuple[Any, str]] = {}


def add_own(functions: Mapping[str, Any]) -> None:
    """Note which of the functions are operations."""
    OWN.update({id(functions[name]): (functions[name], name) for name in KNOWN & functions.keys()})


add_own(vars(_core))
