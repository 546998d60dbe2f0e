"""Where numbers stand: views of every kind, joining, repeating."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import _core
from .._errors import shown
from ._dtypes import dtype
from ._elementwise import as_numbers, cast, common_dtype
from ._tensor import Core, Tensor, _core_shape, _core_size, both, function, method, wrap
from ._tensor import view as showing


def sizes(given: tuple[Any, ...]) -> tuple[int, ...]:
    """Sizes from ``f(2, 3)``, ``f((2, 3))`` or ``f(torch.Size([2, 3]))``; 0-d Tensors count as numbers."""
    if len(given) == 1 and isinstance(given[0], (tuple, list)):
        given = tuple(given[0])
    elif len(given) == 1 and isinstance(given[0], Tensor) and _core_shape(given[0]):
        given = tuple(given[0].tolist())
    return tuple(one.__index__() for one in given)


def axis_of(dim: Any, rank: int, operation: str) -> int:
    """Count an axis from the front."""
    axis: int = dim.__index__()
    if not -max(rank, 1) <= axis < max(rank, 1):
        raise IndexError(
            f"{operation}: dim must be from {-max(rank, 1)} to {max(rank, 1) - 1} because the Tensor has {rank} axes; "
            f"got dim = {axis}"
        )
    return axis + rank if axis < 0 else axis


@method("stride")
def stride(t: Tensor, dim: int | None = None) -> Any:
    """Steps in memory from one number to the next along each axis."""
    strides: tuple[int, ...] = _core.strides(t)
    return strides if dim is None else strides[dim]


@method("is_contiguous")
def is_contiguous(t: Tensor, memory_format: Any = None) -> bool:
    """Whether the numbers stand one after the other in memory."""
    return bool(_core.is_packed(t))


@method("contiguous")
def contiguous(t: Tensor, memory_format: Any = None) -> Tensor:
    """Itself, or a copy in memory of its own."""
    return t if _core.is_packed(t) else wrap(Core.copy(t), "CloneBackward0", t._kind)


# Views.


def _reshaped(t: Tensor, shape: tuple[int, ...], op: str = "ViewBackward0") -> Tensor:
    return showing(Core.reshape(t, shape), op, t)


def _full_shape(t: Tensor, shape: tuple[int, ...], operation: str) -> tuple[int, ...]:
    known = 1
    for size in shape:
        known *= size if size != -1 else 1
    total = _core_size(t)
    if shape.count(-1) == 1 and known > 0 and total % known == 0:
        return tuple(total // known if size == -1 else size for size in shape)
    if -1 in shape or known != total:
        raise RuntimeError(
            f"{operation}: shape must hold the {total} numbers of a Tensor of shape {tuple(t.shape)}; got {shape}"
        )
    return shape


@method("view")
def view(t: Tensor, *size: Any) -> Tensor:
    """The same memory under another shape; a dtype is refused, as the core has no views of bytes."""
    if len(size) == 1 and isinstance(size[0], dtype):
        raise TypeError("view: shape must be sizes because qkv has no views of bytes; use to(dtype)")
    wanted = _full_shape(t, sizes(size), "view")
    result = _reshaped(t, wanted)
    if _core.address(result) != _core.address(t):
        raise RuntimeError(
            f"view: shape must keep axes that do not follow each other in memory apart; got {tuple(t.shape)} with "
            f"strides {_core.strides(t)} to {wanted}. Use .reshape(...) instead"
        )
    return result


@both("reshape")
def reshape(t: Tensor, *shape: Any) -> Tensor:
    """The same numbers under another shape; a view where strides allow it, else a copy."""
    result = _reshaped(t, _full_shape(t, sizes(shape), "reshape"))
    if _core.address(result) != _core.address(t):
        result._op = "UnsafeViewBackward0"
    return result


@method("view_as", "reshape_as")
def view_as(t: Tensor, other: Tensor) -> Tensor:
    """The same numbers in the shape of another."""
    return reshape(t, other.shape)


@both("flatten")
def flatten(t: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Axes ``start_dim`` to ``end_dim`` as one."""
    shape = tuple(_core_shape(t))
    if not shape:
        return reshape(t, (1,))
    first, last = (
        axis_of(start_dim, len(shape), "flatten"),
        axis_of(end_dim, len(shape), "flatten"),
    )
    if first == last:
        return t
    return reshape(t, (*shape[:first], int(np.prod(shape[first : last + 1])), *shape[last + 1 :]))


@both("ravel")
def ravel(t: Tensor) -> Tensor:
    """All numbers on one axis."""
    return reshape(t, (-1,))


@both("unflatten")
def unflatten(t: Tensor, dim: int, sizes: Any) -> Tensor:
    """One axis as several."""
    shape = tuple(_core_shape(t))
    axis = axis_of(dim, len(shape), "unflatten")
    known = int(np.prod([size for size in sizes if size != -1]))
    parts = tuple(shape[axis] // known if size == -1 else size for size in sizes)
    return view(t, shape[:axis] + parts + shape[axis + 1 :])


def _permuted(t: Tensor, axes: Sequence[int], op: str) -> Tensor:
    return showing(Core.transpose(t, tuple(axes)), op, t)


@both("permute")
def permute(t: Tensor, *dims: Any) -> Tensor:
    """Axes in another order."""
    rank = len(_core_shape(t))
    axes = [axis_of(dim, rank, "permute") for dim in sizes(dims)]
    if sorted(axes) != list(range(rank)):
        raise RuntimeError(f"permute: dims must name each of the {rank} axes once; got {shown(dims)}")
    return _permuted(t, axes, "PermuteBackward0")


@both("transpose")
def transpose(t: Tensor, dim0: int, dim1: int) -> Tensor:
    """Two axes exchanged."""
    return _swapped(t, dim0, dim1, "TransposeBackward0")


def _swapped(t: Tensor, dim0: int, dim1: int, op: str) -> Tensor:
    axes = list(range(len(_core_shape(t))))
    if not axes:
        return t
    a, b = axis_of(dim0, len(axes), "transpose"), axis_of(dim1, len(axes), "transpose")
    axes[a], axes[b] = axes[b], axes[a]
    return _permuted(t, axes, op)


both("swapaxes")(lambda t, axis0, axis1: _swapped(t, axis0, axis1, "TransposeBackward0"))
both("swapdims")(lambda t, dim0, dim1: _swapped(t, dim0, dim1, "TransposeBackward0"))


@both("t")
def t_(t: Tensor) -> Tensor:
    """A matrix transposed; Tensors with fewer axes as they are."""
    if len(_core_shape(t)) > 2:
        raise RuntimeError(f"t: the Tensor must have at most 2 axes; got shape {tuple(t.shape)}")
    return _swapped(t, 0, -1, "TBackward0") if len(_core_shape(t)) == 2 else t


def _reversed(t: Tensor) -> Tensor:
    return _permuted(t, tuple(reversed(range(len(_core_shape(t))))), "PermuteBackward0")


def _matrix_transposed(t: Tensor) -> Tensor:
    if len(_core_shape(t)) < 2:
        raise RuntimeError(f"mT: the Tensor must have at least 2 axes; got shape {tuple(t.shape)}")
    return _swapped(t, -2, -1, "TransposeBackward0")


Tensor.T = property(_core.direct("T", _reversed))  # type: ignore[assignment, method-assign]
Tensor.mT = property(_matrix_transposed)  # type: ignore[attr-defined]


@both("movedim")
def movedim(t: Tensor, source: Any, destination: Any) -> Tensor:
    """Axes moved to other places, the others keep their order."""
    rank = len(_core_shape(t))
    as_list = lambda dims: [dims] if isinstance(dims, int) else list(dims)  # noqa: E731
    moved = [axis_of(dim, rank, "movedim") for dim in as_list(source)]
    places = [axis_of(dim, rank, "movedim") for dim in as_list(destination)]
    axes = [axis for axis in range(rank) if axis not in moved]
    for place, axis in sorted(zip(places, moved, strict=True)):
        axes.insert(place, axis)
    return _permuted(t, axes, "PermuteBackward0")


@both("unsqueeze")
def unsqueeze(t: Tensor, dim: int) -> Tensor:
    """A new axis of size 1."""
    shape = tuple(_core_shape(t))
    axis = axis_of(dim, len(shape) + 1, "unsqueeze")
    return _reshaped(t, (*shape[:axis], 1, *shape[axis:]), "UnsqueezeBackward0")


@both("squeeze")
def squeeze(t: Tensor, dim: Any = None) -> Tensor:
    """Without the axes of size 1, or without one if its size is 1."""
    shape = tuple(_core_shape(t))
    if dim is None:
        gone, op = {axis for axis, size in enumerate(shape) if size == 1}, "SqueezeBackward0"
    else:
        named = [dim] if not isinstance(dim, (tuple, list)) else dim
        axes = {axis_of(one, len(shape), "squeeze") for one in named}
        gone = {axis for axis in axes if shape and shape[axis] == 1}
        op = "SqueezeBackward1" if not isinstance(dim, (tuple, list)) else "SqueezeBackward2"
    return _reshaped(t, tuple(size for axis, size in enumerate(shape) if axis not in gone), op)


@method("expand")
def expand(t: Tensor, *size: Any) -> Tensor:
    """Axes of size 1 repeated without memory; -1 keeps a size."""
    wanted, own = list(sizes(size)), tuple(_core_shape(t))
    new = len(wanted) - len(own)
    if new < 0:
        raise RuntimeError(
            f"expand: shape must have at least the {len(own)} axes of the Tensor; got {tuple(wanted)}"
        )
    for axis, kept in enumerate(own, new):
        if wanted[axis] == -1:
            wanted[axis] = kept
        elif kept not in (1, wanted[axis]):
            raise RuntimeError(
                f"expand: shape must keep the axes that are larger than 1; got shape {tuple(wanted)} for a Tensor {own}"
            )
    return showing(_core.expanded(t, tuple(wanted)), "ExpandBackward0", t)


@method("expand_as")
def expand_as(t: Tensor, other: Tensor) -> Tensor:
    """Expanded to the shape of another."""
    return expand(t, other.shape)


@both("broadcast_to")
def broadcast_to(t: Tensor, size: Any) -> Tensor:
    """Expanded to a shape."""
    return expand(t, size)


@function("broadcast_tensors")
def broadcast_tensors(*tensors: Tensor) -> tuple[Tensor, ...]:
    """All expanded to the shape that they have together."""
    shape = np.broadcast_shapes(*(tuple(_core_shape(t)) for t in tensors))
    return tuple(expand(t, shape) for t in tensors)


@method("unfold")
def unfold(t: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """All windows of that size along an axis, as a new last axis."""
    axis = axis_of(dimension, len(t.shape), "unfold")
    if step < 1 or not 0 <= size <= (t.shape[axis] if t.shape else 1):
        raise RuntimeError(
            f"unfold: step must be at least 1 and size at most that of the axis; got step {step}, size {size} for "
            f"shape {tuple(t.shape)}"
        )
    return showing(_core.unfold(t if t.shape else t.reshape(1), axis, size, step), "UnfoldBackward0", t)


@both("flip")
def flip(t: Tensor, *dims: Any) -> Tensor:
    """Axes in reversed order."""
    axes = {axis_of(dim, len(t.shape), "flip") for dim in sizes(dims)}
    items = tuple(slice(None, None, -1) if axis in axes else slice(None) for axis in range(len(t.shape)))
    return wrap(Core.copy(Core.__getitem__(t, items)), "FlipBackward0", t._kind)


# Joining and repeating.


def joined(core: Any, tensors: Any, dim: int, op: str) -> Tensor:
    """Join along an axis, in the dtype that all fit."""
    parts = list(tensors)
    if not all(isinstance(part, Core) for part in parts):
        raise TypeError(
            f"{op.removesuffix('Backward0').lower()}: tensors must be Tensors; got {shown(parts)}"
        )
    kind = parts[0].dtype if parts else None
    for part in parts[1:]:
        kind = common_dtype(kind, part.dtype)
    if kind is not None:
        parts = [cast(part, kind) for part in parts]
    return wrap(core(parts, dim), op, kind)


@function("cat")
def cat(tensors: Any, dim: int = 0) -> Tensor:
    """Join Tensors along an axis that they have."""
    parts = [t for t in tensors if tuple(_core_shape(t)) != (0,)] or list(tensors)
    return joined(_core.concatenate, parts, dim, "CatBackward0")


for _alias in ("concat", "concatenate"):
    function(_alias)(lambda tensors, dim=0: cat(tensors, dim))


@function("stack")
def stack(tensors: Any, dim: int = 0) -> Tensor:
    """Join Tensors of equal shape along a new axis."""
    return joined(_core.stack, tensors, dim, "StackBackward0")


@function("vstack")
def vstack(tensors: Any) -> Tensor:
    """Join along the first axis; rows count as matrices with one."""
    return cat([t if len(t.shape) > 1 else reshape(t, (1, -1)) for t in tensors], 0)


@function("hstack")
def hstack(tensors: Any) -> Tensor:
    """Join along the second axis, rows along their only one."""
    parts = list(tensors)
    return cat(parts, 0 if len(parts[0].shape) < 2 else 1)


@both("repeat_interleave")
def repeat_interleave(t: Tensor, repeats: Any, dim: int | None = None, *, output_size: Any = None) -> Tensor:
    """Each entry of an axis several times, next to each other."""
    if dim is None:
        t, dim = reshape(t, (-1,)), 0
    axis = axis_of(dim, len(_core_shape(t)), "repeat_interleave")
    if isinstance(repeats, int):
        return wrap(Core.repeat(t, repeats, axis=axis), "ViewBackward0", t._kind)
    counts = as_numbers(repeats)
    if (
        counts.dtype.kind not in "iu"
        or counts.ndim > 1
        or (counts < 0).any()
        or counts.sum(dtype=float) > 2**40
    ):
        raise RuntimeError(f"repeat_interleave: repeats must be whole numbers from 0; got {shown(repeats)}")
    places = np.repeat(np.arange(_core_shape(t)[axis]), counts)
    return wrap(Core.__getitem__(t, (slice(None),) * axis + (places,)), "IndexSelectBackward0", t._kind)


@method("repeat")
def repeat(t: Tensor, *repeats: Any) -> Tensor:
    """The whole Tensor several times along each axis."""
    counts = sizes(repeats)
    shape = (1,) * (len(counts) - len(_core_shape(t))) + tuple(_core_shape(t))
    if len(counts) < len(shape):
        raise RuntimeError(f"repeat: repeats must have at least {len(shape)} numbers; got {counts}")
    result = Core.reshape(t, shape)
    between = tuple(part for pair in zip(counts, shape, strict=True) for part in (1, pair[1]))
    wide = tuple(part for pair in zip(counts, shape, strict=True) for part in pair)
    whole = tuple(count * size for count, size in zip(counts, shape, strict=True))
    result = Core.reshape(Core.copy(_core.expanded(Core.reshape(result, between), wide)), whole)
    return wrap(result, "RepeatBackward0", t._kind)


@both("tile")
def tile(t: Tensor, *dims: Any) -> Tensor:
    """As ``repeat``, with leading ones where numbers are missing."""
    counts = sizes(dims)
    return repeat(t, (1,) * (len(_core_shape(t)) - len(counts)) + counts)
