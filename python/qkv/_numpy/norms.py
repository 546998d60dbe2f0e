"""Norms of vectors and matrices, with gradients that are 0 where a root of nothing has no derivative."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _core
from . import UnsupportedError
from .table import registered as _for

SINGULAR = (2, -2, "nuc")  # orders that are functions of the singular values, which have no gradient here


def vector_norm(x: Any, ord: Any = 2, axis: Any = None, keepdims: Any = False) -> Any:
    """``(sum |x|^ord)^(1/ord)`` along axes; at infinity the largest or smallest size, at 0 how many are not 0."""
    if not isinstance(ord, (int, float)):
        raise UnsupportedError("ord of vectors is a number")
    if abs(ord) == np.inf:
        return (abs(x).max if ord > 0 else abs(x).min)(axis, keepdims)
    if ord == 0:
        return (x != 0).astype(x.dtype).sum(axis, keepdims)
    return _core.vector_norm(x, float(ord), axis, keepdims)


def matrix_norm(x: Any, ord: Any = "fro", axis: Any = (-2, -1), keepdims: Any = False) -> Any:
    """Norms of matrices as NumPy names them: sums of columns for 1, of rows for infinity, -1 and -inf the least."""
    if ord in (None, "fro"):
        return vector_norm(x, 2, axis, keepdims)
    if ord in SINGULAR:
        if x.requires_grad and _core.grad_enabled():
            raise UnsupportedError("singular values have no gradient here")
        return _core.tensor(np.linalg.norm(x.numpy(), ord, axis, keepdims))
    if ord not in (1, -1, np.inf, -np.inf):
        raise UnsupportedError("ord of matrices is fro, nuc, +-1, +-2 or +-inf")
    rows, columns = (one % x.ndim for one in axis)
    if rows == columns:
        raise ValueError("Duplicate axes given.")
    first, second = (rows, columns) if abs(ord) == 1 else (columns, rows)
    sums = abs(x).sum(first, True)
    best = (sums.max if ord > 0 else sums.min)(second, True)
    return best if keepdims else best.squeeze((rows, columns))


@_for("linalg.norm")
def _norm(x: Any, ord: Any = None, axis: Any = None, keepdims: Any = False) -> Any:
    if ord is None:
        return vector_norm(x, 2, axis, keepdims)
    if axis is None and x.ndim > 2:
        raise UnsupportedError("ord of more than two axes is not known")
    axes = tuple(range(x.ndim)) if axis is None else axis
    if isinstance(axes, tuple) and len(axes) == 2:
        return matrix_norm(x, ord, axes, keepdims)
    return vector_norm(x, ord, axes, keepdims)


_for("linalg.vector_norm")(
    lambda x, /, *, axis=None, keepdims=False, ord=2: vector_norm(x, ord, axis, keepdims)
)
_for("linalg.matrix_norm")(lambda x, /, *, keepdims=False, ord="fro": matrix_norm(x, ord, (-2, -1), keepdims))
