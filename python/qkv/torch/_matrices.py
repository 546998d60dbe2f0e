"""Diagonals and triangles of matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _core
from ._conversion import clone
from ._creation import factory
from ._indexing import renamed, set_item
from ._shaping import axis_of
from ._tensor import Core, Tensor, _core_shape, named, wrap_array


@named("diagonal: Diagonal")
def diagonal(input, offset: int = 0, dim1: int = 0, dim2: int = 1):
    """The diagonal of two axes, as the last axis."""
    return Core.diagonal(input, offset, *(axis_of(dim, len(input.shape), "diagonal") for dim in (dim1, dim2)))


_diagonal = diagonal


@named("diag")
def diag(input, diagonal: int = 0) -> Tensor:
    """The diagonal of a matrix, or a matrix with that diagonal."""
    if not 1 <= len(input.shape) <= 2:
        raise RuntimeError(f"diag: input must have one or two axes; got shape {_core_shape(input)}")
    if len(input.shape) == 2:
        return renamed(clone(_diagonal(input, diagonal)), "DiagonalBackward0_copy")
    return diag_embed(input, diagonal)


@named("diag_embed: DiagEmbed")
def diag_embed(input, offset: int = 0, dim1: int = -2, dim2: int = -1):
    """Matrices with these diagonals."""
    at = np.arange(input.shape[-1])
    size = len(at) + abs(offset)
    zeros = wrap_array(np.zeros((*input.shape[:-1], size, size), input.dtype.core))
    made: Any = _core.replaced(zeros, (..., at - min(offset, 0), at + max(offset, 0)), input)
    return np.moveaxis(made, (-2, -1), (dim1, dim2)).copy()


@named("trace")
def trace(input) -> Tensor:
    """Sum of the diagonal."""
    if len(_core_shape(input)) != 2:
        raise RuntimeError(f"trace: input must be a matrix; got shape {_core_shape(input)}")
    return renamed(_diagonal(input).sum(), "TraceBackward0")


def _triangle(name: str, core, keep) -> None:
    triangle: Any = lambda input, diagonal=0: core(input, diagonal)  # noqa: E731
    triangle.__doc__ = f"The {'upper' if name == 'triu' else 'lower'} triangle of matrices, 0 elsewhere."
    named(f"{name}: {name.capitalize()}")(triangle)

    def indices(row: int, col: int, offset: int = 0):
        return np.stack(np.nonzero(keep(np.ones((row, col), bool), offset)))

    indices.__doc__ = f"Rows and columns of the entries that `{name}` keeps."
    factory(f"{name}_indices")(indices)


_triangle("triu", _core.triu, np.triu)
_triangle("tril", _core.tril, np.tril)


@named(".fill_diagonal_")
def fill_diagonal_(t, fill_value, wrap: bool = False) -> Tensor:
    """One number on the diagonal, in place; with `wrap` again where a tall matrix goes on below its square."""
    if len(t.shape) < 2 or (len(t.shape) > 2 and len({*t.shape}) > 1):
        raise RuntimeError(
            f"fill_diagonal_: the Tensor must be a matrix or have equal axes; got {tuple(t.shape)}"
        )
    if wrap and len(t.shape) == 2 and t.shape[0] > t.shape[1] + 1:
        at = np.arange(0, t.numel(), t.shape[1] + 1)
        set_item(t, (at // t.shape[1], at % t.shape[1]), fill_value)
    else:
        set_item(t, (np.arange(min(t.shape)),) * len(t.shape), fill_value)
    return t
