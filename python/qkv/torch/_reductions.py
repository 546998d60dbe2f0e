"""Sums, means, norms, running sums: what makes fewer numbers of many; and comparing whole Tensors.

sum: Sum over axes, or of everything.
prod: Product along an axis, or of everything.
mean: Mean over axes, or of everything.
any: Whether any of the numbers over axes, or of everything, is not 0.
all: Whether all of the numbers over axes, or of everything, are not 0.
var: Mean squared distance from the mean, over ``n - correction`` (1).
std: Root of the mean squared distance from the mean, over ``n - correction`` (1).
equal: Whether both have the same shape and numbers.
allclose: Whether all numbers agree to ``atol + rtol |other|``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _core
from .._numpy import norms
from .._words.errors import shown
from ._arguments import tensor
from ._axes import along, axes_of, axis_of
from ._dtypes import computed, int64
from ._elementwise import as_numbers, as_tensor, cast
from ._functions import floats
from ._tensor import FUNCTIONS, Core, Tensor, _core_shape, as_core, define, named, wrap, wrap_array


def floating(name: str, t, dtype=None) -> Tensor:
    """Floating numbers, in a dtype if one is given."""
    t = as_tensor(t) if dtype is None else cast(t, computed(dtype, name))
    if t.dtype.kind < 2:
        raise RuntimeError(f"{name}: input must hold floating numbers; got {t.dtype}. Use .float().{name}()")
    return t


def _summed(name: str, t, dtype) -> Tensor:
    """In the dtype of a sum: whole numbers and booleans are added as int64."""
    t = as_tensor(t)
    return cast(t, computed(dtype, name)) if dtype is not None else cast(t, int64) if t.dtype.kind < 2 else t


def _spread(name: str) -> Any:
    def f(input, dim=None, unbiased=None, keepdim=False, *, correction=None):
        if isinstance(dim, bool):
            dim, unbiased = None, dim
        ddof = correction if correction is not None else int(unbiased is not False)
        x, axes = floating(name, input), axes_of(dim, input, name)
        compute = getattr(Core, name)
        spread = compute(x, axes, keepdim, ddof=ddof) if x.shape else Core.__mul__(x, float("nan"))
        return wrap(spread, f"{name.capitalize()}Backward0")

    return f


@named("norm: LinalgVectorNorm")
def norm(input, p: Any = 2, dim=None, keepdim: bool = False, *, dtype=None):
    """Root of the sum of squares; p = 1 sums sizes, p = inf takes the largest."""
    x = floating("norm", input, dtype)
    p, axes = 2 if p in (None, "fro") else p, axes_of(dim, x, "norm")
    if not isinstance(p, (int, float)):
        raise TypeError(f"norm: p must be a number or 'fro'; got {shown(p)}")
    return norms.vector_norm(as_core(x), p, axes, keepdim)


@named("cumsum")
def cumsum(input, dim, *, dtype=None):
    """Sums of all entries up to each."""
    x = _summed("cumsum", input, dtype)
    axis = dim if dim.__class__ is int else axis_of(dim, len(_core_shape(x)), "cumsum")
    return wrap(along(_core.cumsum, x, axis), "CumsumBackward0", x._kind)


@named("logsumexp: Logsumexp")
def logsumexp(input, dim, keepdim: bool = False):
    """``log(sum(exp(x)))``, safe for numbers of any size."""
    if dim is None:
        raise TypeError("logsumexp: dim must be an integer, or several; got None")
    return _core.logsumexp(floats(input), axes_of(dim, input, "logsumexp"), keepdim)


# Comparing whole Tensors.


@named("isclose")
def isclose(input, other, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Tensor:
    """Whether numbers agree to ``atol + rtol |other|``, one by one."""
    if not (rtol >= 0 and atol >= 0):
        raise RuntimeError(f"isclose: rtol and atol must be at least 0; got {shown(rtol)} and {shown(atol)}")
    a, b = as_numbers(tensor("isclose", "input", input)), as_numbers(tensor("isclose", "other", other))
    with np.errstate(all="ignore"):
        return wrap_array(np.isclose(a, b, rtol, atol, equal_nan))


_TABLE = {
    "equal": lambda input, other: bool(
        np.array_equal(
            as_numbers(tensor("equal", "input", input)), as_numbers(tensor("equal", "other", other))
        )
    ),
    "allclose": lambda input, other, rtol=1e-05, atol=1e-08, equal_nan=False: bool(
        isclose(input, other, rtol, atol, equal_nan).all()
    ),
}
_TABLE |= {name: _spread(name) for name in ("var", "std")}
define(_TABLE)
sum: Any = FUNCTIONS["sum"]
mean: Any = FUNCTIONS["mean"]
