"""Axes as PyTorch counts them."""

from __future__ import annotations

from .._words.errors import shown
from ._arguments import integer
from ._tensor import Core, _core_shape


def axis_of(dim, rank: int, operation: str) -> int:
    """Count an axis from the front; of a Tensor that has none, 0 and -1 are legal."""
    axis, size = integer(operation, "dim", dim), max(rank, 1)
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


def axes_of(dim, t, operation: str) -> tuple[int, ...] | None:
    """Axes counted from the front; None for all of them, and for those of a Tensor that has none."""
    rank = len(_core_shape(t))
    given = dim if isinstance(dim, (tuple, list)) else () if dim is None else (dim,)
    axes = tuple(axis_of(one, rank, operation) for one in given)
    if len({*axes}) < len(axes):
        raise RuntimeError(f"{operation}: dim must name each axis once; got {shown(dim)}")
    return axes if rank and axes else None
