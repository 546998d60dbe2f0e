"""The largest and smallest numbers, and orders: max, sort, topk."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _core
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


def _argument(name: str, find: Any) -> None:
    def argument(input: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
        which = None if dim is None else axis_of(dim, len(_core_shape(input)), name)
        return wrap(find(input, which if _core_shape(input) else None, bool(keepdim)))

    argument.__doc__ = (
        f"Number of the {'largest' if name == 'argmax' else 'smallest'} entry; the first of equal ones."
    )
    both(name)(argument)


_argument("argmax", Core.argmax)
_argument("argmin", Core.argmin)


def _single(name: str, t: Tensor) -> Any:
    """A Tensor without axes, and that its number is the first one."""
    return _TYPES[name]((clone(t), wrap_array(np.int64(0))))


def _extreme(name: str, largest: bool) -> None:
    title, reduce = name.capitalize(), Core.max if largest else Core.min
    result, op = _TYPES[name], f"{title}Backward0"

    def extreme(input: Tensor, dim: Any = None, keepdim: bool = False, *, other: Any = None) -> Any:
        if isinstance(dim, Core) or other is not None:
            return getattr(Tensor, f"{name}imum")(input, other if other is not None else dim)
        if dim is None:
            return wrap(reduce(input), f"{title}Backward1", input._kind)
        which = axis_of(dim, len(_core_shape(input)), name)
        if not _core_shape(input):
            return _single(name, input)
        values, places = _core.extreme(input, which, bool(keepdim), largest)
        return result((wrap(values, op, input._kind), wrap(places)))

    extreme.__doc__ = (
        f"The {'largest' if largest else 'smallest'} number of all; with ``dim`` values and their numbers."
    )
    both(name)(extreme)

    def alone(input: Tensor, dim: Any = (), keepdim: bool = False) -> Tensor:
        axes = axes_of(dim, len(input.shape), f"a{name}")
        return wrap(reduce(input, axes, keepdim), f"A{name}Backward0", input._kind)

    alone.__doc__ = f"The {'largest' if largest else 'smallest'} numbers; equal ones share the gradient."
    both(f"a{name}")(alone)


_extreme("max", True)
_extreme("min", False)


# Orders.


@both("sort")
def sort(input: Tensor, dim: int = -1, descending: bool = False, stable: bool = False) -> Any:
    """Values in order along an axis, and the places they come from; equal ones keep their order."""
    axis = axis_of(dim, len(_core_shape(input)), "sort")
    if not _core_shape(input):
        return _single("sort", input)
    values, places = _core.sort(input, axis, bool(descending))
    return _TYPES["sort"]((wrap(values, "SortBackward0", input._kind), wrap(places)))


@both("argsort")
def argsort(input: Tensor, dim: int = -1, descending: bool = False, stable: bool = False) -> Tensor:
    """The places from which the values in order come."""
    return sort(input.detach(), dim, descending)[1]  # type: ignore[no-any-return]


@both("topk")
def topk(input: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    """The k largest values along an axis, and their places."""
    axis = axis_of(dim, len(input.shape), "topk")
    size = input.shape[axis] if input.shape else 1
    if not 0 <= k <= size:
        raise RuntimeError(f"topk: k must be from 0 to {size}, the size of the axis; got {k}")
    if not input.shape:
        return _TYPES["topk"]((clone(input)[None][:k], wrap_array(np.zeros(k, np.int64))))
    values, places = _core.topk(input, k, axis, largest)
    return _TYPES["topk"]((wrap(values, "TopkBackward0", input._kind), wrap(places)))


@both("median")
def median(input: Tensor, dim: Any = None, keepdim: bool = False) -> Any:
    """The middle value, the lower one of two, NaN if there is one; with ``dim`` also its place."""
    if dim is None:
        if not input.numel():
            return FUNCTIONS["full"](
                (), float("nan") if input.dtype.kind == 2 else -(2**63), dtype=input.dtype
            )
        value: Any = _core.median(Core.reshape(input, -1), 0)[0]
        return wrap(Core.reshape(value, ()), "MedianBackward0", input._kind)
    axis = axis_of(dim, len(input.shape), "median")
    if not input.shape:
        return _single("median", input)
    if not input.shape[axis]:
        raise IndexError(f"median: axis {axis} must have at least one entry; got shape {tuple(input.shape)}")
    found: Any = _core.median(input, axis)
    values, places = found if keepdim else (Core.squeeze(part, axis) for part in found)
    return _TYPES["median"]((wrap(values, "MedianBackward1", input._kind), wrap(places)))


@both("nonzero")
def nonzero(t: Tensor, *, as_tuple: bool = False) -> Any:
    """Places of the entries that are not 0: a row for each, or with ``as_tuple`` an index."""
    if not t.shape:
        found = int(as_numbers(t) != 0)
        return (
            nonzero(t.reshape(1), as_tuple=True) if as_tuple else wrap_array(np.zeros((found, 0), np.int64))
        )
    places = np.nonzero(as_numbers(t))
    return tuple(map(wrap_array, places)) if as_tuple else wrap_array(np.stack(places, 1))


@both("argwhere")
def argwhere(t: Tensor) -> Tensor:
    """Places of the entries that are not 0, a row for each."""
    return nonzero(t)  # type: ignore[no-any-return]


@function("unique")
def unique(
    input: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False
) -> Any:
    """The values that occur, in order."""
    found = np.unique(as_numbers(input), return_inverse=True, return_counts=True)
    values = wrap_array(found[0], input.dtype)
    rest = [wrap_array(found[1].reshape(input.shape))] * return_inverse + [
        wrap_array(found[2])
    ] * return_counts
    return (values, *rest) if rest else values


@function("isin")
def isin(elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False) -> Tensor:
    """Whether numbers are among others."""
    return wrap_array(np.isin(as_numbers(elements), as_numbers(test_elements), assume_unique, invert))


Tensor.unique = unique  # type: ignore[attr-defined]


@both("bincount")
def bincount(input: Tensor, weights: Any = None, minlength: int = 0) -> Tensor:
    """How often each whole number occurs."""
    return wrap_array(
        np.bincount(as_numbers(input), None if weights is None else as_numbers(weights), minlength)
    )
