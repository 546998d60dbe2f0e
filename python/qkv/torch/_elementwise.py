"""Numbers one by one: dtypes of results, arithmetic, comparisons, functions, and their forms in place."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import _core
from .._errors import real, shown
from . import _dtypes
from ._dtypes import bool_, dtype, int64, uint8
from ._tensor import FUNCTIONS, Core, Tensor, _core_shape, both, constant, function, wrap, wrap_array

Number = (builtins.int, builtins.float, np.number, np.bool_)


def common_dtype(a: Any, b: Any) -> Any:
    """The dtype that holds the numbers of two others."""
    if a is b:
        return a
    if a.kind != b.kind:
        return a if a.kind > b.kind else b
    if uint8 in (a, b) and a.kind == 1:
        other = b if a is uint8 else a
        return _dtypes.int16 if other is _dtypes.int8 else other
    return a if a.itemsize > b.itemsize else b


def number_dtype(value: Any) -> dtype:
    """dtype of a number of Python's."""
    if isinstance(value, (builtins.bool, np.bool_)):
        return bool_
    return int64 if isinstance(value, (builtins.int, np.integer)) else _dtypes.get_default_dtype()


def result_dtype(*operands: Any) -> dtype:
    """PyTorch's rule: of Tensors with axes, then of those without, then of numbers, each only for a higher kind."""
    found: list[dtype | None] = [None, None, None]
    for operand in operands:
        if isinstance(operand, Core):
            rank, kind = (0 if _core_shape(operand) else 1), as_tensor(operand).dtype
        else:
            rank, kind = 2, number_dtype(operand)
        known = found[rank]
        found[rank] = kind if known is None else common_dtype(known, kind)
    result: dtype | None = None
    for level in found:
        if level is not None and (result is None or level.kind > result.kind):
            result = level
    assert result is not None
    return result


def as_tensor(value: Any) -> Tensor:
    """A Tensor of this class of a Tensor, an array or a number."""
    if isinstance(value, Tensor):
        return value
    if isinstance(value, Core):
        return wrap(value)
    return FUNCTIONS["tensor"](value)


def cast(t: Any, kind: dtype) -> Tensor:
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


def is_operand(value: Any) -> builtins.bool:
    """Whether arithmetic takes it."""
    return isinstance(value, (Core, np.ndarray, *Number))


def pair(a: Any, b: Any, kind: dtype) -> tuple[Any, Any]:
    """Both operands in a dtype, as Tensors, but a floating number as the second as it is."""

    def operand(value: Any) -> Tensor:
        return cast(value, kind) if isinstance(value, (Core, np.ndarray)) else constant(value, kind)

    return operand(a), builtins.float(b) if kind.kind == 2 and isinstance(b, Number) else operand(b)


def arithmetic(core: Callable[[Any, Any], Any], a: Any, b: Any, op: str, booleans: Any = None) -> Tensor:
    """Compute in the dtype that both have together; `booleans` is NumPy's function for two of those."""
    kind = result_dtype(a, b)
    if kind is bool_ and booleans is not None:
        return wrap_array(booleans(as_numbers(a), as_numbers(b)))
    if core is Core.__truediv__ and kind.kind < 2:
        kind = _dtypes.get_default_dtype()
    return wrap(core(*pair(a, b, kind)), op, kind)


def as_numbers(value: Any) -> np.ndarray:
    """NumPy's view of an operand, in the core's dtype."""
    return Core.numpy(value) if isinstance(value, Core) else np.asarray(real(value))


def _scaled(other: Any, alpha: Any) -> Any:
    return other if alpha == 1 else mul(other, alpha) if isinstance(other, Core) else other * alpha


@both("add")
def add(input: Any, other: Any, *, alpha: Any = 1) -> Tensor:
    """``input + alpha other``."""
    return arithmetic(Core.__add__, input, _scaled(other, alpha), "AddBackward0", np.logical_or)


@both("sub", "subtract")
def sub(input: Any, other: Any, *, alpha: Any = 1) -> Tensor:
    """``input - alpha other``."""
    return arithmetic(Core.__sub__, input, _scaled(other, alpha), "SubBackward0")


@function("rsub")
def rsub(input: Any, other: Any, *, alpha: Any = 1) -> Tensor:
    """``other - alpha input``."""
    return arithmetic(Core.__sub__, other, _scaled(input, alpha), "RsubBackward1")


@both("mul", "multiply")
def mul(input: Any, other: Any) -> Tensor:
    """``input * other``."""
    return arithmetic(Core.__mul__, input, other, "MulBackward0", np.logical_and)


@both("div", "divide", "true_divide")
def div(input: Any, other: Any, *, rounding_mode: str | None = None) -> Tensor:
    """``input / other``; rounded down with "floor", towards 0 with "trunc"."""
    if rounding_mode is None:
        return arithmetic(Core.__truediv__, input, other, "DivBackward0")
    if rounding_mode not in ("floor", "trunc"):
        raise RuntimeError(f"div: rounding_mode must be None, 'floor' or 'trunc'; got {shown(rounding_mode)}")
    floor = rounding_mode == "floor"
    core, numpys = (Core.__floordiv__, np.floor_divide) if floor else (_truncated, _truncated)
    return _of_whole("div", core, numpys, input, other, "DivBackward0")


def _truncated(a: Any, b: Any) -> Any:
    """``a / b`` towards 0, of Tensors of floating numbers or NumPy's integers; its derivative is 0."""
    if isinstance(a, np.ndarray):
        return (a - np.fmod(a, b)) // b
    quotient = Core.__truediv__(a, b)
    return _core.where(np.True_, np.trunc(Core.numpy(quotient.detach())), quotient)


def _rest(a: Any, b: Any) -> Any:
    """What is left of `a` after whole multiples of `b`, with the sign of `a`."""

    def sign(t: Any) -> Any:
        numbers = as_numbers(t)
        return np.where(np.signbit(numbers), -1, 1).astype(numbers.dtype)

    whole = Core.__mul__(b, sign(b)) if isinstance(b, Core) else abs(b)
    return Core.__mul__(Core.__mod__(Core.__mul__(a, sign(a)), whole), sign(a))


def _of_whole(name: str, core: Any, numpys: Any, a: Any, b: Any, label: str) -> Tensor:
    """What the core computes of floating numbers, NumPy of integers."""
    kind = result_dtype(a, b)
    x, y = pair(a, b, kind)
    if kind.kind == 2:
        return wrap(core(x, y), label, kind)
    if not np.all(as_numbers(y)):
        raise RuntimeError(f"{name}: other must not be 0 because integers have no infinity")
    return wrap_array(numpys(as_numbers(x), as_numbers(y)).astype(kind.core), kind)


@both("floor_divide")
def floor_divide(input: Any, other: Any) -> Tensor:
    """``input // other``, rounded down; backward through it is refused."""
    a, b = (t.detach() if isinstance(t, Core) else t for t in (input, other))
    result = _of_whole("floor_divide", Core.__floordiv__, np.floor_divide, a, b, "")
    followed = [t for t in (input, other) if isinstance(t, Core)]
    return wrap(_core.without_derivative("floor_divide", result, followed), "NotImplemented", result._kind)


@both("remainder")
def remainder(input: Any, other: Any) -> Tensor:
    """``input % other``, with the sign of ``other``."""
    return _of_whole("remainder", Core.__mod__, np.remainder, input, other, "RemainderBackward0")


@both("fmod")
def fmod(input: Any, other: Any) -> Tensor:
    """What is left of ``input`` after whole multiples of ``other``, with the sign of ``input``."""
    return _of_whole("fmod", _rest, np.fmod, input, other, "FmodBackward0")


@both("pow")
def pow(input: Any, exponent: Any) -> Tensor:
    """``input ** exponent``."""
    if isinstance(exponent, builtins.float) and exponent == 0.5 and as_tensor(input).dtype.kind == 2:
        return wrap(_core.sqrt(input), "PowBackward0")
    number = 2 if not isinstance(input, Core) else 1 if isinstance(exponent, Core) else 0
    return arithmetic(Core.__pow__, input, exponent, f"PowBackward{number}")


def _comparison(name: str, sign: str) -> Any:
    core = getattr(Core, f"__{name}__")

    def compare(input: Any, other: Any) -> Tensor:
        x, y = pair(input, other, result_dtype(input, other)) if isinstance(other, Core) else (input, other)
        result = core(x, y) if isinstance(x, Core) else NotImplemented
        if result is NotImplemented:
            raise TypeError(
                f"input {sign} other: both must be Tensors or numbers, one a Tensor; got {shown(input)} and "
                f"{shown(other)}"
            )
        return wrap(result)

    compare.__doc__ = f"Element by element, to booleans: ``{sign}``."
    return both(name)(compare)


COMPARISONS = {
    name: _comparison(name, sign)
    for name, sign in {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}.items()
}


def _logical(name: str) -> None:
    ufunc, bitwise = getattr(np, f"logical_{name}"), getattr(np, f"bitwise_{name}")

    def logical(input: Any, other: Any) -> Tensor:
        """Of what is not 0, to booleans."""
        return wrap_array(ufunc(as_numbers(input), as_numbers(other)))

    def bits(input: Any, other: Any) -> Tensor:
        """Of booleans, or bit by bit of integers."""
        kind = result_dtype(input, other)
        if kind.kind == 2:
            raise TypeError(f"bitwise_{name}: input must hold booleans or integers; got {kind}")
        x, y = pair(input, other, kind)
        return wrap_array(bitwise(as_numbers(x), as_numbers(y)), kind)

    both(f"logical_{name}")(logical)
    OPERATORS[name] = both(f"bitwise_{name}")(bits)


OPERATORS: dict[str, Any] = {
    "add": add,
    "sub": sub,
    "mul": mul,
    "truediv": div,
    "floordiv": floor_divide,
    "mod": remainder,
    "pow": pow,
}
for _name in ("and", "or", "xor"):
    _logical(_name)


@both("logical_not")
def logical_not(input: Any) -> Tensor:
    """True where the number is 0."""
    return wrap_array(np.logical_not(as_numbers(input)))


@both("bitwise_not")
def bitwise_not(input: Tensor) -> Tensor:
    """Booleans turned round; of integers ``-x - 1``."""
    if input.dtype.kind == 2:
        raise TypeError(f"bitwise_not: input must hold booleans or integers; got {input.dtype}")
    return wrap_array(np.invert(as_numbers(input)), input.dtype)


def _attach_operators() -> None:
    def attach(name: str, f: Any, swapped: builtins.bool = False) -> None:
        def operator(a: Any, b: Any) -> Any:
            if not is_operand(b):
                return NotImplemented
            return f(b, a) if swapped else f(a, b)

        setattr(Tensor, name, _core.direct(name, operator))

    for name, f in OPERATORS.items():
        attach(f"__{name}__", f)
        attach(f"__r{name}__", f, swapped=True)
    for name, f in COMPARISONS.items():
        attach(f"__{name}__", f)
    attach("__rsub__", rsub)
    # PyTorch computes a quotient of a number and a Tensor by the reciprocal, and names it so.
    attach(
        "__rtruediv__",
        lambda a, b: div(b, a) if isinstance(b, (Core, np.ndarray)) else mul(a.reciprocal(), b),
    )
    Tensor.__pos__, Tensor.__invert__ = (lambda a: a), bitwise_not


_attach_operators()
