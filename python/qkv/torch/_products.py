"""Products of vectors, matrices and stacks of them, and what is made of products.

matmul: ``input @ other``: the last two axes multiply, the others broadcast.
"""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np

from .. import _core
from .._errors import shown
from .._numpy import products
from . import _reductions
from ._arguments import floating, integer, number, tensor
from ._elementwise import cast
from ._tensor import Core, Tensor, _core_shape, named, plain, wrap, wrap_array

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


@named("inner")
def inner(input, other) -> Tensor:
    """Products summed over the last axes of both."""
    if not _core_shape(tensor("inner", "input", input)) or not _core_shape(tensor("inner", "other", other)):
        return input * other  # type: ignore[no-any-return]
    if len(_core_shape(other)) > 2:
        return _contracted(lambda core: products.tensordot(core[0], core[1], ([-1], [-1])), [input, other])
    return matmul(input, other.transpose(-1, -2) if len(_core_shape(other)) > 1 else other)  # type: ignore[no-any-return]


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
    "addmm": (2, 2),
    "baddbmm": (3, 3),
    "addmv": (2, 1),
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


@named("outer ger")
def outer(input, vec2) -> Tensor:
    """Product of each entry of one vector with each of the other."""
    a, b = _core_shape(input), _core_shape(vec2)
    if len(a) != 1 or len(b) != 1:
        raise RuntimeError(f"outer: input and vec2 must have one axis; got shapes {a} and {b}")
    return input.reshape(-1, 1) * vec2


def _plus(name: str, what: str) -> None:
    def f(input, a, b, *, beta=1, alpha=1) -> Any:
        _check_ranks(name, a, b)
        product, kind = _product(name, a, b), tensor(name, "input", input).dtype
        if kind is not product.dtype:
            raise RuntimeError(
                f"{name}: input must have the dtype of the product, {product.dtype}; got {kind}"
            )
        beta, alpha = number(name, "beta", beta), number(name, "alpha", alpha)
        shape = _core_shape(product)
        product = product if alpha == 1 else product * alpha
        total = (input if beta == 1 else input * beta) + product
        if _core_shape(total) != shape:
            raise RuntimeError(
                f"{name}: input must broadcast to the product, {shape}; got {_core_shape(input)}"
            )
        total._op = f"{name.capitalize()}Backward0"
        return total

    f.__doc__ = f"``beta input + alpha a @ b`` for {what}."
    named(name)(f)


_plus("addmm", "matrices")
_plus("baddbmm", "stacks of matrices")
_plus("addmv", "a matrix and a vector")


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


@named("torch.tensordot")
def tensordot(a, b, dims=2) -> Tensor:
    """Products summed over the last axes of one and the first of the other, or over the axes named."""
    if not isinstance(dims, (list, tuple)):
        dims = integer("tensordot", "dims", dims, 0)
    return _contracted(lambda core: products.tensordot(core[0], core[1], dims), [a, b])


@named("torch.cdist")
def cdist(x1, x2, p: float = 2.0, compute_mode=None) -> Tensor:
    """Distances of each row of one to each row of the other, by their difference in every mode."""
    if floating("cdist", "x1", x1).dtype is not floating("cdist", "x2", x2).dtype:
        raise RuntimeError(f"cdist: x1 and x2 must have one dtype; got {x1.dtype} and {x2.dtype}")
    if not (p := number("cdist", "p", p)) >= 0:
        raise RuntimeError(f"cdist: p must be at least 0; got {p}")
    if x1.shape[-1] != x2.shape[-1]:
        raise RuntimeError(f"cdist: x1 and x2 must have as many columns; got {x1.shape} and {x2.shape}")
    if not p >= 0:
        raise RuntimeError(f"cdist: p must be a number from 0 on; got {shown(p)}")
    batch = np.broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
    count = math.prod(batch)
    one, two = (_core.expanded(x, (*batch, *x.shape[-2:])).reshape(count, *x.shape[-2:]) for x in (x1, x2))
    distances = _core.scaled_distances(one, two, 1.0, None, float(p))
    return wrap(distances.reshape(*batch, x1.shape[-2], x2.shape[-2]), "CdistBackward0")


def _norm(A, ord=None, dim=None, keepdim: bool = False, *, dtype=None) -> Tensor:
    """Of a vector, or of a matrix where `ord` is given and two axes are meant."""
    matrices = len(A.shape) == 2 if dim is None else isinstance(dim, (tuple, list)) and len(dim) == 2
    if ord is not None and matrices:
        return _reductions.matrix_norm(A, ord, (0, 1) if dim is None else tuple(dim), keepdim, dtype=dtype)
    return _reductions.norm(A, ord, dim, keepdim, dtype=dtype)  # type: ignore[no-any-return]


def _of_matrices(name: str):
    def f(A) -> Tensor:
        if A.dtype.kind < 2:
            raise RuntimeError(f"linalg.{name}: the Tensor must hold floating numbers; got {A.dtype}")
        if A.requires_grad and _core.grad_enabled():
            raise RuntimeError(f"linalg.{name}: has no gradient in qkv.torch; detach() the Tensor")
        return wrap_array(getattr(np.linalg, name)(Core.numpy(A)))

    return f


linalg = SimpleNamespace(
    norm=_norm,
    matrix_norm=_reductions.matrix_norm,
    vector_norm=lambda x, ord=2, dim=None, keepdim=False, *, dtype=None: _reductions.norm(
        x, ord, dim, keepdim, dtype=dtype
    ),
    inv=_of_matrices("inv"),
    det=_of_matrices("det"),
)
