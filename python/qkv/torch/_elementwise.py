"""Numbers one by one: dtypes of results, arithmetic, comparisons, functions, and their forms in place.

add: ``input + alpha other``.
sub, subtract: ``input - alpha other``.
mul, multiply: ``input * other``.
maximum: The larger of two numbers; equal ones share the gradient.
minimum: The smaller of two numbers; equal ones share the gradient.
remainder: ``input % other``, with the sign of ``other``.
fmod: What is left of ``input`` after whole multiples of ``other``, with the sign of ``input``.
logical_and, logical_or, logical_xor: Of what is not 0, to booleans.
pow: ``input ** exponent``.
floor_divide: ``input // other``, rounded down; backward through it is refused.
bitwise_and, bitwise_or, bitwise_xor: Of booleans, or bit by bit of integers.
eq, ne, lt, le, gt, ge: Element by element, to booleans.
logical_not: True where the number is 0.
bitwise_not: Booleans negated; of integers ``-x - 1``.
"""

from __future__ import annotations

import operator

import numpy as np

from .. import _core
from .._formulas.errors import FormulaError
from .._formulas.values import Symbol
from .._words.errors import real, shown
from ._arguments import OPERANDS
from ._tensor import FUNCTIONS, Core, Tensor, define, named, wrap, wrap_array
from ._views import define_views

# PyTorch's rules: of Tensors with axes, then of those without, then of numbers, each only for a higher kind.
common_dtype, result_dtype, cast = _core.common_dtype, _core.result_dtype, _core.cast


def as_tensor(value) -> Tensor:
    """A Tensor of this class of a Tensor or an array."""
    if isinstance(value, Tensor):
        return value
    if isinstance(value, Core):
        return wrap(value)
    if isinstance(value, Symbol):
        words = f"must not make a Tensor of a captured array {value.shape}; compute it outside of the formula"
        raise FormulaError(TypeError, words)
    if not isinstance(value, np.ndarray):
        raise TypeError(f"expected a Tensor; got {shown(value)}")
    return FUNCTIONS["tensor"](value)


def is_operand(value) -> bool:
    """Whether arithmetic takes it."""
    return isinstance(value, OPERANDS)


def as_numbers(value) -> np.ndarray:
    """NumPy's view of an operand, in the core's dtype."""
    return Core.numpy(value) if isinstance(value, Core) else np.asarray(real(value))


define_views()
_quotient = FUNCTIONS["div"]


@named("div divide true_divide")
def div(input, other, *, rounding_mode: str | None = None) -> Tensor:
    """``input / other``; rounded down with "floor", towards 0 with "trunc"."""
    if rounding_mode is None:
        return _quotient(input, other)  # type: ignore[no-any-return]
    if rounding_mode not in ("floor", "trunc"):
        raise RuntimeError(f"div: rounding_mode must be None, 'floor' or 'trunc'; got {shown(rounding_mode)}")
    floor = rounding_mode == "floor"
    x, y, kind = _core.promoted(input, other)
    if kind.kind == 2:
        quotient = Core.__floordiv__(x, y) if floor else _core.trunc(Core.__truediv__(x, y))
        return wrap(quotient, "DivBackward0", kind)
    a, b = as_numbers(x), as_numbers(y)
    if not np.all(b):
        raise RuntimeError("div: other must not be 0 because integers have no infinity")
    return wrap_array((np.floor_divide(a, b) if floor else (a - np.fmod(a, b)) // b).astype(kind.core), kind)


def truth(x) -> Tensor:
    """Whether numbers are not 0."""
    x = as_tensor(x)
    return x if x.dtype.kind == 0 else x != 0


def _truth(name: str, *operands) -> Tensor:
    return getattr(operator, f"__{name}__")(*map(truth, operands))


def _logical(name: str):
    return lambda input, other: _truth(name, input, other)


def _turned(x) -> Tensor:
    if x.dtype.kind == 2:
        raise TypeError(f"bitwise_not: input must hold booleans or integers; got {x.dtype}")
    return wrap(Core.__invert__(x), "", x.dtype)


_TABLE = {
    "logical_not": lambda input: ~truth(input),
    "bitwise_not": lambda input: _turned(as_tensor(input)),
}
_TABLE |= {f"logical_{name}": _logical(name) for name in ("and", "or", "xor")}
define(_TABLE)
add, sub, mul = (FUNCTIONS[_name] for _name in ("add", "sub", "mul"))
_METHODS = {"truediv": "div", "floordiv": "floor_divide", "mod": "remainder"}
_METHODS |= {name: f"bitwise_{name}" for name in ("and", "or", "xor")}
OPERATORS = {name: FUNCTIONS[_METHODS.get(name, name)] for name in ("add", "sub", "mul", "pow", *_METHODS)}

Tensor.__pos__, Tensor.__invert__ = (lambda a: a), FUNCTIONS["bitwise_not"]
