"""Where numbers stand: views of every kind, joining, repeating.

reshape: The same numbers under another shape; a view where strides allow it, else a copy.
flatten: Axes ``start_dim`` to ``end_dim`` as one.
permute: Axes in another order.
t: A matrix transposed; Tensors with fewer axes as they are.
squeeze: Without the axes of size 1, or without one if its size is 1.
stride: Steps in memory from one number to the next along each axis.
is_contiguous: Whether the numbers stand one after the other in memory.
contiguous: Itself, or a copy in memory of its own.
view_as, reshape_as: The same numbers in the shape of another.
ravel: All numbers on one axis.
transpose, swapaxes, swapdims: Two axes exchanged.
movedim, moveaxis: Axes moved to other places, the others keep their order.
unsqueeze: A new axis of size 1.
expand_as: Expanded to the shape of another.
broadcast_to: Expanded to a shape.
flip: Axes in reversed order.
stack: Join Tensors of equal shape along a new axis.
vstack: Join along the first axis; rows count as matrices with one.
tile: The whole Tensor several times along each axis.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from .. import _core
from .._errors import shown
from ._dtypes import dtype
from ._elementwise import answered, as_numbers
from ._tensor import FUNCTIONS, Core, Tensor, _core_shape, as_core, define, named, wrap


def sizes(given: tuple[Any, ...]) -> tuple[int, ...]:
    """Sizes from ``f(2, 3)``, ``f((2, 3))`` or ``f(torch.Size([2, 3]))``; 0-d Tensors count as numbers."""
    if len(given) == 1 and isinstance(given[0], (tuple, list)):
        given = tuple(given[0])
    elif len(given) == 1 and isinstance(given[0], Tensor) and _core_shape(given[0]):
        given = tuple(given[0].tolist())
    return tuple(map(operator.index, given))


def axis_of(dim, rank: int, operation: str) -> int:
    """Count an axis from the front; of a Tensor that has none, 0 and -1 are legal."""
    axis, size = operator.index(dim), max(rank, 1)
    if not -size <= axis < size:
        raise IndexError(
            f"{operation}: dim must be from {-size} to {size - 1} because the Tensor has {rank} axes; got {axis}"
        )
    return axis % size


def along(core, t, *args):
    """What the core computes along axes; a Tensor without axes counts as one of size 1."""
    if _core_shape(t):
        return core(t, *args)
    found = core(Core.reshape(t, 1), *args)
    return (
        tuple(Core.reshape(one, ()) for one in found) if isinstance(found, tuple) else Core.reshape(found, ())
    )


# Views.


@named(".view")
def view(input, *size):
    """The same memory under another shape; a dtype is refused, as the core has no views of bytes."""
    if len(size) == 1 and isinstance(size[0], dtype):
        raise TypeError("view: shape must be sizes because qkv has no views of bytes; use to(dtype)")
    return answered("view", input, sizes(size))


reshape = named("reshape")(lambda input, *shape: answered("reshape", input, sizes(shape)))


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


Tensor.T = property(_core.direct("T", lambda t: answered("T", t)))
Tensor.mT = property(_matrix_transposed)


@named(".expand: Expand")
def expand(input, *size, implicit: bool = False):
    """Axes of size 1 repeated without memory; -1 keeps a size."""
    return _core.expanded(input, sizes(size))


@named("torch.broadcast_tensors")
def broadcast_tensors(*tensors) -> tuple[Tensor, ...]:
    """All expanded to the shape that they have together."""
    shape = np.broadcast_shapes(*(tuple(_core_shape(t)) for t in tensors))
    return tuple(expand(t, shape) for t in tensors)


@named(".unfold: Unfold")
def unfold(input, dimension: int, size: int, step: int):
    """All windows of that size along an axis, as a new last axis."""
    axis = axis_of(dimension, len(input.shape), "unfold")
    return _core.unfold(input if input.shape else Core.reshape(input, 1), axis, size, step)


# Joining and repeating.


@named("torch.cat torch.concat torch.concatenate")
def cat(tensors, dim: int = 0) -> Tensor:
    """Join Tensors along an axis that they have."""
    return answered("cat", tensors, operator.index(dim))


@named("torch.hstack")
def hstack(tensors) -> Tensor:
    """Join along the second axis, rows along their only one."""
    parts = [t if t.shape else reshape(t, 1) for t in tensors]
    return cat(parts, 0 if len(parts[0].shape) < 2 else 1)


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


@named(".repeat")
def repeat(input, *repeats):
    """As `tile`, with a number for each axis at least."""
    if len(counts := sizes(repeats)) < len(input.shape):
        raise RuntimeError(f"repeat: repeats must have at least {len(input.shape)} numbers; got {counts}")
    return input.tile(*counts)


_TABLE = {
    "flatten": lambda input, start_dim=0, end_dim=-1: answered(
        "flatten", input, operator.index(start_dim), operator.index(end_dim)
    ),
    "permute": lambda input, *dims: answered("permute", input, sizes(dims)),
    "t": lambda input: answered("t", input),
    "squeeze": lambda input, dim=None: answered("squeeze", input, dim),
    ".stride": lambda input, dim=None: _core.strides(input) if dim is None else _core.strides(input)[dim],
    ".is_contiguous": lambda input, memory_format=None: bool(_core.is_packed(input)),
    ".contiguous: Clone": lambda t, memory_format=None: t if _core.is_packed(t) else Core.copy(t),
    ".view_as .reshape_as": lambda input, other: reshape(input, other.shape),
    "ravel": lambda input: reshape(input, (-1,)),
    "transpose swapaxes swapdims: Transpose": lambda input, dim0, dim1: along(
        Core.swapaxes, input, dim0, dim1
    ),
    "movedim moveaxis: Permute": lambda input, source, destination: _core.moveaxis(
        input, source, destination
    ),
    "unsqueeze: Unsqueeze": lambda input, dim: np.expand_dims(as_core(input), operator.index(dim)),
    ".expand_as": lambda input, other: expand(input, other.shape),
    "broadcast_to": lambda input, size: expand(input, size),
    "flip: Flip": lambda input, *dims: along(lambda t: Core.copy(_core.flip(t, sizes(dims))), input),
    "torch.stack": lambda tensors, dim=0: answered("stack", tensors, operator.index(dim)),
    "torch.vstack": lambda tensors: cat([t if len(t.shape) > 1 else reshape(t, (1, -1)) for t in tensors], 0),
    "tile: Repeat": lambda input, *dims: np.tile(as_core(input), sizes(dims)),
}
define(_TABLE)
stack = FUNCTIONS["stack"]
