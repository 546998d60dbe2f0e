"""Numbers one by one: dtypes of results, arithmetic, comparisons, functions, and their forms in place."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import _core
from .._errors import shown
from . import _dtypes
from ._dtypes import bool_, dtype, int64, uint8
from ._tensor import FUNCTIONS, Core, Tensor, _core_shape, both, constant, wrap, wrap_array

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
    """Both operands in a dtype, at least one as a Tensor."""
    if isinstance(a, np.ndarray):
        a = wrap_array(a)
    if isinstance(b, np.ndarray):
        b = wrap_array(b)
    if isinstance(a, Core):
        a = a if getattr(a, "dtype", None) is kind else cast(a, kind)
    if isinstance(b, Core):
        b = b if getattr(b, "dtype", None) is kind else cast(b, kind)
    if not isinstance(a, Core):
        a = constant(a, kind)
    if not isinstance(b, Core):
        b = constant(b, kind) if kind.kind < 2 else builtins.float(b)
    return a, b


def arithmetic(
    core: Callable[[Any, Any], Any],
    a: Any,
    b: Any,
    op: str,
    divides: builtins.bool = False,
    booleans: Any = None,
) -> Tensor:
    """Compute in the dtype that both have together; `booleans` is NumPy's function for two of those."""
    try:
        if isinstance(a, np.ndarray):
            a = wrap_array(a)
        if isinstance(b, np.ndarray):
            b = wrap_array(b)
        kind = result_dtype(a, b)
        if kind is bool_ and booleans is not None:
            return wrap_array(booleans(as_numbers(a), as_numbers(b)))
        if divides and kind.kind < 2:
            kind = _dtypes.get_default_dtype()
        x, y = pair(a, b, kind)
        return wrap(core(x, y), op, kind)
    except ValueError as error:
        raise RuntimeError(str(error)) from None  # shapes that do not fit


def _scaled(other: Any, alpha: Any) -> Any:
    return other if alpha == 1 else mul(other, alpha) if isinstance(other, Core) else other * alpha


@both("add")
def add(input: Any, other: Any, *, alpha: Any = 1) -> Tensor:
    """``input + alpha other``."""
    return arithmetic(Core.__add__, input, _scaled(other, alpha), "AddBackward0", booleans=np.logical_or)


@both("sub")
def sub(input: Any, other: Any, *, alpha: Any = 1) -> Tensor:
    """``input - alpha other``."""
    return arithmetic(Core.__sub__, input, _scaled(other, alpha), "SubBackward0")


@both("mul")
def mul(input: Any, other: Any) -> Tensor:
    """``input * other``."""
    return arithmetic(Core.__mul__, input, other, "MulBackward0", booleans=np.logical_and)


@both("div")
def div(input: Any, other: Any, *, rounding_mode: str | None = None) -> Tensor:
    """``input / other``; rounded down with "floor", towards 0 with "trunc"."""
    if rounding_mode is None:
        return arithmetic(Core.__truediv__, input, other, "DivBackward0", divides=True)
    if rounding_mode not in ("floor", "trunc"):
        raise ValueError(f"div: rounding_mode must be None, 'floor' or 'trunc'; got {shown(rounding_mode)}")
    if rounding_mode == "floor":
        return floor_divide(input, other)
    kind = result_dtype(input, other)
    x, y = pair(input, other, kind)
    a, b = as_numbers(x), as_numbers(y)
    _check_divisor("div", kind, y)
    with np.errstate(all="ignore"):
        exact = np.trunc(np.true_divide(a, b)) if kind.kind == 2 else (a - np.fmod(a, b)) // b
    return wrap_array(exact.astype(kind.core), kind)


def _check_divisor(operation: str, kind: dtype, other: Any) -> None:
    if kind.kind < 2 and not np.all(as_numbers(other)):
        raise RuntimeError(f"{operation}: other must not be 0 because integers have no infinity")


def as_numbers(value: Any) -> np.ndarray:
    """NumPy's view of an operand, in the core's dtype."""
    return Core.numpy(value) if isinstance(value, Core) else np.asarray(value)


@both("floor_divide")
def floor_divide(input: Any, other: Any) -> Tensor:
    """``input // other``, rounded down; backward through it is refused."""
    kind = result_dtype(input, other)
    x, y = pair(input, other, kind)
    _check_divisor("floor_divide", kind, y)
    operands = [t for t in (x, y) if isinstance(t, Core)]
    return wrap(
        _core.without_derivative("floor_divide", _floored(x, y, kind), operands), "NotImplemented", kind
    )


def _floored(x: Any, y: Any, kind: dtype) -> Tensor:
    with np.errstate(all="ignore"):
        return wrap_array(np.floor_divide(as_numbers(x), as_numbers(y)).astype(kind.core), kind)


@both("remainder")
def remainder(input: Any, other: Any) -> Tensor:
    """``input % other``, with the sign of ``other``."""
    kind = result_dtype(input, other)
    x, y = pair(input, other, kind)
    if kind.kind == 2 and (x.requires_grad or getattr(y, "requires_grad", False)):
        return wrap(Core.__sub__(x, Core.__mul__(_floored(x, y, kind), y)), "RemainderBackward0", kind)
    _check_divisor("remainder", kind, y)
    with np.errstate(all="ignore"):
        return wrap_array(np.remainder(as_numbers(x), as_numbers(y)).astype(kind.core), kind)


@both("fmod")
def fmod(input: Any, other: Any) -> Tensor:
    """What is left of ``input`` after whole multiples of ``other``, with the sign of ``input``."""
    kind = result_dtype(input, other)
    x, y = pair(input, other, kind)
    _check_divisor("fmod", kind, y)
    with np.errstate(all="ignore"):
        left = np.fmod(as_numbers(x), as_numbers(y)).astype(kind.core)
    if kind.kind == 2 and (x.requires_grad or getattr(y, "requires_grad", False)):
        with np.errstate(all="ignore"):
            whole = _core.tensor(np.trunc(as_numbers(x) / as_numbers(y)))
        return wrap(Core.__sub__(x, Core.__mul__(whole, y)), "FmodBackward0", kind)
    return wrap_array(left, kind)


@both("pow")
def pow(input: Any, exponent: Any) -> Tensor:
    """``input ** exponent``."""
    if not isinstance(input, Core):
        return arithmetic(Core.__pow__, input, exponent, "PowBackward2")
    if isinstance(exponent, Core):
        return arithmetic(Core.__pow__, input, exponent, "PowBackward1")
    if isinstance(exponent, builtins.float) and exponent == 0.5 and as_tensor(input).dtype.kind == 2:
        return wrap(_core.sqrt(input), "PowBackward0")
    return arithmetic(Core.__pow__, input, exponent, "PowBackward0")


def _comparison(core: Callable[[Any, Any], Any], name: str) -> Callable[[Any, Any], Tensor]:
    def compare(input: Any, other: Any) -> Tensor:
        x, y = pair(input, other, result_dtype(input, other)) if isinstance(other, Core) else (input, other)
        result = core(x, y) if isinstance(x, Core) else NotImplemented
        if result is NotImplemented:
            raise TypeError(
                f"input {name} other: both must be Tensors or numbers, one a Tensor; got {shown(input)} and "
                f"{shown(other)}"
            )
        return wrap(result)

    compare.__doc__ = f"Element by element, to booleans: ``{name}``."
    return compare


eq = both("eq")(_comparison(Core.__eq__, "=="))
ne = both("ne")(_comparison(Core.__ne__, "!="))
lt = both("lt")(_comparison(Core.__lt__, "<"))
le = both("le")(_comparison(Core.__le__, "<="))
gt = both("gt")(_comparison(Core.__gt__, ">"))
ge = both("ge")(_comparison(Core.__ge__, ">="))


def _logical(ufunc: Any, bitwise: Any, name: str) -> None:
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
    both(f"bitwise_{name}")(bits)
    setattr(Tensor, f"__{name}__", lambda a, b: bits(a, b) if is_operand(b) else NotImplemented)
    setattr(Tensor, f"__r{name}__", lambda a, b: bits(b, a) if is_operand(b) else NotImplemented)


_logical(np.logical_and, np.bitwise_and, "and")
_logical(np.logical_or, np.bitwise_or, "or")
_logical(np.logical_xor, np.bitwise_xor, "xor")


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
