"""Functions of single numbers and choices between numbers.

lerp: ``input + weight (end - input)``.
isnan: Whether a number is NaN.
isinf: Whether a number is infinite.
isfinite: Whether a number is neither infinite nor NaN.
"""

from __future__ import annotations

import numpy as np

from .. import _core
from . import _dtypes
from ._conversion import clone
from ._dtypes import bool_, uint8
from ._elementwise import add, as_numbers, as_tensor, cast, mul, result_dtype, sub
from ._tensor import Core, Tensor, as_core, define, named, wrap, wrap_array


def floats(t) -> Tensor:
    """Whole numbers and booleans as floating ones."""
    t = as_tensor(t)
    return t if t.dtype.kind == 2 else cast(t, _dtypes.get_default_dtype())


def _unary(name: str, label: str, compute, convert) -> None:
    def f(input) -> Tensor:
        x = convert(input)
        return wrap(compute(as_core(x)), label, x._kind)

    f.__doc__ = f"``{name}`` of each number."
    named(name)(f)


_unary(
    "square",
    "PowBackward0",
    np.square,
    lambda t: cast(t, _dtypes.int64) if as_tensor(t).dtype is bool_ else as_tensor(t),
)
_unary("rsqrt", "RsqrtBackward0", lambda x: 1.0 / _core.sqrt(x), floats)
_unary("relu", "ReluBackward0", lambda x: _core.relu(x) if x.dtype.kind == "f" else x * (x > 0), as_tensor)


@named("round")
def round(input, *, decimals: int = 0) -> Tensor:
    """To the nearest whole number, halves to the even one."""
    input = as_tensor(input)
    if input.dtype.kind < 2:
        return clone(input)
    if not decimals:
        return wrap(_core.round(input), "RoundBackward0")
    with np.errstate(all="ignore"):
        rounded = np.round(Core.numpy(input), decimals)
    return wrap(_core.where(False, input, rounded), "RoundBackward0")


@named("clamp clip")
def clamp(input, min=None, max=None):
    """Numbers below ``min`` become ``min``, above ``max`` ``max``; Tensors for both are legal."""
    given = [bound for bound in (min, max) if bound is not None]
    if not given:
        raise RuntimeError("clamp: min or max must be given; got neither")
    kind = result_dtype(input, *given)
    low, high = (as_core(cast(v, kind)) if isinstance(v, Core) else v for v in (min, max))
    numbers = kind.kind == 2 and not any(isinstance(bound, Core) for bound in given)
    clip = _core.clip if numbers and (len(given) < 2 or min <= max) else np.clip
    return wrap(clip(as_core(cast(input, kind)), low, high), "ClampBackward1", kind)


@named("where")
def where(condition, input=None, other=None):
    """``input`` where the condition holds, else ``other``; the condition's places if both are left out."""
    if input is None and other is None:
        return tuple(wrap_array(places) for places in np.nonzero(as_numbers(condition)))
    if isinstance(condition, Tensor) and isinstance(input, Tensor) and condition.dtype is not bool_:
        condition, input = input, condition  # tensor.where(condition, other)
    if (kind := as_tensor(condition).dtype) is not bool_ and kind is not uint8:
        raise RuntimeError(f"where: condition must hold booleans; got {kind}. Compare it: condition != 0")
    *chosen, kind = _core.promoted(input, other)
    return wrap(_core.where(condition, *chosen), "WhereBackward0", kind)


_TABLE = {
    "lerp: Lerp": lambda input, end, weight: add(input, mul(sub(end, input), weight)),
    "isnan": lambda input: (x := as_tensor(input)) != x,
    "isinf": lambda input: wrap_array(np.isinf(as_numbers(as_tensor(input)))),
    "isfinite": lambda input: wrap_array(np.isfinite(as_numbers(as_tensor(input)))),
}
define(_TABLE)
