"""Numbers one by one: dtypes of results, arithmetic, comparisons, functions, and their forms in place.

add: ``input + alpha other``.
sub, subtract: ``input - alpha other``.
rsub: ``other - alpha input``.
mul, multiply: ``input * other``.
maximum: The larger of two numbers; equal ones share the gradient.
minimum: The smaller of two numbers; equal ones share the gradient.
remainder: ``input % other``, with the sign of ``other``.
fmod: What is left of ``input`` after whole multiples of ``other``, with the sign of ``input``.
logical_and, logical_or, logical_xor: Of what is not 0, to booleans.
bitwise_and, bitwise_or, bitwise_xor: Of booleans, or bit by bit of integers.
eq, ne, lt, le, gt, ge: Element by element, to booleans.
logical_not: True where the number is 0.
bitwise_not: Booleans turned round; of integers ``-x - 1``.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from .. import _core
from .._errors import real, shown
from . import _dtypes
from ._dtypes import bool_, dtype, int64, uint8
from ._tensor import FUNCTIONS, Core, Tensor, _core_shape, constant, define, named, wrap, wrap_array

Number = (int, float, np.number, np.bool_)

_HEIGHT = operator.attrgetter("kind")


def common_dtype(a, b):
    """The dtype that holds the numbers of two others."""
    if a is b:
        return a
    if a.kind != b.kind:
        return a if a.kind > b.kind else b
    if uint8 in (a, b) and a.kind == 1:
        other = b if a is uint8 else a
        return _dtypes.int16 if other is _dtypes.int8 else other
    return a if a.itemsize > b.itemsize else b


def number_dtype(value) -> dtype:
    """dtype of a number of Python's."""
    if isinstance(value, (bool, np.bool_)):
        return bool_
    return int64 if isinstance(value, (int, np.integer)) else _dtypes.get_default_dtype()


def result_dtype(*operands) -> dtype:
    """PyTorch's rule: of Tensors with axes, then of those without, then of numbers, each only for a higher kind."""
    found: list[Any] = [None, None, None]
    for operand in operands:
        core = isinstance(operand, Core)
        rank = 2 if not core else 0 if _core_shape(operand) else 1
        kind = as_tensor(operand).dtype if core else number_dtype(operand)
        found[rank] = kind if found[rank] is None else common_dtype(found[rank], kind)
    return max(filter(None, found), key=_HEIGHT)  # type: ignore[no-any-return]


def as_tensor(value) -> Tensor:
    """A Tensor of this class of a Tensor, an array or a number."""
    if isinstance(value, Tensor):
        return value
    if isinstance(value, Core):
        return wrap(value)
    return FUNCTIONS["tensor"](value)


def cast(t, kind: dtype) -> Tensor:
    """The same numbers in another dtype; itself if it has it."""
    t = as_tensor(t)
    if t.dtype is kind:
        return t
    if t.dtype.core == kind.core:
        return wrap(_core.tensor(t), "", kind)
    if kind.core == "int64" and t.dtype.kind == 2:
        with np.errstate(invalid="ignore"):
            return wrap(_core.tensor(Core.numpy(t).astype(np.int64)), "", kind)
    return wrap(Core.astype(t, kind.core), "ToCopyBackward0", kind)


def is_operand(value) -> bool:
    """Whether arithmetic takes it."""
    return isinstance(value, (Core, np.ndarray, *Number))


def pair(a, b, kind: dtype) -> tuple[Any, Any]:
    """Both operands in a dtype, as Tensors, but a floating number as the second as it is."""

    def operand(value) -> Tensor:
        return cast(value, kind) if isinstance(value, (Core, np.ndarray)) else constant(value, kind)

    return operand(a), float(b) if kind.kind == 2 and isinstance(b, Number) else operand(b)


_CORE = {name: getattr(Core, f"__{name}__") for name in ("add", "sub", "mul", "pow")}
_CORE |= {"rsub": Core.__sub__, "div": Core.__truediv__, "maximum": _core.maximum, "minimum": _core.minimum}
_LABELS = {name: f"{name.capitalize()}Backward{int(name == 'rsub')}" for name in _CORE}
_BOOLEANS = {"add": np.logical_or, "mul": np.logical_and, "maximum": np.logical_or, "minimum": np.logical_and}


def arithmetic(name: str, a, b, alpha=1) -> Tensor:
    """Compute in the dtype that both have together, by NumPy's function where two booleans have one."""
    if alpha != 1:
        b = mul(b, alpha) if isinstance(b, Core) else b * alpha
    kind = result_dtype(a, b)
    if kind is bool_ and name in _BOOLEANS:
        return wrap_array(_BOOLEANS[name](as_numbers(a), as_numbers(b)))
    if name == "div" and kind.kind < 2:
        kind = _dtypes.get_default_dtype()
    return wrap(_CORE[name](*pair(a, b, kind)), _LABELS[name], kind)


def as_numbers(value) -> np.ndarray:
    """NumPy's view of an operand, in the core's dtype."""
    return Core.numpy(value) if isinstance(value, Core) else np.asarray(real(value))


@named("div divide true_divide")
def div(input, other, *, rounding_mode: str | None = None) -> Tensor:
    """``input / other``; rounded down with "floor", towards 0 with "trunc"."""
    if rounding_mode is None:
        return arithmetic("div", input, other)
    if rounding_mode not in ("floor", "trunc"):
        raise RuntimeError(f"div: rounding_mode must be None, 'floor' or 'trunc'; got {shown(rounding_mode)}")
    floor = rounding_mode == "floor"
    core, numpys = (Core.__floordiv__, np.floor_divide) if floor else (_truncated, _truncated)
    return _of_whole("div", core, numpys, input, other)


def _truncated(a, b):
    """``a / b`` towards 0, of Tensors of floating numbers or NumPy's integers; its derivative is 0."""
    if isinstance(a, np.ndarray):
        return (a - np.fmod(a, b)) // b
    quotient = Core.__truediv__(a, b)
    return _core.where(np.True_, np.trunc(Core.numpy(quotient.detach())), quotient)


def _rest(a, b):
    """What is left of `a` after whole multiples of `b`, with the sign of `a`."""

    def times_sign(t, of):
        return Core.__mul__(t, np.copysign(np.ones((), as_numbers(t).dtype), as_numbers(of)))

    whole = times_sign(b, b) if isinstance(b, Core) else abs(b)
    return times_sign(Core.__mod__(times_sign(a, a), whole), a)


def _of_whole(name: str, core, numpys, a, b) -> Tensor:
    """What the core computes of floating numbers, NumPy of integers."""
    kind = result_dtype(a, b)
    x, y = pair(a, b, kind)
    if kind.kind == 2:
        return wrap(core(x, y), f"{name.capitalize()}Backward0", kind)
    if not np.all(as_numbers(y)):
        raise RuntimeError(f"{name}: other must not be 0 because integers have no infinity")
    return wrap_array(numpys(as_numbers(x), as_numbers(y)).astype(kind.core), kind)


@named("floor_divide")
def floor_divide(input, other) -> Tensor:
    """``input // other``, rounded down; backward through it is refused."""
    a, b = (t.detach() if isinstance(t, Core) else t for t in (input, other))
    result = _of_whole("floor_divide", Core.__floordiv__, np.floor_divide, a, b)
    followed = [t for t in (input, other) if isinstance(t, Core)]
    return wrap(_core.without_derivative("floor_divide", result, followed), "NotImplemented", result._kind)


@named("pow")
def pow(input, exponent) -> Tensor:
    """``input ** exponent``."""
    if isinstance(exponent, float) and exponent == 0.5 and as_tensor(input).dtype.kind == 2:
        return wrap(_core.sqrt(input), "PowBackward0")
    result = arithmetic("pow", input, exponent)
    if not isinstance(input, Core) or isinstance(exponent, Core):
        result._op = f"PowBackward{1 if isinstance(input, Core) else 2}"
    return result


def _compared(name: str, sign: str, a, b) -> Tensor:
    x, y = pair(a, b, result_dtype(a, b)) if isinstance(b, Core) else (a, b)
    result = getattr(Core, f"__{name}__")(x, y) if isinstance(x, Core) else NotImplemented
    if result is NotImplemented:
        words = "both must be Tensors or numbers, one a Tensor"
        raise TypeError(f"input {sign} other: {words}; got {shown(a)} and {shown(b)}")
    return wrap(result)


def _bits(name: str, *operands) -> Tensor:
    kind = result_dtype(*operands)
    if kind.kind == 2:
        raise TypeError(f"bitwise_{name}: input must hold booleans or integers; got {kind}")
    found = getattr(np, f"bitwise_{name}")(*(as_numbers(cast(x, kind)) for x in operands))
    return wrap_array(found, kind)


def _truth(name: str, *operands) -> Tensor:
    return wrap_array(getattr(np, f"logical_{name}")(*map(as_numbers, operands)))


def _of_two(f, *words: str):
    return lambda input, other: f(*words, input, other)


_TABLE = {
    "add": lambda input, other, *, alpha=1: arithmetic("add", input, other, alpha),
    "sub subtract": lambda input, other, *, alpha=1: arithmetic("sub", input, other, alpha),
    "torch.rsub": lambda input, other, *, alpha=1: arithmetic("rsub", other, input, alpha),
    "remainder": lambda input, other: _of_whole("remainder", Core.__mod__, np.remainder, input, other),
    "fmod": lambda input, other: _of_whole("fmod", _rest, np.fmod, input, other),
    "logical_not": lambda input: _truth("not", input),
    "bitwise_not": lambda input: _bits("not", input),
}
_SIGNS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_TABLE |= {name: _of_two(_compared, name, sign) for name, sign in _SIGNS.items()}
_TABLE |= {name: _of_two(arithmetic, name.split()[0]) for name in ("mul multiply", "maximum", "minimum")}
_TABLE |= {f"logical_{name}": _of_two(_truth, name) for name in ("and", "or", "xor")}
_TABLE |= {f"bitwise_{name}": _of_two(_bits, name) for name in ("and", "or", "xor")}
define(_TABLE)
add, sub, mul = (FUNCTIONS[_name] for _name in ("add", "sub", "mul"))
_NAMES = {"truediv": "div", "floordiv": "floor_divide", "mod": "remainder"}
_NAMES |= {name: f"bitwise_{name}" for name in ("and", "or", "xor")}
OPERATORS = {name: FUNCTIONS[_NAMES.get(name, name)] for name in ("add", "sub", "mul", "pow", *_NAMES)}


def attach(name: str, f, swapped: bool = False) -> None:
    """Let an operator compute a function, of the operands in exchanged order if they are swapped."""

    def operator(a, b):
        if not is_operand(b):
            return NotImplemented
        return f(b, a) if swapped else f(a, b)

    setattr(Tensor, f"__{name}__", _core.direct(f"__{name}__", operator))


for _name in (*OPERATORS, *_SIGNS):
    attach(_name, OPERATORS.get(_name) or FUNCTIONS[_name])
for _name, _f in OPERATORS.items():
    attach(f"r{_name}", _f, swapped=True)
attach("rsub", FUNCTIONS["rsub"])
# PyTorch computes a quotient of a number and a Tensor by the reciprocal, and names it so.
attach("rtruediv", lambda a, b: div(b, a) if isinstance(b, (Core, np.ndarray)) else mul(a.reciprocal(), b))
Tensor.__pos__, Tensor.__invert__ = (lambda a: a), FUNCTIONS["bitwise_not"]
