"""The operations of formulas: what each gives, how NumPy and Tensors compute it, and how others spell it.

Values are of three kinds: "b" booleans, "i" integers, "f" floats. Names are NumPy's.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .. import _core

FLOATING = frozenset(["divide", "exp", "exp2", "log", "tanh", "sigmoid", "sqrt", "sin", "cos", "floor"])
COMPARISONS = frozenset(["less", "less_equal", "equal", "not_equal"])
LOGICAL = frozenset(["bitwise_and", "bitwise_or", "bitwise_xor", "invert"])
INTEGER = frozenset(["left_shift", "right_shift"])
SWAPPED = {"greater": "less", "greater_equal": "less_equal"}


_NAMES = """
add subtract multiply divide floor_divide remainder power negative absolute minimum maximum where exp exp2 log tanh sqrt
sin cos floor less less_equal equal not_equal bitwise_and bitwise_or bitwise_xor invert left_shift right_shift
"""
NUMPY: dict[str, Callable[..., Any]] = {name: getattr(np, name) for name in _NAMES.split()}
NUMPY["sigmoid"] = lambda x: 1 / (1 + np.exp(-x))


# The operations on floats that Tensors record.
_CORE = "floor minimum maximum where exp exp2 log tanh sigmoid sqrt sin cos"
ON_TENSORS: dict[str, Callable[..., Any]] = {name: getattr(_core, name) for name in _CORE.split()} | {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "divide": operator.truediv,
    "power": operator.pow,
    "negative": operator.neg,
    "absolute": _core.abs,
    "floor_divide": operator.floordiv,
    "remainder": operator.mod,
}

# The names of operations, and others by NumPy, PyTorch and Python.
_OTHERS = """
absolute: abs fabs | negative: neg | subtract: sub | multiply: mul | divide: div true_divide truediv
floor_divide: floordiv | remainder: mod | power: pow | less: lt | less_equal: le | greater: gt | greater_equal: ge
equal: eq | not_equal: ne | left_shift: lshift bitwise_left_shift | right_shift: rshift bitwise_right_shift
bitwise_and: and | bitwise_or: or | bitwise_xor: xor | invert: bitwise_not bitwise_invert | clip: clamp
logical_and: | logical_or: | logical_xor: | logical_not: | relu: | square: | rsub:
"""
SPELLINGS: dict[str, str] = {name: name for name in NUMPY}
# Functions of this package that are operations, by identity, and their names. Other modules add theirs.
OWN: dict[int, tuple[Any, str]] = {}


def add_own(functions: Mapping[str, Any]) -> None:
    """Note which of the functions are operations."""
    OWN.update({id(functions[name]): (functions[name], name) for name in SPELLINGS if name in functions})


for _entry in re.split(r" \| |\n", _OTHERS.strip()):
    _op, _, _words = _entry.partition(":")
    SPELLINGS |= dict.fromkeys((_op, *_words.split()), _op)
add_own(vars(_core))
