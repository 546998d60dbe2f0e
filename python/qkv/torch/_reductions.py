"""Sums, means, norms, running sums: what makes fewer numbers of many; and comparing whole Tensors.

sum: Sum over axes, or of everything.
prod: Product along an axis, or of everything.
mean: Mean over axes, or of everything.
any: Whether any of the numbers over axes, or of everything, is not 0.
all: Whether all of the numbers over axes, or of everything, are not 0.
nanmean: Mean of what is not NaN.
count_nonzero: How many numbers are not 0.
var: Mean squared distance from the mean, over ``n - correction`` (1).
std: Root of the mean squared distance from the mean, over ``n - correction`` (1).
var_mean: `var` and `mean`.
std_mean: `std` and `mean`.
cumsum: Sums of all entries up to each.
cumprod: Products of all entries up to each.
equal: Whether both have the same shape and numbers.
allclose: Whether all numbers agree to ``atol + rtol |other|``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _core
from .._errors import shown
from .._numpy import norms
from ._arguments import flag, integer, number, tensor
from ._axes import along, axes_of, axis_of
from ._conversion import clone
from ._dtypes import computed, int64
from ._elementwise import as_numbers, as_tensor, cast, truth
from ._functions import floats
from ._shaping import cat
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


@named("nansum")
def nansum(input, dim=None, keepdim=False, *, dtype=None) -> Tensor:
    """Sum of what is not NaN."""
    x = as_tensor(input)
    return sum(x if x.dtype.kind < 2 else x.masked_fill(x.isnan(), 0.0), dim, keepdim, dtype=dtype)


def _spread(name: str, averaged: bool) -> Any:
    def f(input, dim=None, unbiased=None, keepdim=False, *, correction=None):
        if isinstance(dim, bool):
            dim, unbiased = None, dim
        ddof = (
            number(name, "correction", correction) if correction is not None else int(unbiased is not False)
        )
        flag(name, "keepdim", keepdim)
        x, axes = floating(name, input), axes_of(dim, input, name)
        compute = getattr(Core, name)
        spread = compute(x, axes, keepdim, ddof=ddof) if x.shape else Core.__mul__(x, float("nan"))
        spread = wrap(spread, f"{name.capitalize()}Backward0")
        return (spread, mean(input, dim, keepdim)) if averaged else spread

    return f


@named("norm: LinalgVectorNorm")
def norm(input, p=2, dim=None, keepdim: bool = False, *, dtype=None):
    """Root of the sum of squares; p = 1 sums sizes, p = inf takes the largest."""
    x = floating("norm", input, dtype)
    if p == "nuc":
        return matrix_norm(x, p, (-2, -1) if dim is None else dim, keepdim)
    p, axes = 2 if p in (None, "fro") else p, axes_of(dim, x, "norm")
    if not isinstance(p, (int, float)):
        raise TypeError(f"norm: p must be a number, 'fro' or 'nuc'; got {shown(p)}")
    return norms.vector_norm(as_core(x), p, axes, keepdim)


def matrix_norm(A, ord="fro", dim=(-2, -1), keepdim=False, *, dtype=None) -> Tensor:
    """Norm of matrices: of all numbers ("fro"), of rows (inf), columns (1), or of singular values (2, "nuc")."""
    A = floating("matrix_norm", A, dtype)
    if ord == "fro":
        return norm(A, 2, dim, keepdim)  # type: ignore[no-any-return]
    if ord not in (1, -1, *norms.SINGULAR, float("inf"), float("-inf")):
        raise RuntimeError(f"matrix_norm: ord must be 'fro', 'nuc', +-1, +-2 or +-inf; got {shown(ord)}")
    if ord in norms.SINGULAR and A.requires_grad and _core.grad_enabled():
        raise RuntimeError(f"matrix_norm: ord={ord!r} has no gradient in qkv.torch; detach() the Tensor")
    axes = tuple(axis_of(one, len(A.shape), "matrix_norm") for one in dim)
    return wrap(norms.matrix_norm(as_core(A), ord, axes, keepdim), "LinalgVectorNormBackward0")


def _running(name: str) -> Any:
    def f(input, dim, *, dtype=None):
        x = _summed(name, input, dtype)
        axis = dim if dim.__class__ is int else axis_of(dim, len(_core_shape(x)), name)
        return wrap(along(getattr(_core, name), x, axis), f"{name.capitalize()}Backward0", x._kind)

    return f


@named("diff")
def diff(input, n: int = 1, dim: int = -1, prepend=None, append=None) -> Tensor:
    """Differences of neighbours, after others were joined before or behind."""
    axis = axis_of(dim, len(input.shape), "diff")
    parts = [part for part in (prepend, input, append) if part is not None]
    input = cat(parts, axis) if len(parts) > 1 else input
    n = min(integer("diff", "n", n, 0), input.shape[axis])
    found = np.diff(as_core(input if n else clone(input)), n, axis)
    return wrap(found, "SubBackward0", input._kind)


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
        return wrap_array(np.isclose(a, b, rtol, atol, flag("isclose", "equal_nan", equal_nan)))


_TABLE = {
    "nanmean": lambda input, dim=None, keepdim=False, *, dtype=None: (
        nansum(input, dim, keepdim, dtype=dtype)
        / FUNCTIONS["sum"](~floating("nanmean", input).isnan(), dim, keepdim)
    ),
    "count_nonzero": lambda input, dim=None: FUNCTIONS["sum"](truth(input), dim),
    "cumsum": _running("cumsum"),
    "cumprod": _running("cumprod"),
    "equal": lambda input, other: bool(
        np.array_equal(
            as_numbers(tensor("equal", "input", input)), as_numbers(tensor("equal", "other", other))
        )
    ),
    "allclose": lambda input, other, rtol=1e-05, atol=1e-08, equal_nan=False: bool(
        isclose(input, other, rtol, atol, equal_nan).all()
    ),
}
_TABLE |= {name: _spread(name, False) for name in ("var", "std")}
_TABLE |= {f"torch.{name}_mean": _spread(name, True) for name in ("var", "std")}
define(_TABLE)
sum: Any = FUNCTIONS["sum"]
mean: Any = FUNCTIONS["mean"]
