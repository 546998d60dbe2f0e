"""The places of numbers: views of every kind, repeating.

reshape: The same numbers under another shape; a view where strides allow it, else a copy.
flatten: Axes ``start_dim`` to ``end_dim`` as one.
permute: Axes in another order.
t: A matrix transposed; Tensors with fewer axes as they are.
squeeze: Without the axes of size 1, or without one if its size is 1.
stride: Steps in memory from one number to the next along each axis.
is_contiguous: Whether the numbers are one after the other in memory.
contiguous: Itself, or a copy in memory of its own.
view_as: The same numbers in the shape of another.
transpose, swapaxes: Two axes exchanged.
unsqueeze: A new axis of size 1.
ravel: All numbers on one axis.
expand_as: Expanded to the shape of another.
broadcast_to: Expanded to a shape.
flip: Axes in reversed order.
stack: Join Tensors of equal shape along a new axis.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from .. import _core
from .._words.errors import shown
from ._axes import along, axis_of
from ._dtypes import dtype
from ._elementwise import as_numbers
from ._tensor import FUNCTIONS, Core, Tensor, _core_shape, as_core, define, named, wrap


def sizes(given: tuple[Any, ...]) -> tuple[int, ...]:
    """Sizes from ``f(2, 3)``, ``f((2, 3))`` or ``f(torch.Size([2, 3]))``; Tensors of one number count as it."""
    if len(given) == 1 and isinstance(given[0], (tuple, list)):
        given = tuple(given[0])
    return tuple(map(operator.index, given))


def memory_order(t) -> list[int] | None:
    """Axes from the one with the longest steps in memory to that with the shortest; None: they are in that order."""
    if _core.is_packed(t):
        return None
    steps = _core.strides(t)
    order = sorted(range(len(steps)), key=lambda axis: -steps[axis])
    return None if 0 in steps or order == sorted(order) else order


def in_memory_order(t, make) -> np.ndarray:
    """Numbers in the shape of a Tensor, made in the order of its memory by a function of a shape."""
    shape, order = tuple(_core_shape(t)), memory_order(t)
    if order is None:
        return make(shape)  # type: ignore[no-any-return]
    made: np.ndarray = make(tuple(shape[axis] for axis in order))
    return made.transpose(np.argsort(order))


cat, stack = FUNCTIONS["cat"], FUNCTIONS["stack"]


# Views.


@named(".view")
def view(input, *size):
    """The same memory under another shape; a dtype is refused, as the core has no views of bytes."""
    if len(size) == 1 and isinstance(size[0], dtype):
        raise TypeError("view: shape must be sizes because qkv has no views of bytes; use to(dtype)")
    result = Core.reshape(input, sizes(size))
    if _core.address(result) != _core.address(input):
        raise RuntimeError(
            "view: shape must keep axes that do not follow each other in memory apart; got "
            f"{_core_shape(input)} with strides {_core.strides(input)}, to {_core_shape(result)}. "
            "Use .reshape(...) instead"
        )
    return result if result is input else wrap(result, "ViewBackward0", input._kind)


@named("reshape")
def reshape(input, *shape):
    """The same numbers under another shape; a view where strides allow it, else a copy."""
    result = Core.reshape(input, sizes(shape))
    if result is input:
        return input
    viewed = (
        not result.requires_grad or _core.is_packed(input) or _core.address(result) == _core.address(input)
    )
    return wrap(result, "ViewBackward0" if viewed else "UnsafeViewBackward0", input._kind)


@named("flatten")
def flatten(input, start_dim: int = 0, end_dim: int = -1):
    """Axes ``start_dim`` to ``end_dim`` as one."""
    shape = _core_shape(input)
    first, last = (axis_of(dim, len(shape), "flatten") for dim in (start_dim, end_dim))
    if first > last:
        raise RuntimeError(f"flatten: end_dim must not come before start_dim; got {start_dim} and {end_dim}")
    return (
        input
        if shape and first == last
        else reshape(input, (*shape[:first], math.prod(shape[first : last + 1]), *shape[last + 1 :]))
    )


@named("t: T")
def transposed(input):
    """A matrix transposed; Tensors with fewer axes as they are."""
    if len(_core_shape(input)) > 2:
        raise RuntimeError(f"t: the Tensor must have at most 2 axes; got shape {_core_shape(input)}")
    return Core.transpose(input) if len(_core_shape(input)) == 2 else input


@named("squeeze")
def squeeze(input, dim=None):
    """Without the axes of size 1, or without one if its size is 1."""
    shape = _core_shape(input)
    several = isinstance(dim, (tuple, list))
    gone = (
        range(len(shape))
        if dim is None
        else [axis_of(one, len(shape), "squeeze") for one in (dim if several else [dim])]
    )
    result = Core.reshape(
        input, tuple(size for axis, size in enumerate(shape) if size != 1 or axis not in gone)
    )
    return wrap(result, f"SqueezeBackward{0 if dim is None else 2 if several else 1}", input._kind)


@named("unflatten")
def unflatten(input, dim: int, sizes) -> Tensor:
    """One axis as several."""
    shape = _core_shape(input)
    axis = axis_of(dim, len(shape), "unflatten")
    known = math.prod(size for size in sizes if size != -1)
    parts = tuple(shape[axis] // known if size == -1 else size for size in sizes)
    return view(input, shape[:axis] + parts + shape[axis + 1 :])


def _matrix_transposed(t):
    if len(_core_shape(t)) < 2:
        raise RuntimeError(f"mT: the Tensor must have at least 2 axes; got shape {tuple(t.shape)}")
    return t.transpose(-2, -1)


Tensor.T = property(lambda t: wrap(Core.transpose(t), "PermuteBackward0", t._kind))
Tensor.mT = property(_matrix_transposed)


@named(".expand: Expand")
def expand(input, *size, implicit: bool = False):
    """Axes of size 1 repeated without memory; -1 keeps a size."""
    return _core.expanded(input, sizes(size))


@named(".unfold: Unfold")
def unfold(input, dimension: int, size: int, step: int):
    """All windows of that size along an axis, as a new last axis."""
    axis = axis_of(dimension, len(input.shape), "unfold")
    return _core.unfold(input if _core_shape(input) else Core.reshape(input, 1), axis, size, step)


# Repeating.


@named("repeat_interleave")
def repeat_interleave(input, repeats, dim: int | None = None, *, output_size=None) -> Tensor:
    """Each entry of an axis several times, next to each other."""
    if dim is None:
        input, dim = reshape(input, (-1,)), 0
    counts = as_numbers(repeats)
    legal = counts.dtype.kind in "iu" and counts.ndim < 2 and (counts >= 0).all()
    if not legal or counts.sum(dtype=float) > 2**40:
        raise RuntimeError(f"repeat_interleave: repeats must be whole numbers from 0; got {shown(repeats)}")
    label = "ViewBackward0" if isinstance(repeats, int) else "IndexSelectBackward0"
    result = wrap(np.repeat(as_core(input), counts, dim), label, input._kind)
    if output_size not in (None, result.shape[dim]):
        raise RuntimeError(f"repeat_interleave: output_size must be {result.shape[dim]}; got {output_size}")
    return result


@named(".repeat: Repeat")
def repeat(input, *repeats):
    """The whole Tensor several times along each axis."""
    if len(counts := sizes(repeats)) < len(input.shape):
        raise RuntimeError(f"repeat: repeats must have at least {len(input.shape)} numbers; got {counts}")
    return np.tile(as_core(input), counts)


def _order(t, dims: tuple[int, ...]) -> tuple[int, ...]:
    rank = len(_core_shape(t))
    if dims and not (-rank <= min(dims) and max(dims) < rank):
        for dim in dims:
            axis_of(dim, rank, "permute")  # which refuses the one out of range
    return dims


_TABLE = {
    "permute: Permute": lambda input, *dims: Core.transpose(input, _order(input, sizes(dims))),
    ".stride": lambda input, dim=None: _core.strides(input) if dim is None else _core.strides(input)[dim],
    ".is_contiguous": lambda input, memory_format=None: bool(_core.is_packed(input)),
    ".contiguous: Clone": lambda t, memory_format=None: t if _core.is_packed(t) else Core.copy(t),
    ".view_as": lambda input, other: reshape(input, other.shape),
    "transpose swapaxes: Transpose": lambda input, dim0, dim1: along(
        Core.swapaxes,
        input,
        dim0,
        dim1,
    ),
    "unsqueeze: Unsqueeze": lambda input, dim: np.expand_dims(as_core(input), operator.index(dim)),
    "ravel": lambda input: reshape(input, (-1,)),
    "broadcast_to": lambda input, size: expand(input, size),
    ".expand_as": lambda input, other: expand(input, other.shape),
    "flip: Flip": lambda input, *dims: along(lambda t: Core.copy(_core.flip(t, sizes(dims))), input),
}
define(_TABLE)
