"""Functions of single numbers, choices between numbers, and Python's operators."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import _core
from . import _dtypes
from ._conversion import clone
from ._dtypes import bool_
from ._elementwise import (
    add,
    arithmetic,
    as_numbers,
    as_tensor,
    bitwise_not,
    cast,
    div,
    eq,
    floor_divide,
    ge,
    gt,
    is_operand,
    le,
    lt,
    mul,
    ne,
    pow,
    remainder,
    result_dtype,
    sub,
)
from ._tensor import FUNCTIONS, Core, Tensor, both, constant, function, wrap, wrap_array


def floats(t: Any) -> Tensor:
    """Whole numbers and booleans as floating ones."""
    t = as_tensor(t)
    return t if t.dtype.kind == 2 else cast(t, _dtypes.get_default_dtype())


def _fraction(name: str, own: Any = None) -> Callable[[Any], Any]:
    """A function of NumPy's whose gradient is 0, computed so that the result is part of the graph."""
    compute = own or getattr(np, name)

    def f(x: Any) -> Any:
        constant = _core.tensor(compute(Core.numpy(x)))
        return Core.__add__(Core.__mul__(x, 0.0), constant) if x.requires_grad else constant

    return f


def _by_numpy(ufunc: Any) -> Callable[[Any], Any]:
    """A function that qkv composes for NumPy's ufunc."""
    return lambda x: ufunc(_core.instance_of(Core, x))


# Name: what computes it (of floating Tensors), PyTorch's name of its node.
_UNARY: dict[str, tuple[Callable[[Any], Any], str]] = {
    "exp": (_core.exp, "ExpBackward0"),
    "exp2": (lambda x: _core.exp(Core.__mul__(x, math.log(2.0))), "Exp2Backward0"),
    "expm1": (_by_numpy(np.expm1), "Expm1Backward0"),
    "log": (_core.log, "LogBackward0"),
    "log1p": (_by_numpy(np.log1p), "Log1PBackward0"),
    "log2": (lambda x: Core.__truediv__(_core.log(x), math.log(2.0)), "Log2Backward0"),
    "log10": (lambda x: Core.__truediv__(_core.log(x), math.log(10.0)), "Log10Backward0"),
    "sqrt": (_core.sqrt, "SqrtBackward0"),
    "rsqrt": (lambda x: Core.__rtruediv__(_core.sqrt(x), 1.0), "RsqrtBackward0"),
    "reciprocal": (lambda x: Core.__rtruediv__(x, 1.0), "ReciprocalBackward0"),
    "sin": (_core.sin, "SinBackward0"),
    "cos": (_core.cos, "CosBackward0"),
    "tan": (_by_numpy(np.tan), "TanBackward0"),
    "sinh": (_by_numpy(np.sinh), "SinhBackward0"),
    "cosh": (_by_numpy(np.cosh), "CoshBackward0"),
    "tanh": (_core.tanh, "TanhBackward0"),
    "sigmoid": (_core.sigmoid, "SigmoidBackward0"),
    "erf": (_core.erf, "ErfBackward0"),
}
_KEEPING: dict[str, tuple[Callable[[Any], Any], str]] = {  # whole numbers stay whole
    "neg": (Core.__neg__, "NegBackward0"),
    "abs": (Core.__abs__, "AbsBackward0"),
    "relu": (lambda x: _core.relu(x) if x.dtype.kind == 2 else x * (x > 0), "ReluBackward0"),
    "square": (lambda x: Core.__mul__(x, x), "PowBackward0"),
    "sign": (
        _fraction("sign", lambda x: np.where(np.isnan(x), 0, np.sign(x)).astype(x.dtype)),
        "SignBackward0",
    ),
    "floor": (_fraction("floor"), "FloorBackward0"),
    "ceil": (_fraction("ceil"), "CeilBackward0"),
    "trunc": (_fraction("trunc"), "TruncBackward0"),
}


def _define_unary() -> None:
    for table, convert in ((_UNARY, floats), (_KEEPING, as_tensor)):
        for name, (core, op) in table.items():

            def f(input: Any, *, _core_f: Any = core, _op: str = op, _convert: Any = convert) -> Tensor:
                x = _convert(input)
                return wrap(_core_f(x), _op, x._kind)

            f.__doc__ = f"``{name}`` of each number."
            both(name)(f)


_define_unary()


def _operators() -> None:
    def attach(name: str, f: Any) -> None:
        setattr(Tensor, name, _core.direct(name, f))

    def operator(
        f: Callable[[Any, Any], Tensor], swapped: builtins.bool = False
    ) -> Callable[[Any, Any], Any]:
        if swapped:
            return lambda a, b: f(b, a) if is_operand(b) else NotImplemented
        return lambda a, b: f(a, b) if is_operand(b) else NotImplemented

    for name, f in {
        "add": add,
        "sub": sub,
        "mul": mul,
        "truediv": div,
        "floordiv": floor_divide,
        "mod": remainder,
        "pow": pow,
    }.items():
        attach(f"__{name}__", operator(f))
        attach(f"__r{name}__", operator(f, swapped=True))
    for name, f in {"eq": eq, "ne": ne, "lt": lt, "le": le, "gt": gt, "ge": ge}.items():
        attach(f"__{name}__", operator(f))
    # PyTorch computes a quotient of a number and a Tensor by the reciprocal, and names it so.
    Tensor.__rtruediv__ = lambda a, b: _divided(b, a) if is_operand(b) else NotImplemented
    attach(
        "__rsub__",
        lambda a, b: arithmetic(Core.__sub__, b, a, "RsubBackward1") if is_operand(b) else NotImplemented,
    )
    Tensor.__neg__ = FUNCTIONS["neg"]
    Tensor.__pos__ = lambda a: a
    Tensor.__abs__ = FUNCTIONS["abs"]
    Tensor.__invert__ = bitwise_not


def _divided(number: Any, t: Any) -> Tensor:
    return (
        mul(FUNCTIONS["reciprocal"](t), number)
        if not isinstance(number, (Core, np.ndarray))
        else div(number, t)
    )


_operators()
for _alias, _name in {
    "negative": "neg",
    "absolute": "abs",
    "multiply": "mul",
    "subtract": "sub",
    "divide": "div",
    "true_divide": "div",
}.items():
    setattr(Tensor, _alias, getattr(Tensor, _name))
    function(_alias)(lambda *a, _f=FUNCTIONS[_name], **k: _f(*a, **k))


@both("round")
def round(input: Tensor, *, decimals: builtins.int = 0) -> Tensor:
    """To the nearest whole number, halves to the even one."""
    if input.dtype.kind < 2:
        return clone(input)
    rounded = wrap_array(np.round(Core.numpy(input), decimals))
    return (
        wrap(Core.__add__(Core.__mul__(input, 0.0), rounded), "RoundBackward0")
        if input.requires_grad
        else rounded
    )


@both("clamp")
def clamp(input: Any, min: Any = None, max: Any = None) -> Tensor:
    """Numbers below ``min`` become ``min``, above ``max`` ``max``; Tensors for both are legal."""
    x = as_tensor(input)
    if min is None and max is None:
        raise RuntimeError("clamp: min or max must be given; got neither")
    if isinstance(min, Core) or isinstance(max, Core):
        x = maximum(x, min) if min is not None else x
        return minimum(x, max) if max is not None else x
    kind = result_dtype(x, *(bound for bound in (min, max) if bound is not None))
    x = cast(x, kind)
    if min is not None and max is not None and min > max:
        min = max  # PyTorch's rule: the upper bound counts
    if kind.kind < 2:
        return wrap_array(np.clip(Core.numpy(x), min, max), kind)
    return wrap(_core.clip(x, min, max), "ClampBackward1")


for _alias in ("clip",):
    both(_alias)(lambda input, min=None, max=None: clamp(input, min, max))
both("clamp_min")(lambda input, min: clamp(input, min=min))
both("clamp_max")(lambda input, max: clamp(input, max=max))


def _extreme(core: Any, op: str, name: str) -> Callable[[Any, Any], Tensor]:
    def extreme(input: Any, other: Any) -> Tensor:
        return arithmetic(core, input, other, op)

    extreme.__doc__ = f"The {name} of two numbers; equal ones share the gradient."
    return extreme


maximum = both("maximum")(_extreme(_core.maximum, "MaximumBackward0", "larger"))
minimum = both("minimum")(
    _extreme(
        lambda x, y: Core.__neg__(
            _core.maximum(Core.__neg__(x), -y if not isinstance(y, Core) else Core.__neg__(y))
        ),
        "MinimumBackward0",
        "smaller",
    )
)


@both("where")
def where(condition: Any, input: Any = None, other: Any = None) -> Any:
    """``input`` where the condition holds, else ``other``; the condition's places if both are left out."""
    if input is None:
        return tuple(wrap_array(places) for places in np.nonzero(as_numbers(condition)))
    if isinstance(condition, Tensor) and isinstance(input, Tensor) and condition.dtype is not bool_:
        condition, input = input, condition  # tensor.where(condition, other)
    kind = result_dtype(input, other)
    as_one = lambda v: cast(v, kind) if isinstance(v, Core) else constant(v, kind)  # noqa: E731
    if kind.kind < 2:
        chosen = np.where(as_numbers(condition), as_numbers(as_one(input)), as_numbers(as_one(other)))
        return wrap_array(chosen, kind)
    return wrap(_core.where(condition, as_one(input), as_one(other)), "WhereBackward0", kind)


for _name in ("isnan", "isinf", "isfinite"):
    both(_name)(lambda input, _f=getattr(np, _name): wrap_array(_f(as_numbers(input))))


@both("nan_to_num")
def nan_to_num(input: Tensor, nan: builtins.float = 0.0, posinf: Any = None, neginf: Any = None) -> Tensor:
    """NaN and infinity replaced by numbers."""
    if as_tensor(input).dtype.kind < 2:
        return clone(input)
    x, limits = input, _dtypes.finfo(input.dtype)
    numbers = as_numbers(x)
    for places, number in (
        (np.isnan(numbers), nan),
        (numbers == math.inf, limits.max if posinf is None else posinf),
        (numbers == -math.inf, limits.min if neginf is None else neginf),
    ):
        x = where(wrap_array(places), number, x)
    return wrap(x, "NanToNumBackward0")


@both("addcmul")
def addcmul(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Any = 1) -> Tensor:
    """``input + value tensor1 tensor2``."""
    return wrap(Core.__add__(input, Core.__mul__(Core.__mul__(tensor1, tensor2), value)), "AddcmulBackward0")


@both("addcdiv")
def addcdiv(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Any = 1) -> Tensor:
    """``input + value tensor1 / tensor2``."""
    return wrap(
        Core.__add__(input, Core.__truediv__(Core.__mul__(tensor1, value), tensor2)), "AddcdivBackward0"
    )


@both("lerp")
def lerp(input: Tensor, end: Tensor, weight: Any) -> Tensor:
    """``input + weight (end - input)``."""
    return wrap(Core.__add__(input, Core.__mul__(Core.__sub__(end, input), weight)), "LerpBackward0")
