"""Sums, means, extremes, orders: what makes fewer numbers of many, or sorts them."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _core
from .._errors import shown
from ._conversion import clone
from ._dtypes import computed, int64
from ._elementwise import as_numbers, as_tensor, cast
from ._functions import floats
from ._shaping import axis_of
from ._tensor import Core, Tensor, _core_shape, both, function, wrap, wrap_array


def axes_of(dim: Any, rank: int, operation: str) -> tuple[int, ...] | None:
    """Axes counted from the front; None for all of them, and for those of a Tensor that has none."""
    if dim is None or (isinstance(dim, (tuple, list)) and not dim):
        return None
    axes = tuple(axis_of(one, rank, operation) for one in (dim if isinstance(dim, (tuple, list)) else (dim,)))
    if len({*axes}) < len(axes):
        raise RuntimeError(f"{operation}: dim must name each axis once; got {shown(dim)}")
    return axes if rank else None


def reduced(
    core: Any, t: Tensor, axes: tuple[int, ...] | None, keepdim: bool, op: str, kind: Any = None
) -> Tensor:
    """Reduce over axes; a 0-d Tensor has none."""
    if not _core_shape(t):
        axes = None
    return wrap(core(t, axes, keepdim), op + ("0" if axes is None and not keepdim else "1"), kind)


@both("sum")
def sum(input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """Sum over axes, or of everything."""
    t = as_tensor(input)
    t = cast(t, computed(dtype, "sum")) if dtype is not None else cast(t, int64) if t.dtype.kind < 2 else t
    return reduced(Core.sum, t, axes_of(dim, len(t.shape), "sum"), keepdim, "SumBackward")


@both("mean")
def mean(input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """Mean over axes, or of everything."""
    t = as_tensor(input) if dtype is None else cast(input, computed(dtype, "mean"))
    if t.dtype.kind < 2:
        raise RuntimeError(f"mean: input must hold floating numbers; got {t.dtype}. Use .float().mean()")
    return reduced(Core.mean, t, axes_of(dim, len(t.shape), "mean"), keepdim, "MeanBackward")


@both("nansum")
def nansum(input: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """Sum of what is not NaN."""
    if as_tensor(input).dtype.kind < 2:
        return sum(input, dim, keepdim)
    return sum(wrap(_core.where(~np.isnan(as_numbers(input)), input, 0.0)), dim, keepdim)


@both("nanmean")
def nanmean(input: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """Mean of what is not NaN."""
    return nansum(input, dim, keepdim) / sum(wrap_array(~np.isnan(as_numbers(input))), dim, keepdim)


def _truth(name: str, core: Any) -> Any:
    def reduce(input: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
        return reduced(core, input, axes_of(dim, len(_core_shape(input)), name), bool(keepdim), "")

    reduce.__doc__ = f"Whether {name} of the numbers over axes, or of everything, are not 0."
    return both(name)(reduce)


any = _truth("any", Core.any)
all = _truth("all", Core.all)


@both("count_nonzero")
def count_nonzero(input: Tensor, dim: Any = None) -> Tensor:
    """How many numbers are not 0."""
    return sum(wrap_array(as_numbers(input) != 0), dim)


@both("prod")
def prod(input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """Product along an axis, or of everything."""
    t = cast(input, computed(dtype, "prod")) if dtype is not None else input
    t = cast(t, int64) if t.dtype.kind < 2 and dtype is None else t
    axis = None if dim is None or not t.shape else axis_of(dim, len(t.shape), "prod")
    return wrap(
        Core.prod(t, axis, keepdim and axis is not None), f"ProdBackward{int(axis is not None)}", t._kind
    )


def _variance(t: Tensor, dim: Any, unbiased: Any, correction: Any, keepdim: bool, op: str) -> Tensor:
    if t.dtype.kind < 2:
        raise RuntimeError(f"var: input must hold floating numbers; got {t.dtype}. Use .float()")
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    ddof = correction if correction is not None else 1 if unbiased in (None, True) else 0
    axes = axes_of(dim, len(t.shape), "var")
    kept = tuple(range(len(t.shape))) if axes is None else axes
    count = int(np.prod([t.shape[axis] for axis in kept]))
    if not kept:
        return wrap(Core.__mul__(t, float("nan")), op)
    centred = Core.__sub__(t, Core.mean(t, kept, True))
    total = Core.sum(Core.__mul__(centred, centred), kept, keepdim)
    with np.errstate(all="ignore"):
        return wrap(Core.__mul__(total, float(np.float64(1) / max(count - ddof, 0))), op)


@both("var")
def var(
    input: Tensor, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *, correction: Any = None
) -> Tensor:
    """Mean squared distance from the mean, over ``n - correction`` (1)."""
    return _variance(input, dim, unbiased, correction, keepdim, "VarBackward0")


@both("std")
def std(
    input: Tensor, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *, correction: Any = None
) -> Tensor:
    """Root of `var`."""
    return wrap(_root(_variance(input, dim, unbiased, correction, keepdim, ""), 0.5), "StdBackward0")


@function("var_mean")
def var_mean(
    input: Tensor, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *, correction: Any = None
) -> Any:
    """`var` and `mean`."""
    return var(input, dim, unbiased, keepdim, correction=correction), mean(input, dim, keepdim)


@both("logsumexp")
def logsumexp(input: Tensor, dim: Any, keepdim: bool = False) -> Tensor:
    """``log(sum(exp(x)))``, safe for numbers of any size."""
    axes = axes_of(dim, len(input.shape), "logsumexp")
    return wrap(_core.logsumexp(floats(input), axes, keepdim), "LogsumexpBackward0")


@both("norm")
def norm(input: Tensor, p: Any = 2, dim: Any = None, keepdim: bool = False) -> Tensor:
    """Root of the sum of squares; p = 1 sums sizes, p = inf takes the largest."""
    if p == "nuc":
        return matrix_norm(input, p, (-2, -1) if dim is None else dim, keepdim)
    p = 2 if p in (None, "fro") else p
    axes = axes_of(dim, len(input.shape), "norm")
    size, op = Core.__abs__(input), "LinalgVectorNormBackward0"
    if p == float("inf"):
        return wrap(Core.max(size, axes, keepdim), op)
    if p == float("-inf"):
        return wrap(Core.min(size, axes, keepdim), op)
    if p == 0:
        return wrap(Core.sum(Core.astype(Core.__ne__(input, 0), input.dtype.core), axes, keepdim), op)
    if p == 1:
        return wrap(Core.sum(size, axes, keepdim), op)
    if p == 2:
        return wrap(_root(Core.sum(Core.__mul__(input, input), axes, keepdim), 0.5), op)
    return wrap(_root(Core.sum(Core.__pow__(size, float(p)), axes, keepdim), 1.0 / p), op)


def _root(total: Any, exponent: float) -> Any:
    """A power of numbers from 0, whose gradient at 0 is 0."""
    zero = Core.__eq__(total, 0)
    safe = _core.where(zero, 1.0, total)
    return _core.where(zero, 0.0, _core.sqrt(safe) if exponent == 0.5 else Core.__pow__(safe, exponent))


def matrix_norm(
    A: Tensor, ord: Any = "fro", dim: tuple[int, int] = (-2, -1), keepdim: bool = False
) -> Tensor:
    """Norm of matrices: of all numbers ("fro"), of rows (inf), columns (1), or of singular values (2, "nuc")."""
    if ord == "fro":
        return norm(A, 2, dim, keepdim)
    rows, columns = (axis_of(one, len(A.shape), "matrix_norm") for one in dim)
    if ord in (1, -1, float("inf"), float("-inf")):
        first, second = (rows, columns) if ord in (1, -1) else (columns, rows)
        sums = Core.sum(Core.__abs__(A), first, True)
        best = (Core.max if ord > 0 else Core.min)(sums, second, True)
    elif ord in (2, -2, "nuc"):
        if A.requires_grad and _core.grad_enabled():
            raise RuntimeError(f"matrix_norm: ord={ord!r} has no gradient in qkv.torch; detach() the Tensor")
        singular = np.linalg.svd(np.moveaxis(Core.numpy(A), (rows, columns), (-2, -1)), compute_uv=False)
        best = singular.sum(-1) if ord == "nuc" else singular.max(-1) if ord == 2 else singular.min(-1)
        best = _core.tensor(np.expand_dims(best, tuple(sorted((rows, columns)))))
    else:
        raise ValueError(
            f"matrix_norm: ord must be 'fro', 'nuc', 1, -1, 2, -2, inf or -inf; got {shown(ord)}"
        )
    shape = [n for axis, n in enumerate(Core.shape.fget(best)) if keepdim or axis not in (rows, columns)]
    return wrap(Core.reshape(best, shape), "LinalgVectorNormBackward0")


# Running.


def _running(name: str, core: Any, what: str) -> None:
    def running(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
        t = cast(input, computed(dtype, name)) if dtype is not None else input
        t = cast(t, int64) if t.dtype.kind < 2 and dtype is None else t
        axis = axis_of(dim, len(_core_shape(t)), name)
        if not _core_shape(t):
            return clone(t)
        return wrap(core(t, axis), f"{name.capitalize()}Backward0", t._kind)

    running.__doc__ = f"{what} of all entries up to each."
    both(name)(running)


_running("cumsum", _core.cumsum, "Sums")
_running("cumprod", _core.cumprod, "Products")


@both("diff")
def diff(input: Tensor, n: int = 1, dim: int = -1) -> Tensor:
    """Differences of neighbours."""
    axis = axis_of(dim, len(input.shape), "diff")
    if n == 0:
        return clone(input)
    for _ in range(n):
        size = input.shape[axis]
        if size == 0:
            break
        input = input.narrow(axis, 1, size - 1) - input.narrow(axis, 0, size - 1)
    return input


# Comparing whole Tensors.


@both("equal")
def equal(input: Tensor, other: Tensor) -> bool:
    """Whether both have the same shape and numbers."""
    return bool(np.array_equal(as_numbers(input), as_numbers(other)))


@both("allclose")
def allclose(
    input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> bool:
    """Whether all numbers agree to ``atol + rtol |other|``."""
    return bool(isclose(input, other, rtol, atol, equal_nan).all())


@both("isclose")
def isclose(
    input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> Tensor:
    """Whether numbers agree to ``atol + rtol |other|``, one by one."""
    if not (rtol >= 0 and atol >= 0):
        raise RuntimeError(f"isclose: rtol and atol must be at least 0; got {shown(rtol)} and {shown(atol)}")
    with np.errstate(all="ignore"):
        return wrap_array(np.isclose(as_numbers(input), as_numbers(other), rtol, atol, equal_nan))
