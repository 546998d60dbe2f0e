"""The largest and smallest numbers, and orders: max, sort, topk."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _core
from .._errors import shown
from ._conversion import clone
from ._elementwise import as_numbers
from ._reductions import axes_of
from ._shaping import axis_of
from ._tensor import FUNCTIONS, Core, Tensor, _core_shape, both, function, wrap, wrap_array


def _result_type(name: str, *fields: str) -> type[tuple[Any, ...]]:
    """A named tuple that prints as ``torch.return_types.max`` does."""

    def text(self: Any) -> str:
        lines = ",\n".join(f"{field}={value!r}" for field, value in zip(fields, self, strict=True))
        return f"torch.return_types.{name}(\n{lines})"

    members: dict[str, Any] = {"__slots__": (), "__repr__": text, "__module__": "qkv.torch"}
    members |= {field: property(lambda self, _i=i: self[_i]) for i, field in enumerate(fields)}
    return type(name, (tuple,), members)


_TYPES = {
    name: _result_type(name, "values", "indices")
    for name in ("max", "min", "sort", "topk", "median", "mode", "cummax", "cummin", "kthvalue")
}

_core.direct_classes({name: _TYPES[name] for name in ("max", "min")})


def _argument(name: str, find: Any) -> None:
    def argument(input: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
        axes = axes_of(dim, len(_core_shape(input)), name)
        return wrap(find(input, axes and axes[0], bool(keepdim)))

    argument.__doc__ = (
        f"Number of the {'largest' if name == 'argmax' else 'smallest'} entry; the first of equal ones."
    )
    both(name)(argument)


_argument("argmax", Core.argmax)
_argument("argmin", Core.argmin)


def _pair(name: str, t: Tensor, found: Any, label: str = "Backward0") -> Any:
    """Values and the places they come from; of a Tensor without axes its number and 0."""
    if not _core_shape(t):
        return _TYPES[name]((clone(t), wrap_array(np.int64(0))))
    values, places = found()
    return _TYPES[name]((wrap(values, f"{name.capitalize()}{label}", t._kind), wrap(places)))


def _refuse_keepdim(name: str, keepdim: Any) -> None:
    if keepdim:
        raise TypeError(f"{name}: dim must be given with keepdim; got {shown(keepdim)} alone")


def _extreme(name: str, largest: bool) -> None:
    reduce, what = Core.max if largest else Core.min, "largest" if largest else "smallest"

    def extreme(input: Tensor, dim: Any = None, keepdim: bool = False, *, other: Any = None) -> Any:
        if isinstance(dim, Core) or other is not None:
            return getattr(input, f"{name}imum")(other if other is not None else dim)
        if dim is None:
            _refuse_keepdim(name, keepdim)
            return wrap(reduce(input), f"{name.capitalize()}Backward1", input._kind)
        which = axis_of(dim, len(_core_shape(input)), name)
        return _pair(name, input, lambda: _core.extreme(input, which, bool(keepdim), largest))

    extreme.__doc__ = f"The {what} number of all; with ``dim`` values and their numbers."
    both(name)(extreme)

    def alone(input: Tensor, dim: Any = (), keepdim: bool = False) -> Any:
        return reduce(input, axes_of(dim, len(input.shape), f"a{name}"), keepdim)

    alone.__doc__ = f"The {what} numbers; equal ones share the gradient."
    both(f"a{name}", label=f"A{name}Backward0")(alone)


_extreme("max", True)
_extreme("min", False)


# Orders.


@both("sort")
def sort(input: Tensor, dim: int = -1, descending: bool = False, stable: bool = False) -> Any:
    """Values in order along an axis, and the places they come from; equal ones keep their order."""
    axis = axis_of(dim, len(_core_shape(input)), "sort")
    return _pair("sort", input, lambda: _core.sort(input, axis, bool(descending)))


@both("argsort")
def argsort(input: Tensor, dim: int = -1, descending: bool = False, stable: bool = False) -> Tensor:
    """The places from which the values in order come."""
    return sort(input.detach(), dim, descending)[1]  # type: ignore[no-any-return]


@both("topk")
def topk(input: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    """The k largest values along an axis, and their places."""
    axis = axis_of(dim, len(input.shape), "topk")
    if input.shape:
        return _pair("topk", input, lambda: _core.topk(input, k, axis, largest))
    if k not in (0, 1):
        raise RuntimeError(f"topk: k must be from 0 to 1 because the Tensor is one number; got {k}")
    return _TYPES["topk"]((clone(input)[None][:k], wrap_array(np.zeros(k, np.int64))))


@both("median")
def median(input: Tensor, dim: Any = None, keepdim: bool = False) -> Any:
    """The middle value, the lower one of two, NaN if there is one; with ``dim`` also its place."""
    if dim is None:
        _refuse_keepdim("median", keepdim)
        if not input.numel():
            nothing = float("nan") if input.dtype.kind == 2 else -(2**63)
            return FUNCTIONS["full"]((), nothing, dtype=input.dtype)
        value: Any = _core.median(Core.reshape(input, -1), 0)[0]
        return wrap(Core.reshape(value, ()), "MedianBackward0", input._kind)
    axis = axis_of(dim, len(input.shape), "median")
    if input.shape and not input.shape[axis]:
        raise IndexError(f"median: axis {axis} must have at least one entry; got shape {tuple(input.shape)}")
    found: Any = _core.median(input, axis) if input.shape else None
    return _pair(
        "median", input, lambda: found if keepdim else [Core.squeeze(one, axis) for one in found], "Backward1"
    )


@both("nonzero")
def nonzero(input: Tensor, *, as_tuple: bool = False) -> Any:
    """Places of the entries that are not 0: a row for each, or with ``as_tuple`` an index."""
    if not input.shape:
        found = int(as_numbers(input) != 0)
        return (
            nonzero(input.reshape(1), as_tuple=True)
            if as_tuple
            else wrap_array(np.zeros((found, 0), np.int64))
        )
    places = np.nonzero(as_numbers(input))
    return tuple(map(wrap_array, places)) if as_tuple else wrap_array(np.stack(places, 1))


@both("argwhere")
def argwhere(input: Tensor) -> Tensor:
    """Places of the entries that are not 0, a row for each."""
    return nonzero(input)  # type: ignore[no-any-return]


@both("unique")
def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: Any = None,
) -> Any:
    """The values that occur, in order; with ``dim`` the entries of that axis."""
    axis = None if dim is None else axis_of(dim, len(input.shape), "unique")
    values, inverse, counts = np.unique(as_numbers(input), return_inverse=True, return_counts=True, axis=axis)
    found = [wrap_array(values, input.dtype)]
    if return_inverse:
        found.append(wrap_array(inverse.reshape(input.shape if axis is None else -1)))
    if return_counts:
        found.append(wrap_array(counts))
    return tuple(found) if len(found) > 1 else found[0]


@function("isin")
def isin(elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False) -> Tensor:
    """Whether numbers are among others."""
    return wrap_array(np.isin(as_numbers(elements), as_numbers(test_elements), assume_unique, invert))


@both("bincount")
def bincount(input: Tensor, weights: Any = None, minlength: int = 0) -> Tensor:
    """How often each whole number occurs."""
    if weights is None:
        return wrap_array(np.bincount(as_numbers(input), None, minlength))
    counts = np.bincount(as_numbers(input), as_numbers(weights), minlength)
    return wrap_array(counts.astype(as_numbers(weights).dtype))
