"""Products of vectors, matrices and stacks of them.

matmul: ``input @ other``: the last two axes multiply, the others broadcast.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _core
from .._numpy import products
from .._words.errors import shown
from ._arguments import tensor
from ._elementwise import cast
from ._tensor import Core, Tensor, _core_shape, named, plain, wrap

_NAMES = {(1, 1): "Dot", (2, 1): "Mv", (2, 2): "Mm", (3, 3): "Bmm"}


def _product(name: str, x, y, label: str = "") -> Tensor:
    """Of Tensors of one dtype."""
    for t in (x, y):
        if not isinstance(t, Core):
            raise TypeError(f"{name}: input and other must be Tensors; got {shown(t)}")
    kind, other = x.dtype if isinstance(x, Tensor) else _core.result_dtype(x), _core.result_dtype(y)
    if kind is not other:
        raise RuntimeError(
            f"expected both Tensors of a product to have the same dtype; got {kind} and {other}"
        )
    result = Core.__matmul__(x, y)
    if not label:
        ranks = len(_core_shape(x)), len(_core_shape(y))
        label = (
            f"{_NAMES[ranks]}Backward0"
            if ranks in _NAMES and ranks != (3, 3)
            else "SqueezeBackward4"
            if 1 in ranks
            else "UnsafeViewBackward0"
        )
    return wrap(result, label, kind if kind.narrow else None)


matmul = named("matmul")(lambda input, other: _product("matmul", input, other))


def _operator(f):
    return lambda a, b: f(a, b) if isinstance(b, (Core, np.ndarray)) else NotImplemented


Tensor.__matmul__ = _operator(matmul)
Tensor.__rmatmul__ = _operator(lambda a, b: matmul(b, a))


def _check_ranks(name: str, x, y) -> None:
    a, b = ((_core_shape(t) if isinstance(t, Core) else ()) for t in (x, y))
    wanted = _RANKS[name]
    if (len(a), len(b)) != wanted or (wanted == (3, 3) and a[0] != b[0]):
        raise RuntimeError(
            f"{name}: input and other must have {wanted[0]} and {wanted[1]} axes and equal batches; got {a} and {b}"
        )


_RANKS = {
    "mm": (2, 2),
    "bmm": (3, 3),
    "mv": (2, 1),
    "dot": (1, 1),
}


def _of_ranks(name: str, what: str) -> None:
    def f(input, other, *, out_dtype=None) -> Tensor:
        _check_ranks(name, input, other)
        result = _product(name, input, other, f"{name.capitalize()}Backward0")
        return result if out_dtype is None else cast(result, out_dtype)

    f.__doc__ = what
    named(name)(f)


_of_ranks("mm", "Product of two matrices.")
_of_ranks("bmm", "Products of two stacks of matrices, ``(B, L, M)`` and ``(B, M, N)``.")
_of_ranks("mv", "Product of a matrix and a vector.")
_of_ranks("dot", "Product of two vectors.")


@named("outer")
def outer(input, vec2) -> Tensor:
    """Product of each entry of one vector with each of the other."""
    a, b = _core_shape(input), _core_shape(vec2)
    if len(a) != 1 or len(b) != 1:
        raise RuntimeError(f"outer: input and vec2 must have one axis; got shapes {a} and {b}")
    return input.reshape(-1, 1) * vec2


def _contracted(contract, tensors: list[Any]) -> Tensor:
    """A sum of products as the core computes it, of Tensors of one dtype."""
    for t in tensors:
        tensor("einsum", "operands", t)
    kinds = {t.dtype.name: t.dtype for t in tensors}
    if len(kinds) > 1:
        raise RuntimeError(f"expected Tensors of a product to have the same dtype; got {', '.join(kinds)}")
    return wrap(contract(plain(tensors)), "ViewBackward0", tensors[0]._kind)


@named("torch.einsum")
def einsum(equation: str, *operands) -> Tensor:
    """Sums of products by letters: ``torch.einsum("bqd,bkd->bqk", q, k)``."""
    if not isinstance(equation, str):
        raise TypeError(
            "einsum: equation must be text such as 'ij,jk->ik', before the Tensors; got "
            f"{shown(equation)}. Lists of numbers of axes are not taken"
        )
    tensors = list(operands[0] if len(operands) == 1 and isinstance(operands[0], (list, tuple)) else operands)
    if (count := equation.partition("->")[0].count(",") + 1) != len(tensors):
        raise RuntimeError(f"einsum: the equation names {count} operands; got {len(tensors)}")
    return _contracted(lambda core: products.summed(equation, *core), tensors)
