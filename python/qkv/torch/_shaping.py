"""Where numbers stand: views of every kind, joining, repeating."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from .. import _core
from .._errors import shown
from ._dtypes import dtype
from ._elementwise import as_numbers, cast, common_dtype
from ._tensor import Core, Tensor, _core_shape, as_core, both, function, method, wrap


def sizes(given: tuple[Any, ...]) -> tuple[int, ...]:
    """Sizes from ``f(2, 3)``, ``f((2, 3))`` or ``f(torch.Size([2, 3]))``; 0-d Tensors count as numbers."""
    if len(given) == 1 and isinstance(given[0], (tuple, list)):
        given = tuple(given[0])
    elif len(given) == 1 and isinstance(given[0], Tensor) and _core_shape(given[0]):
        given = tuple(given[0].tolist())
    return tuple(map(operator.index, given))


def axis_of(dim: Any, rank: int, operation: str) -> int:
    """Count an axis from the front; of a Tensor that has none, 0 and -1 are legal."""
    axis = operator.index(dim)
    size = max(rank, 1)
    if not -size <= axis < size:
        raise IndexError(
            f"{operation}: dim must be from {-size} to {size - 1} because the Tensor has {rank} axes; got {axis}"
        )
    return axis + rank if axis < 0 else axis


@method("stride")
def stride(input: Tensor, dim: int | None = None) -> Any:
    """Steps in memory from one number to the next along each axis."""
    strides: tuple[int, ...] = _core.strides(input)
    return strides if dim is None else strides[dim]


@method("is_contiguous")
def is_contiguous(input: Tensor, memory_format: Any = None) -> bool:
    """Whether the numbers stand one after the other in memory."""
    return bool(_core.is_packed(input))


@method("contiguous")
def contiguous(input: Tensor, memory_format: Any = None) -> Tensor:
    """Itself, or a copy in memory of its own."""
    return input if _core.is_packed(input) else wrap(Core.copy(input), "CloneBackward0", input._kind)


# Views.


@method("view", label="ViewBackward0")
def view(input: Tensor, *size: Any) -> Any:
    """The same memory under another shape; a dtype is refused, as the core has no views of bytes."""
    if len(size) == 1 and isinstance(size[0], dtype):
        raise TypeError("view: shape must be sizes because qkv has no views of bytes; use to(dtype)")
    result = Core.reshape(input, sizes(size))
    if _core.address(result) != _core.address(input):
        raise RuntimeError(
            f"view: shape must keep axes that do not follow each other in memory apart; got {tuple(input.shape)} with "
            f"strides {_core.strides(input)} to {_core_shape(result)}. Use .reshape(...) instead"
        )
    return result


@both("reshape")
def reshape(input: Tensor, *shape: Any) -> Tensor:
    """The same numbers under another shape; a view where strides allow it, else a copy."""
    result = Core.reshape(input, sizes(shape))
    copied = _core.address(result) != _core.address(input)
    return wrap(result, "UnsafeViewBackward0" if copied else "ViewBackward0", input._kind)


@method("view_as", "reshape_as")
def view_as(input: Tensor, other: Tensor) -> Tensor:
    """The same numbers in the shape of another."""
    return reshape(input, other.shape)


@both("flatten")
def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Axes ``start_dim`` to ``end_dim`` as one."""
    shape = _core_shape(input) or (1,)
    first, last = (axis_of(dim, len(shape), "flatten") for dim in (start_dim, end_dim))
    if first > last:
        raise RuntimeError(f"flatten: end_dim must not come before start_dim; got {start_dim} and {end_dim}")
    if first == last and input.shape:
        return input
    return reshape(input, (*shape[:first], math.prod(shape[first : last + 1]), *shape[last + 1 :]))


@both("ravel")
def ravel(input: Tensor) -> Tensor:
    """All numbers on one axis."""
    return reshape(input, (-1,))


@both("unflatten")
def unflatten(input: Tensor, dim: int, sizes: Any) -> Tensor:
    """One axis as several."""
    shape = _core_shape(input)
    axis = axis_of(dim, len(shape), "unflatten")
    known = math.prod(size for size in sizes if size != -1)
    parts = tuple(shape[axis] // known if size == -1 else size for size in sizes)
    return view(input, shape[:axis] + parts + shape[axis + 1 :])


@both("permute", label="PermuteBackward0")
def permute(input: Tensor, *dims: Any) -> Any:
    """Axes in another order."""
    return Core.transpose(input, tuple(axis_of(dim, len(input.shape), "permute") for dim in sizes(dims)))


@both("transpose", "swapaxes", "swapdims", label="TransposeBackward0")
def transpose(input: Tensor, dim0: int, dim1: int) -> Any:
    """Two axes exchanged."""
    a, b = (axis_of(dim, len(input.shape), "transpose") for dim in (dim0, dim1))
    return Core.swapaxes(input, a, b) if input.shape else input


@both("t", label="TBackward0")
def t_(input: Tensor) -> Any:
    """A matrix transposed; Tensors with fewer axes as they are."""
    if len(_core_shape(input)) > 2:
        raise RuntimeError(f"t: the Tensor must have at most 2 axes; got shape {tuple(input.shape)}")
    return Core.swapaxes(input, 0, 1) if len(input.shape) == 2 else input


def _matrix_transposed(t: Tensor) -> Any:
    if len(_core_shape(t)) < 2:
        raise RuntimeError(f"mT: the Tensor must have at least 2 axes; got shape {tuple(t.shape)}")
    return transpose(t, -2, -1)


Tensor.T = property(_core.direct("T", lambda t: permute(t, *reversed(range(len(t.shape))))))
Tensor.mT = property(_matrix_transposed)


@both("movedim", "moveaxis", label="PermuteBackward0")
def movedim(input: Tensor, source: Any, destination: Any) -> Any:
    """Axes moved to other places, the others keep their order."""
    return np.moveaxis(as_core(input), source, destination)


@both("unsqueeze", label="UnsqueezeBackward0")
def unsqueeze(input: Tensor, dim: int) -> Any:
    """A new axis of size 1."""
    return np.expand_dims(as_core(input), axis_of(dim, len(input.shape) + 1, "unsqueeze"))


@both("squeeze")
def squeeze(input: Tensor, dim: Any = None) -> Tensor:
    """Without the axes of size 1, or without one if its size is 1."""
    shape, several = _core_shape(input), isinstance(dim, (tuple, list))
    named = range(len(shape)) if dim is None else dim if several else (dim,)
    gone = {axis_of(one, len(shape), "squeeze") for one in named}
    kept = [size for axis, size in enumerate(shape) if axis not in gone or size != 1]
    label = f"SqueezeBackward{0 if dim is None else 2 if several else 1}"
    return wrap(Core.reshape(input, kept), label, input._kind)


@method("expand", label="ExpandBackward0")
def expand(input: Tensor, *size: Any, implicit: bool = False) -> Any:
    """Axes of size 1 repeated without memory; -1 keeps a size."""
    wanted, own = sizes(size), _core_shape(input)
    new = len(wanted) - len(own)
    kept = [own[i - new] if n == -1 and i >= new else n for i, n in enumerate(wanted)]
    return _core.expanded(input, tuple(kept))


@method("expand_as")
def expand_as(input: Tensor, other: Tensor) -> Tensor:
    """Expanded to the shape of another."""
    return expand(input, other.shape)


@both("broadcast_to")
def broadcast_to(input: Tensor, size: Any) -> Tensor:
    """Expanded to a shape."""
    return expand(input, size)


@function("broadcast_tensors")
def broadcast_tensors(*tensors: Tensor) -> tuple[Tensor, ...]:
    """All expanded to the shape that they have together."""
    shape = np.broadcast_shapes(*(tuple(_core_shape(t)) for t in tensors))
    return tuple(expand(t, shape) for t in tensors)


@method("unfold", label="UnfoldBackward0")
def unfold(input: Tensor, dimension: int, size: int, step: int) -> Any:
    """All windows of that size along an axis, as a new last axis."""
    axis = axis_of(dimension, len(input.shape), "unfold")
    return _core.unfold(input if input.shape else Core.reshape(input, 1), axis, size, step)


@both("flip", label="FlipBackward0")
def flip(input: Tensor, *dims: Any) -> Any:
    """Axes in reversed order."""
    axes = tuple(axis_of(dim, len(input.shape), "flip") for dim in sizes(dims)) if input.shape else ()
    return Core.copy(np.flip(as_core(input), axes))


# Joining and repeating.


def _joined(core: Any, name: str, tensors: Any, dim: Any) -> Any:
    """Join along an axis, in the dtype that all fit."""
    parts = list(tensors)
    if not all(isinstance(part, Core) for part in parts):
        raise TypeError(f"{name}: tensors must be Tensors; got {shown(parts)}")
    kind: Any = parts[0].dtype if parts else None
    for part in parts[1:]:
        kind = common_dtype(kind, part.dtype)
    parts = [cast(part, kind) for part in parts]
    return wrap(core(parts, dim), f"{name.capitalize()}Backward0", kind)


@function("cat", "concat", "concatenate")
def cat(tensors: Any, dim: int = 0) -> Tensor:
    """Join Tensors along an axis that they have."""
    parts = [t for t in tensors if not isinstance(t, Core) or _core_shape(t) != (0,)] or list(tensors)
    return _joined(_core.concatenate, "cat", parts, dim)  # type: ignore[no-any-return]


@function("stack")
def stack(tensors: Any, dim: int = 0) -> Tensor:
    """Join Tensors of equal shape along a new axis."""
    return _joined(_core.stack, "stack", tensors, dim)  # type: ignore[no-any-return]


@function("vstack")
def vstack(tensors: Any) -> Tensor:
    """Join along the first axis; rows count as matrices with one."""
    return cat([t if len(t.shape) > 1 else reshape(t, (1, -1)) for t in tensors], 0)


@function("hstack")
def hstack(tensors: Any) -> Tensor:
    """Join along the second axis, rows along their only one."""
    parts = [t if t.shape else reshape(t, 1) for t in tensors]
    return cat(parts, 0 if len(parts[0].shape) < 2 else 1)


@both("repeat_interleave")
def repeat_interleave(
    input: Tensor, repeats: Any, dim: int | None = None, *, output_size: Any = None
) -> Tensor:
    """Each entry of an axis several times, next to each other."""
    if dim is None:
        input, dim = reshape(input, (-1,)), 0
    axis, counts = axis_of(dim, len(input.shape), "repeat_interleave"), as_numbers(repeats)
    if (
        counts.dtype.kind not in "iu"
        or counts.ndim > 1
        or (counts < 0).any()
        or counts.sum(dtype=float) > 2**40
    ):
        raise RuntimeError(f"repeat_interleave: repeats must be whole numbers from 0; got {shown(repeats)}")
    label = "ViewBackward0" if isinstance(repeats, int) else "IndexSelectBackward0"
    result = wrap(np.repeat(as_core(input), counts, axis), label, input._kind)
    if output_size not in (None, result.shape[axis]):
        raise RuntimeError(f"repeat_interleave: output_size must be {result.shape[axis]}; got {output_size}")
    return result


@both("tile", label="RepeatBackward0")
def tile(input: Tensor, *dims: Any) -> Any:
    """The whole Tensor several times along each axis."""
    return np.tile(as_core(input), sizes(dims))


@method("repeat")
def repeat(input: Tensor, *repeats: Any) -> Any:
    """As `tile`, with a number for each axis at least."""
    if len(counts := sizes(repeats)) < len(input.shape):
        raise RuntimeError(f"repeat: repeats must have at least {len(input.shape)} numbers; got {counts}")
    return tile(input, *counts)
