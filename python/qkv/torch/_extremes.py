"""The largest and smallest numbers, and orders: max, sort, topk.

amax: The largest numbers; equal ones share the gradient.
amin: The smallest numbers; equal ones share the gradient.
argmax: Number of the largest entry; the first of equal ones.
argmin: Number of the smallest entry; the first of equal ones.
sort: Values in order along an axis, and the places they come from; equal ones keep their order.
argsort: The places from which the values in order come.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _core
from .._words.errors import shown
from ._axes import along, axis_of
from ._elementwise import as_numbers, as_tensor
from ._tensor import FUNCTIONS, Core, Tensor, define, named, wrap, wrap_array


def _result_type(name: str, *fields: str) -> type[tuple[Any, ...]]:
    """A named tuple that prints as ``torch.return_types.max`` does."""

    def text(self) -> str:
        lines = ",\n".join(f"{field}={value!r}" for field, value in zip(fields, self, strict=True))
        return f"torch.return_types.{name}(\n{lines})"

    members: dict[str, Any] = {"__slots__": (), "__repr__": text, "__module__": "qkv.torch"}
    members |= {field: property(lambda self, _i=i: self[_i]) for i, field in enumerate(fields)}
    return type(name, (tuple,), members)


_TYPES = {name: _result_type(name, "values", "indices") for name in ("max", "min", "sort", "topk")}


def _refuse_keepdim(name: str, keepdim) -> None:
    if keepdim:
        raise TypeError(f"{name}: dim must be given with keepdim; got {shown(keepdim)} alone")


def _extreme(name: str, what: str, largest: bool, label: str) -> None:
    def extreme(input, dim=None, keepdim: bool = False, *, other=None):
        if isinstance(dim, Core) or other is not None:
            return FUNCTIONS[f"{name}imum"](input, other if other is not None else dim)
        if dim is None:
            _refuse_keepdim(name, keepdim)
            return wrap(getattr(Core, name)(input), label.replace("0", "1"), input._kind)

        axis = axis_of(dim, input.dim(), name)
        values, places = along(_core.extreme, input, axis, keepdim, largest)
        return _TYPES[name]((wrap(values, label, input._kind), wrap(places)))

    extreme.__doc__ = f"The {what} number of all; with ``dim`` values and their numbers."
    named(name)(extreme)


_extreme("max", "largest", True, "MaxBackward0")
_extreme("min", "smallest", False, "MinBackward0")


# Orders.


@named("topk")
def topk(input, k: int, dim: int = -1, largest: bool = True, sorted: bool = True):
    """The k largest values along an axis, and their places."""
    axis = axis_of(dim, len(input.shape), "topk")
    values, places = along(lambda t, axis: _core.topk(t, k, axis, largest), input, axis)
    return _TYPES["topk"]((wrap(values, "TopkBackward0", input._kind), wrap(places)))


@named("nonzero")
def nonzero(input, *, as_tuple: bool = False):
    """Places of the entries that are not 0: a row for each, or with ``as_tuple`` an index."""
    places = np.nonzero(np.atleast_1d(as_numbers(input)))
    return tuple(map(wrap_array, places)) if as_tuple else wrap_array(np.stack(places, 1)[:, : input.dim()])


@named("unique")
def unique(input, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False, dim=None):
    """The values that occur, in order; with ``dim`` the entries of that axis."""
    axis = None if dim is None else axis_of(dim, len(input.shape), "unique")
    values, inverse, counts = np.unique(as_numbers(input), return_inverse=True, return_counts=True, axis=axis)
    once = _core.without_derivative("unique", wrap_array(values, input.dtype), [input])
    found = [wrap(once, "Unique2Backward0", input.dtype)]
    if return_inverse:
        found.append(wrap_array(inverse.reshape(input.shape if axis is None else -1)))
    if return_counts:
        found.append(wrap_array(counts))
    return tuple(found) if len(found) > 1 else found[0]


@named("bincount")
def bincount(input, weights=None, minlength: int = 0) -> Tensor:
    """How often each whole number occurs."""
    factors = None if weights is None else as_numbers(weights)
    # A copy: NumPy reads the numbers twice, to find the largest and to count, while other threads may write to them.
    counts = np.bincount(as_numbers(as_tensor(input)).copy(), factors, minlength)
    return wrap_array(counts if factors is None else counts.astype(factors.dtype))


def _ordered(name: str, t, dim, descending) -> Any:
    x = t if name == "sort" else Core.detach(t)
    values, places = along(
        lambda t, axis: _core.sort(t, axis, descending), x, axis_of(dim, len(t.shape), name)
    )
    return (
        wrap(places)
        if name == "argsort"
        else _TYPES["sort"]((wrap(values, "SortBackward0", t._kind), wrap(places)))
    )


_TABLE = {
    "sort": lambda input, dim=-1, descending=False, stable=False: _ordered("sort", input, dim, descending),
    "argsort": lambda input, dim=-1, descending=False, stable=False: _ordered(
        "argsort", input, dim, descending
    ),
}
define(_TABLE)
