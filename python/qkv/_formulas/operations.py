"""The operations of formulas: what each gives, how NumPy and Tensors compute it, and how others spell it.

Values are of three kinds: "b" booleans, "i" integers, "f" floats. Names are NumPy's.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

FLOATING = frozenset(["divide", "exp", "exp2", "log", "tanh", "sigmoid", "sqrt", "sin", "cos", "floor"])
COMPARISONS = frozenset(["less", "less_equal", "equal", "not_equal"])
LOGICAL = frozenset(["bitwise_and", "bitwise_or", "bitwise_xor", "invert"])
INTEGER = frozenset(["left_shift", "right_shift"])
SWAPPED = {"greater": "less", "greater_equal": "less_equal"}


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


NUMPY: dict[str, Callable[..., Any]] = {
    name: getattr(np, name)
    for name in [
        "add",
        "subtract",
        "multiply",
        "divide",
        "floor_divide",
        "remainder",
        "power",
        "negative",
        "absolute",
        "minimum",
        "maximum",
        "where",
        "exp",
        "exp2",
        "log",
        "tanh",
        "sqrt",
        "sin",
        "cos",
        "floor",
        "less",
        "less_equal",
        "equal",
        "not_equal",
        "bitwise_and",
        "bitwise_or",
        "bitwise_xor",
        "invert",
        "left_shift",
        "right_shift",
    ]
} | {"sigmoid": _sigmoid}


@cache
def on_tensors() -> dict[str, Callable[..., Any]]:
    """Give the operations on floats that Tensors record."""
    from .. import _core, activation, elementwise

    def floor(x: Any) -> Any:
        return _core.tensor(np.floor(x.detach().numpy()))

    return {
        "add": lambda a, b: a + b,
        "subtract": lambda a, b: a - b,
        "multiply": lambda a, b: a * b,
        "divide": lambda a, b: a / b,
        "floor_divide": lambda a, b: floor(_core.tensor(a / b)),
        "remainder": lambda a, b: a - floor(_core.tensor(a / b)) * b,
        "power": lambda a, b: a**b,
        "negative": lambda a: -a,
        "absolute": elementwise.abs,
        "minimum": elementwise.minimum,
        "maximum": elementwise.maximum,
        "where": elementwise.where,
        "exp": elementwise.exp,
        "exp2": elementwise.exp2,
        "log": elementwise.log,
        "tanh": activation.tanh,
        "sigmoid": activation.sigmoid,
        "sqrt": elementwise.sqrt,
        "sin": elementwise.sin,
        "cos": elementwise.cos,
        "floor": floor,
    }


# Other names of operations, by NumPy, PyTorch and Python.
SPELLINGS: dict[str, str] = {name: name for name in NUMPY} | {
    "abs": "absolute",
    "fabs": "absolute",
    "neg": "negative",
    "sub": "subtract",
    "mul": "multiply",
    "div": "divide",
    "true_divide": "divide",
    "truediv": "divide",
    "floordiv": "floor_divide",
    "mod": "remainder",
    "pow": "power",
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
    "eq": "equal",
    "ne": "not_equal",
    "greater": "greater",
    "greater_equal": "greater_equal",
    "logical_and": "logical_and",
    "logical_or": "logical_or",
    "logical_xor": "logical_xor",
    "logical_not": "logical_not",
    "bitwise_not": "invert",
    "bitwise_invert": "invert",
    "lshift": "left_shift",
    "rshift": "right_shift",
    "bitwise_left_shift": "left_shift",
    "bitwise_right_shift": "right_shift",
    "and": "bitwise_and",
    "or": "bitwise_or",
    "xor": "bitwise_xor",
    "clip": "clip",
    "clamp": "clip",
    "relu": "relu",
    "square": "square",
    "rsub": "rsub",
}
