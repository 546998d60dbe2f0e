"""Functions of single numbers and choices between numbers."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

from .. import _core
from . import _dtypes
from ._conversion import clone
from ._dtypes import bool_
from ._elementwise import add, arithmetic, as_numbers, as_tensor, cast, div, mul, result_dtype, sub
from ._tensor import FUNCTIONS, Core, Tensor, as_core, both, constant, wrap, wrap_array


def floats(t: Any) -> Tensor:
    """Whole numbers and booleans as floating ones."""
    t = as_tensor(t)
    return t if t.dtype.kind == 2 else cast(t, _dtypes.get_default_dtype())


_FLOATING = "exp exp2 expm1 log log1p log2 log10 sqrt reciprocal sin cos tan sinh cosh tanh"
_KEEPING = "negative absolute square"  # whole numbers stay whole
_SHORT = {"negative": "neg", "absolute": "abs"}
_LABELS = {"log1p": "Log1PBackward0", "square": "PowBackward0"}


def _unary(names: tuple[str, ...], compute: Any, convert: Any) -> None:
    label = _LABELS.get(names[0], f"{names[0].capitalize()}Backward0")

    def f(input: Any) -> Tensor:
        x = convert(input)
        return wrap(compute(as_core(x)), label, x._kind)

    f.__doc__ = f"``{names[0]}`` of each number."
    both(*names)(f)


for _name in _FLOATING.split():
    _unary((_name,), getattr(np, _name), floats)
for _name in _KEEPING.split():
    _unary((_SHORT.get(_name, _name), _name), getattr(np, _name), as_tensor)
Tensor.__neg__, Tensor.__abs__ = FUNCTIONS["neg"], FUNCTIONS["abs"]
_unary(("sigmoid",), _core.sigmoid, floats)
_unary(("erf",), _core.erf, floats)
_unary(("rsqrt",), lambda x: 1.0 / _core.sqrt(x), floats)
_unary(("relu",), lambda x: _core.relu(x) if x.dtype.kind == "f" else x * (x > 0), as_tensor)
for _name in ("floor", "ceil", "trunc", "sign"):  # steps, whose gradient is 0
    _steps = getattr(np, _name) if _name != "sign" else lambda x: np.nan_to_num(np.sign(x))
    _unary((_name,), lambda x, _f=_steps: _core.where(False, x, _f(x.numpy())), as_tensor)


@both("round")
def round(input: Tensor, *, decimals: builtins.int = 0) -> Tensor:
    """To the nearest whole number, halves to the even one."""
    if input.dtype.kind < 2:
        return clone(input)
    with np.errstate(all="ignore"):
        rounded = np.round(Core.numpy(input), decimals)
    return wrap(_core.where(False, input, rounded), "RoundBackward0")


@both("clamp", "clip")
def clamp(input: Any, min: Any = None, max: Any = None) -> Any:
    """Numbers below ``min`` become ``min``, above ``max`` ``max``; Tensors for both are legal."""
    given = [bound for bound in (min, max) if bound is not None]
    if not given:
        raise RuntimeError("clamp: min or max must be given; got neither")
    kind = result_dtype(input, *given)
    low, high = (cast(v, kind) if isinstance(v, Core) else v for v in (min, max))
    return wrap(np.clip(as_core(cast(input, kind)), low, high), "ClampBackward1", kind)


both("clamp_min")(lambda input, min: clamp(input, min=min))
both("clamp_max")(lambda input, max: clamp(input, max=max))


@both("maximum")
def maximum(input: Any, other: Any) -> Tensor:
    """The larger of two numbers; equal ones share the gradient."""
    return arithmetic(_core.maximum, input, other, "MaximumBackward0", np.logical_or)


@both("minimum")
def minimum(input: Any, other: Any) -> Tensor:
    """The smaller of two numbers; equal ones share the gradient."""
    return arithmetic(_core.minimum, input, other, "MinimumBackward0", np.logical_and)


@both("where")
def where(condition: Any, input: Any = None, other: Any = None) -> Any:
    """``input`` where the condition holds, else ``other``; the condition's places if both are left out."""
    if input is None:
        return tuple(wrap_array(places) for places in np.nonzero(as_numbers(condition)))
    if isinstance(condition, Tensor) and isinstance(input, Tensor) and condition.dtype is not bool_:
        condition, input = input, condition  # tensor.where(condition, other)
    kind = result_dtype(input, other)
    x, y = (cast(v, kind) if isinstance(v, Core) else constant(v, kind) for v in (input, other))
    return wrap(_core.where(condition, x, y), "WhereBackward0", kind)


for _name in ("isnan", "isinf", "isfinite"):
    both(_name)(lambda input, _f=getattr(np, _name): wrap_array(_f(as_numbers(input))))


@both("nan_to_num", label="NanToNumBackward0")
def nan_to_num(input: Tensor, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> Any:
    """NaN and infinity replaced by numbers."""
    if as_tensor(input).dtype.kind < 2:
        return clone(input)
    return np.nan_to_num(as_core(input), nan=0.0 if nan is None else nan, posinf=posinf, neginf=neginf)


@both("addcmul", label="AddcmulBackward0")
def addcmul(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Any = 1) -> Any:
    """``input + value tensor1 tensor2``."""
    return add(input, mul(mul(tensor1, tensor2), value))


@both("addcdiv", label="AddcdivBackward0")
def addcdiv(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Any = 1) -> Any:
    """``input + value tensor1 / tensor2``."""
    return add(input, div(mul(tensor1, value), tensor2))


@both("lerp", label="LerpBackward0")
def lerp(input: Tensor, end: Tensor, weight: Any) -> Any:
    """``input + weight (end - input)``."""
    return add(input, mul(sub(end, input), weight))
