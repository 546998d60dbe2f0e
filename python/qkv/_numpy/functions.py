"""NumPy's functions of arrays, out of operations that have gradients."""

from __future__ import annotations

from collections.abc import Callable
from types import NoneType
from typing import Any

import numpy as np

from .. import _core
from .._core import Tensor
from ..functions import sorting
from . import UnsupportedError, plain, products, tensors_in
from . import moving as moving  # registers its own
from . import norms as norms
from . import reductions as reductions
from .moving import along, gathered
from .products import tensor
from .table import ANY_DTYPE as ANY_DTYPE
from .table import TABLE as TABLE
from .table import answers as answers
from .table import any_dtype, method
from .table import only as _only
from .table import register as _register
from .table import registered as _for


@_for("broadcast_arrays")
def _broadcast_arrays(*args: Any, subok: Any = False) -> Any:
    shape = np.broadcast_shapes(*(np.shape(x) for x in args))
    return tuple(np.broadcast_to(x, shape) for x in args)


for _most, _names in {
    1: "ravel copy",
    2: "transpose reshape squeeze expand_dims broadcast_to cumsum",
    3: "swapaxes",
    4: "diagonal",
}.items():
    for _name in _names.split():
        method(_name, getattr(Tensor, _name), _most)
for _name, _most in {"concatenate": 1, "stack": 2, "triu": 2, "tril": 2, "flip": 2, "moveaxis": 3}.items():
    method(_name, getattr(_core, _name), _most)


any_dtype("expand_dims")(lambda a, axis: a.expand_dims(axis))
any_dtype("squeeze")(lambda a, axis=None: a.squeeze(axis))
any_dtype("broadcast_to")(lambda array, shape, subok=False: array.broadcast_to(shape))
_for("repeat")(lambda a, repeats, axis=None: a.repeat(repeats, axis=axis))


@_for("take_along_axis")
def _take_along_axis(arr: Any, indices: Any, axis: Any = -1) -> Any:
    if axis is None:
        arr, axis = arr.reshape(-1), 0
    return _core.take_along_axis(arr, indices, axis)


any_dtype("copy")(lambda a, order="K", subok=False: a.copy())


@_for("sort")
def _sort(a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Any:
    _only(order=order)
    return sorting.sort(a, axis)


@_for("pad")
def _pad(array: Any, pad_width: Any, mode: Any = "constant", **options: Any) -> Any:
    value = options.get("constant_values", 0)
    if any(t.requires_grad for t in tensors_in(value)):
        raise UnsupportedError("a constant that records is not known here")
    if mode == "constant" and np.ndim(value) == 0 and not isinstance(pad_width, dict):
        before, behind = np.broadcast_to(pad_width, (array.ndim, 2)).T.tolist()
        return _core.pad(array, before, behind, plain(value))
    positions = np.arange(array.size).reshape(array.shape)
    if mode == "constant":
        inside = gathered(array, np.pad(positions, pad_width))
        around = np.pad(np.zeros(array.shape, array.dtype), pad_width, constant_values=plain(value))
        return _core.where(np.pad(positions, pad_width, constant_values=-1) < 0, around, inside)
    if mode not in ("edge", "reflect", "symmetric", "wrap") or options.get("reflect_type", "even") != "even":
        raise UnsupportedError(f"the mode {mode!r} is not known here")
    return gathered(array, np.pad(positions, pad_width, mode))


# --- joining


@_for("concatenate", "concat")
def _concatenate(
    arrays: Any, /, axis: Any = 0, out: Any = None, *, dtype: Any = None, casting: Any = None
) -> Any:
    _only(out=out, casting=casting)
    parts = list(arrays)
    if axis is None:
        parts, axis = [np.ravel(part) for part in parts], 0
    joined = _core.concatenate(parts, axis)
    return joined if dtype is None else joined.astype(dtype)


@_for("stack")
def _stack(arrays: Any, axis: Any = 0, out: Any = None, *, dtype: Any = None, casting: Any = None) -> Any:
    _only(out=out, casting=casting)
    joined = _core.stack(list(arrays), axis)
    return joined if dtype is None else joined.astype(dtype)


def _joining(shaped: Callable[[Any], Any], least: int, axis: int) -> Callable[..., Any]:
    """Join arrays of at least so many axes along one, or the last one before it that the first has."""

    def implementation(tup: Any, *, dtype: Any = None, casting: Any = None) -> Any:
        plainly = type(tup) is list and dtype is casting is None
        if plainly and isinstance(first := tup[0], Tensor) and (ndim := first.ndim) >= least:
            try:
                return _core.concatenate(tup, axis if axis < ndim else ndim - 1)
            except ValueError:
                pass  # some have too few axes, or sizes that do not fit, which is said below
        parts = [part if isinstance(part, Tensor) and part.ndim >= least else shaped(part) for part in tup]
        place = min(parts[0].ndim - 1, axis) if parts else 0
        if dtype is None and casting is None:
            return _core.concatenate(parts, place)
        return _concatenate(parts, place, dtype=dtype, casting=casting)

    return implementation


_register(_joining(np.atleast_2d, 2, 0), "vstack", "row_stack")
_register(_joining(np.atleast_1d, 1, 1), "hstack")
_register(_joining(np.atleast_3d, 3, 2), "dstack")
_register(_joining(lambda x: x if np.ndim(x) > 1 else np.reshape(x, (-1, 1)), 2, 1), "column_stack")


_for("append")(lambda arr, values, axis=None: _concatenate([arr, values], axis))

# --- choosing


@_for("where")
def _where(condition: Any, x: Any = None, y: Any = None, /) -> Any:
    if x is None and y is None:
        return np.nonzero(plain(condition))
    return _core.where(condition, x, y)


_NUMBERS = (int, float)


@_for("clip")
def _clip(
    a: Any,
    a_min: Any = None,
    a_max: Any = None,
    out: Any = None,
    *,
    min: Any = None,
    max: Any = None,
    **options: Any,
) -> Any:
    plainly = type(a_min) in _NUMBERS and type(a_max) in _NUMBERS and not options
    if plainly and out is min is max is None and a_min <= a_max:
        return _core.clip(a, a_min, a_max)
    _only(out=out, **options)
    low, high = (x if x is not np._NoValue else None for x in (a_min, a_max))
    low, high = (
        low if min is None or min is np._NoValue else min,
        high if max is None or max is np._NoValue else max,
    )
    x = tensor(a)
    if low is None and high is None:
        return x.copy()
    if all(type(bound) in (int, float, NoneType) for bound in (low, high)) and (
        low is None or high is None or low <= high
    ):
        return _core.clip(x, low, high)
    if low is not None:
        x = _core.where(plain(x < low) | np.isnan(plain(low)), low, x)
    if high is not None:
        x = _core.where(plain(x > high) | np.isnan(plain(high)), high, x)
    return x


@_for("nan_to_num")
def _nan_to_num(x: Any, copy: Any = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> Any:
    least, most = float(np.finfo(x.dtype).min), float(np.finfo(x.dtype).max)
    y = _core.clip(x, least, most)
    if posinf is not None:
        y = _core.where(x > most, posinf, y)
    if neginf is not None:
        y = _core.where(x < least, neginf, y)
    return _core.where(x == x, y, nan)


_for("triu")(lambda m, k=0: _core.triu(m, k))
_for("tril")(lambda m, k=0: _core.tril(m, k))


@_for("trace")
def _trace(
    a: Any, offset: Any = 0, axis1: Any = 0, axis2: Any = 1, dtype: Any = None, out: Any = None
) -> Any:
    _only(dtype=dtype, out=out)
    return np.diagonal(a, offset, axis1, axis2).sum(-1)


_for("linalg.trace")(lambda x, /, *, offset=0, dtype=None: _trace(x, offset, -2, -1, dtype))


@_for("diff")
def _diff(a: Any, n: Any = 1, axis: Any = -1, prepend: Any = None, append: Any = None) -> Any:
    _only(prepend=prepend, append=append)
    ndim = a.ndim
    later, earlier = along(axis, ndim, slice(1, None)), along(axis, ndim, slice(None, -1))
    for _ in range(n):
        a = a[later] - a[earlier]
    return a


_for("astype")(lambda x, dtype, /, *, copy=True, device=None: x.astype(dtype))
any_dtype("shape")(lambda a: a.shape)
any_dtype("ndim")(lambda a: a.ndim)


@any_dtype("size")
def _size(a: Any, axis: Any = None) -> Any:
    if isinstance(axis, tuple):
        raise UnsupportedError("several axes are not known here")
    return a.size if axis is None else a.shape[axis]


_for("real")(lambda val: val)
# --- sums of products

_register(products.dot, "dot")
_register(products.vdot, "vdot")
_register(products.inner, "inner")
_register(products.outer, "outer", "linalg.outer")
_register(products.tensordot, "tensordot", "linalg.tensordot")
_register(products.einsum, "einsum")
_register(lambda x1, x2, /: x1 @ x2, "linalg.matmul")

# --- made like a Tensor, without its numbers


def _like(function: Callable[..., Any]) -> Callable[..., Any]:
    def implementation(*args: Any, **kwargs: Any) -> Any:
        first, *rest = args
        if any(isinstance(x, Tensor) and x.requires_grad for x in [*rest, *kwargs.values()]):
            raise UnsupportedError("a value that records is not known here")
        made = function(first.numpy(), *map(plain, rest), **{name: plain(x) for name, x in kwargs.items()})
        return _core.tensor(made) if made.dtype.name in ("float32", "float64", "int64", "bool") else made

    return implementation


for _name in ("empty_like", "full_like", "ones_like", "zeros_like"):
    _register(_like(getattr(np, _name)), _name)
