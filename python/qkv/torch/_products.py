"""Products of vectors, matrices and stacks of them, and what is made of products."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from .. import _core
from .._numpy import products
from . import _reductions
from ._elementwise import cast, result_dtype
from ._tensor import Core, Tensor, _core_shape, both, function, plain, wrap, wrap_array


def _product_name(a: int, b: int) -> str:
    if (a, b) in ((1, 1), (2, 1), (2, 2)):
        return {(1, 1): "DotBackward0", (2, 1): "MvBackward0", (2, 2): "MmBackward0"}[a, b]
    return "SqueezeBackward4" if 1 in (a, b) else "UnsafeViewBackward0"


def product(a: Any, b: Any, op: str = "") -> Tensor:
    """Matrix product, in the one dtype that both must have."""
    x, y = (t if isinstance(t, Tensor) else wrap(t) if isinstance(t, Core) else wrap_array(t) for t in (a, b))
    if x.dtype is not y.dtype:
        raise RuntimeError(
            f"expected both Tensors of a product to have the same dtype; got {x.dtype} and {y.dtype}"
        )
    ranks = len(_core_shape(x)), len(_core_shape(y))
    if x.dtype.kind < 2:
        return wrap_array(np.matmul(Core.numpy(x), Core.numpy(y)), x.dtype)
    try:
        return wrap(_core.matmul(x, y), op or _product_name(*ranks))
    except ValueError as error:
        raise RuntimeError(str(error)) from None


@both("matmul")
def matmul(input: Tensor, other: Tensor) -> Tensor:
    """``input @ other``: the last two axes multiply, the others broadcast."""
    return product(input, other)


Tensor.__matmul__ = _core.direct(
    "__matmul__", lambda a, b: product(a, b) if isinstance(b, (Core, np.ndarray)) else NotImplemented
)
Tensor.__rmatmul__ = lambda a, b: product(b, a) if isinstance(b, (Core, np.ndarray)) else NotImplemented


def _of_ranks(name: str, first: int, second: int, op: str, what: str) -> Any:
    def f(input: Tensor, other: Tensor) -> Tensor:
        ranks = len(_core_shape(input)), len(_core_shape(other))
        if ranks != (first, second):
            raise RuntimeError(
                f"{name}: needs Tensors of {first} and {second} axes; got shapes {tuple(input.shape)} and "
                f"{tuple(other.shape)}"
            )
        if input.shape[:-2] != other.shape[: first - 2 if first > 2 else 0]:
            raise RuntimeError(
                f"{name}: batches must be equal; got {tuple(input.shape)} and {tuple(other.shape)}"
            )
        return product(input, other, op)

    f.__doc__ = what
    return both(name)(f)


mm = _of_ranks("mm", 2, 2, "MmBackward0", "Product of two matrices.")
bmm = _of_ranks(
    "bmm", 3, 3, "BmmBackward0", "Products of two stacks of matrices, ``(B, L, M)`` and ``(B, M, N)``."
)
mv = _of_ranks("mv", 2, 1, "MvBackward0", "Product of a matrix and a vector.")
dot = _of_ranks("dot", 1, 1, "DotBackward0", "Product of two vectors.")
function("inner")(
    lambda input, other: product(input, other.transpose(-1, -2) if len(other.shape) > 1 else other)
)


@both("outer")
def outer(input: Tensor, vec2: Tensor) -> Tensor:
    """Product of each entry of one vector with each of the other."""
    if len(input.shape) != 1 or len(vec2.shape) != 1:
        raise RuntimeError(
            f"outer: input and vec2 must have one axis; got shapes {tuple(input.shape)} and {tuple(vec2.shape)}"
        )
    return input.reshape(-1, 1) * vec2


def _plus(name: str, op: str, what: str) -> None:
    def f(input: Tensor, a: Tensor, b: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
        multiplied = product(a, b)
        scaled = multiplied if alpha == 1 else multiplied * alpha
        kind = result_dtype(input, multiplied)
        start = cast(input, kind) if beta == 1 else cast(input, kind) * beta
        return wrap(Core.__add__(start, scaled), op, kind)

    f.__doc__ = f"``beta input + alpha a @ b`` for {what}."
    both(name)(f)


_plus("addmm", "AddmmBackward0", "matrices")
_plus("baddbmm", "BaddbmmBackward0", "stacks of matrices")
_plus("addmv", "AddmvBackward0", "a matrix and a vector")


def _contracted(contract: Any, tensors: list[Any], *how: Any) -> Tensor:
    """A sum of products as the core computes it, of Tensors of one dtype."""
    kinds = {t.dtype.name: t.dtype for t in tensors}
    if len(kinds) > 1:
        raise RuntimeError(f"expected Tensors of a product to have the same dtype; got {', '.join(kinds)}")
    try:
        result = contract(plain(tensors), *how)
    except ValueError as error:
        raise RuntimeError(str(error)) from None
    return wrap(result, "ViewBackward0", tensors[0]._kind)


@function("einsum")
def einsum(equation: str, *operands: Any) -> Tensor:
    """Sums of products by letters: ``torch.einsum("bqd,bkd->bqk", q, k)``."""
    tensors = list(operands[0] if len(operands) == 1 and isinstance(operands[0], (list, tuple)) else operands)
    if (count := equation.partition("->")[0].count(",") + 1) != len(tensors):
        raise RuntimeError(f"einsum: the equation names {count} operands; got {len(tensors)}")
    return _contracted(lambda core: products.summed(equation, *core), tensors)


@function("tensordot")
def tensordot(a: Tensor, b: Tensor, dims: Any = 2) -> Tensor:
    """Products summed over the last axes of one and the first of the other, or over the axes named."""
    return _contracted(lambda core: products.tensordot(core[0], core[1], dims), [a, b])


@function("cdist")
def cdist(x1: Tensor, x2: Tensor, p: float = 2.0) -> Tensor:
    """Distances of each row of one to each row of the other."""
    apart = x1.unsqueeze(-2) - x2.unsqueeze(-3)
    result = _reductions.norm(apart, p, -1)
    result._op = "CdistBackward0" if result._op else ""
    return result


def _constant(t: Tensor, operation: str) -> np.ndarray:
    """Numbers of what NumPy computes, through which no gradient flows."""
    if t.dtype.kind < 2:
        raise RuntimeError(f"{operation}: the Tensor must hold floating numbers; got {t.dtype}")
    if t.requires_grad and _core.grad_enabled():
        raise RuntimeError(f"{operation}: has no gradient in qkv.torch; detach() the Tensor")
    return Core.numpy(t)


def _norm(A: Tensor, ord: Any = None, dim: Any = None, keepdim: bool = False) -> Tensor:
    """Of a vector, or of a matrix where `ord` is given and two axes are meant."""
    matrices = len(A.shape) == 2 if dim is None else isinstance(dim, (tuple, list)) and len(dim) == 2
    if ord is not None and matrices:
        return _reductions.matrix_norm(A, ord, (0, 1) if dim is None else tuple(dim), keepdim)
    return _reductions.norm(A, ord, dim, keepdim)


linalg = SimpleNamespace(
    norm=_norm,
    matrix_norm=_reductions.matrix_norm,
    vector_norm=lambda x, ord=2, dim=None, keepdim=False: _reductions.norm(x, ord, dim, keepdim),
    inv=lambda A: wrap_array(np.linalg.inv(_constant(A, "linalg.inv"))),
    det=lambda A: wrap_array(np.linalg.det(_constant(A, "linalg.det"))),
)
