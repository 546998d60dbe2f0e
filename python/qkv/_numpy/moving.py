"""NumPy's functions that only move numbers: views where NumPy's are, copies where it copies."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import _core
from .._core import Tensor
from ..functions.cutting import axis_of, cut, pieces
from . import UnsupportedError, plain
from .table import any_dtype, only
from .table import register as _register
from .table import registered as _for

_ALL = slice(None)


def along(axis: int, ndim: int, part: Any) -> tuple[Any, ...]:
    """Return the index that takes `part` of one axis."""
    return (_ALL,) * axis_of(axis, ndim) + (part,)


@any_dtype("reshape")
def _reshape(
    a: Any, /, shape: Any = None, order: Any = "C", *, newshape: Any = None, copy: Any = None
) -> Any:
    shape = newshape if shape is None else shape
    if order == "F":
        sizes = [*shape] if isinstance(shape, (tuple, list)) else [shape]
        shaped = a.transpose().reshape(sizes[::-1]).transpose()
    else:
        shaped = a.reshape(shape)
    return shaped.copy() if copy else shaped


any_dtype("ravel")(lambda a, order="C": a.transpose().reshape(-1) if order == "F" else a.ravel())
any_dtype("transpose", "permute_dims")(lambda a, axes=None: a.transpose(axes))
any_dtype("matrix_transpose", "linalg.matrix_transpose")(lambda x, /: x.swapaxes(-1, -2))
any_dtype("swapaxes")(lambda a, axis1, axis2: a.swapaxes(axis1, axis2))


any_dtype("moveaxis")(lambda a, source, destination: _core.moveaxis(a, source, destination))


@any_dtype("rollaxis")
def _rollaxis(a: Any, axis: Any, start: Any = 0) -> Any:
    ndim = a.ndim
    first = axis_of(axis, ndim)
    place = start + ndim if start < 0 else start
    if not 0 <= place <= ndim:
        raise ValueError(
            f"start must be from {-ndim} to {ndim} because the array has {ndim} axes; got {start}"
        )
    return _core.moveaxis(a, first, place - (first < place))


any_dtype("flip")(lambda m, axis=None: _core.flip(m, axis))
any_dtype("fliplr")(lambda m: _core.flip(m, 1))
any_dtype("flipud")(lambda m: _core.flip(m, 0))


@any_dtype("rot90")
def _rot90(m: Any, k: Any = 1, axes: Any = (0, 1)) -> Any:
    first, second = (axis_of(axis, m.ndim) for axis in axes)
    turned = m if k % 4 in (0, 2) else m.swapaxes(first, second)
    backwards = {0: (), 1: (first,), 2: (first, second), 3: (second,)}[k % 4]
    return _core.flip(turned, backwards) if backwards else turned[...]


any_dtype("diagonal")(lambda a, offset=0, axis1=0, axis2=1: a.diagonal(offset, axis1, axis2))
any_dtype("linalg.diagonal")(lambda x, /, *, offset=0: x.diagonal(offset, -2, -1))


def _at_least(ndim: int, place: Callable[[int], tuple[int, ...]]) -> Callable[..., Any]:
    function = getattr(np, f"atleast_{ndim}d")

    def one(x: Any) -> Any:
        if not isinstance(x, Tensor):
            return function(x)
        for axis in place(x.ndim):
            x = x.expand_dims(axis)
        return x

    def implementation(*arys: Any) -> Any:
        return one(arys[0]) if len(arys) == 1 else tuple(map(one, arys))

    return implementation


_PLACES: dict[int, Callable[[int], tuple[int, ...]]] = {
    1: lambda ndim: (0,) * (ndim < 1),
    2: lambda ndim: (0,) * (2 - ndim),
    3: lambda ndim: ((0, 1, 2), (0, 2), (2,))[ndim] if ndim < 3 else (),
}
for _ndim, _place in _PLACES.items():
    any_dtype(f"atleast_{_ndim}d")(_at_least(_ndim, _place))


# --- pieces


@any_dtype("split")
def _split(ary: Any, indices_or_sections: Any, axis: Any = 0) -> Any:
    return cut("split", ary, indices_or_sections, axis, True)


@any_dtype("array_split")
def _array_split(ary: Any, indices_or_sections: Any, axis: Any = 0) -> Any:
    return cut("array_split", ary, indices_or_sections, axis, False)


def _split_along(name: str, least: int, axis: Callable[[int], int]) -> None:
    def implementation(ary: Any, indices_or_sections: Any) -> Any:
        if ary.ndim < least:
            raise ValueError(f"{name} only works on arrays of {least} or more dimensions")
        return cut(name, ary, indices_or_sections, axis(ary.ndim), True)

    any_dtype(name)(implementation)


_split_along("hsplit", 1, lambda ndim: 1 if ndim > 1 else 0)
_split_along("vsplit", 2, lambda ndim: 0)
_split_along("dsplit", 3, lambda ndim: 2)


@any_dtype("unstack")
def _unstack(x: Any, /, *, axis: Any = 0) -> Any:
    before = (_ALL,) * axis_of(axis, x.ndim)
    parts = [(*before, i) for i in range(x.shape[axis])]
    return tuple(x[part] for part in parts)


# --- copies


@_for("take")
def _take(a: Any, indices: Any, axis: Any = None, out: Any = None, mode: Any = "raise") -> Any:
    only(out=out)
    if mode != "raise":
        raise UnsupportedError("mode is not known here")
    places = np.asarray(plain(indices))
    if places.dtype.kind not in "iu":
        places = places.astype(np.intp, casting="same_kind")
    if axis is None:
        a, axis = a.reshape(-1), 0
    return a[along(axis, a.ndim, places)]


@_for("roll")
def _roll(a: Any, shift: Any, axis: Any = None) -> Any:
    if axis is None:
        return _roll(a.reshape(-1), shift, 0).reshape(a.shape).copy()  # a view of nothing that is hidden
    if type(shift) is int and type(axis) is int:
        turns = [(shift, axis)]
    else:
        shifts, axes = np.broadcast_arrays(shift, axis)
        turns = list(zip(shifts.reshape(-1).tolist(), axes.reshape(-1).tolist(), strict=True))
    joined = a
    for count, where in turns:
        where = axis_of(where, a.ndim)
        place = -count % a.shape[where] if a.shape[where] else 0
        if place:
            joined = _core.concatenate(pieces(joined, [place], where)[::-1], where)
    return joined.copy() if joined is a else joined


@_for("tile")
def _tile(A: Any, reps: Any) -> Any:
    counts = tuple(reps) if isinstance(reps, (tuple, list, np.ndarray)) else (reps,)
    counts = (1,) * (A.ndim - len(counts)) + counts
    sizes = (1,) * (len(counts) - A.ndim) + A.shape
    pairs = list(zip(counts, sizes, strict=True))
    spread = A.reshape([n for _, size in pairs for n in (1, size)])
    repeated = spread.broadcast_to([n for pair in pairs for n in pair])
    repeated = repeated.reshape([count * size for count, size in pairs])
    return repeated.copy() if _core.address(repeated) == _core.address(A) else repeated


@_for("delete")
def _delete(arr: Any, obj: Any, axis: Any = None) -> Any:
    if axis is None:
        arr, axis = arr.reshape(-1), 0
    axis = axis_of(axis, arr.ndim)
    return arr[along(axis, arr.ndim, np.delete(np.arange(arr.shape[axis]), plain(obj)))]


# --- the others: NumPy moves the positions 0, 1, 2, ..., and the numbers follow


def gathered(a: Tensor, positions: np.ndarray) -> Tensor:
    """Return a copy of the numbers at these positions of the flat Tensor."""
    taken: Tensor = a.reshape(-1)[positions]
    return taken


def _moving(function: Callable[..., Any]) -> Callable[..., Any]:
    def implementation(*args: Any, **kwargs: Any) -> Any:
        moved = [x for x in [*args, *kwargs.values()] if isinstance(x, Tensor) and x.dtype.kind == "f"]
        if len(moved) != 1:
            raise UnsupportedError("one Tensor at a time is known here")
        (a,) = moved
        positions = np.arange(math.prod(a.shape)).reshape(a.shape)

        def swap(x: Any) -> Any:
            return positions if x is a else plain(x)

        return gathered(a, function(*map(swap, args), **{name: swap(x) for name, x in kwargs.items()}))

    return implementation


for _name in ("resize", "compress", "extract"):
    _register(_moving(getattr(np, _name)), _name)
