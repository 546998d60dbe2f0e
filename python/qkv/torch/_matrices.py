"""Diagonals and triangles of matrices."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

from .. import _core
from ._conversion import clone
from ._indexing import in_place_of, renamed, set_item
from ._shaping import axis_of
from ._tensor import Core, Tensor, both, function, method, view, wrap, wrap_array


@both("diagonal")
def diagonal(t: Tensor, offset: builtins.int = 0, dim1: builtins.int = 0, dim2: builtins.int = 1) -> Tensor:
    """The diagonal of two axes, as the last axis."""
    rank = len(t.shape)
    a, b = axis_of(dim1, rank, "diagonal"), axis_of(dim2, rank, "diagonal")
    if a == b:
        raise RuntimeError(f"diagonal: dim1 and dim2 must be different axes; got {dim1} and {dim2}")
    return view(Core.diagonal(t, offset, a, b), "DiagonalBackward0", t)


@both("diag")
def diag(t: Tensor, diagonal: builtins.int = 0) -> Tensor:
    """The diagonal of a matrix, or a matrix with that diagonal."""
    if len(t.shape) == 2:
        return renamed(clone(_diagonal(t, diagonal)), "DiagonalBackward0_copy")
    return diag_embed(t, diagonal)


@both("diag_embed")
def diag_embed(t: Tensor, offset: builtins.int = 0) -> Tensor:
    """Matrices with these diagonals."""
    n = t.shape[-1]
    size = n + builtins.abs(offset)
    at = np.arange(n)
    zeros = wrap_array(np.zeros((*t.shape[:-1], size, size), t.dtype.core))
    items = (..., at - min(offset, 0), at + max(offset, 0))
    return wrap(_core.replaced(zeros, items, t), "DiagEmbedBackward0", t._kind)


@both("trace")
def trace(t: Tensor) -> Tensor:
    """Sum of the diagonal."""
    return renamed(diagonal(t).sum(), "TraceBackward0")


def _triangle(name: str, core: Any, keep: Any) -> None:
    def triangle(input: Tensor, diagonal: builtins.int = 0) -> Tensor:
        return wrap(core(input, diagonal), f"{name.capitalize()}Backward0", input._kind)

    triangle.__doc__ = f"The {'upper' if name == 'triu' else 'lower'} triangle of matrices, 0 elsewhere."
    both(name)(triangle)

    def indices(row: builtins.int, col: builtins.int, offset: builtins.int = 0) -> Tensor:
        return wrap_array(np.stack(np.nonzero(keep(np.ones((row, col), bool), offset))))

    indices.__doc__ = f"Rows and columns of the entries that `{name}` keeps."
    function(f"{name}_indices")(indices)


_triangle("triu", _core.triu, np.triu)
_triangle("tril", _core.tril, np.tril)


_diagonal = diagonal
in_place_of("triu", "tril")


@method("fill_diagonal_")
def fill_diagonal_(t: Tensor, fill_value: Any) -> Tensor:
    """One number on the diagonal, in place."""
    count = np.arange(min(t.shape))
    set_item(t, (count,) * len(t.shape), fill_value)
    return t
