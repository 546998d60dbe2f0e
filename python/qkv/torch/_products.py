"""Products of vectors, matrices and stacks of them, and what is made of products."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from .. import _core
from . import _reductions
from ._elementwise import cast, result_dtype
from ._tensor import Core, Tensor, _core_shape, both, function, wrap, wrap_array


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


Tensor.__matmul__ = lambda a, b: product(a, b) if isinstance(b, (Core, np.ndarray)) else NotImplemented
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


def _letters(operands: list[str], output: str | None) -> tuple[list[str], str]:
    """Expand nothing, check the letters, and work out the output if it is not given."""
    counts: dict[str, int] = {}
    for letter in "".join(operands):
        counts[letter] = counts.get(letter, 0) + 1
    if output is None:
        output = "".join(sorted(letter for letter, count in counts.items() if count == 1))
    unknown = set(output) - set(counts)
    if unknown:
        raise RuntimeError(f"einsum: the output names {sorted(unknown)}, which no operand has")
    return operands, output


def _without_ellipsis(equation: str, tensors: list[Tensor]) -> tuple[list[str], str | None]:
    left, arrow, right = equation.replace(" ", "").partition("->")
    operands = left.split(",")
    if len(operands) != len(tensors):
        raise RuntimeError(f"einsum: the equation names {len(operands)} operands; got {len(tensors)}")
    free = [chr(code) for code in range(ord("A"), ord("Z") + 1) if chr(code) not in equation]
    widest = max(
        (
            len(t.shape) - len(o.replace("...", ""))
            for o, t in zip(operands, tensors, strict=True)
            if "..." in o
        ),
        default=0,
    )
    dots = "".join(free[:widest])
    for i, (operand, t) in enumerate(zip(operands, tensors, strict=True)):
        count = len(t.shape) - len(operand.replace("...", ""))
        operands[i] = operand.replace("...", dots[len(dots) - count :] if count else "")
        if len(operands[i]) != len(t.shape):
            raise RuntimeError(
                f"einsum: operand {i} must have {len(operands[i])} axes because the equation names "
                f"{operands[i]!r}; got shape {tuple(t.shape)}"
            )
    if arrow:
        return operands, right.replace("...", dots)
    once = _letters(operands, None)[1]
    return operands, dots + "".join(letter for letter in once if letter not in dots)


def _aligned(t: Tensor, letters: str, order: str) -> Tensor:
    """Axes in the order of `order`, with size 1 where the operand has none; repeated letters are diagonals."""
    while len(set(letters)) < len(letters):
        twice = next(letter for letter in letters if letters.count(letter) > 1)
        first = letters.index(twice)
        second = letters.index(twice, first + 1)
        t = t.diagonal(0, first, second)
        letters = letters[:first] + letters[first + 1 : second] + letters[second + 1 :] + twice
    present = [letter for letter in order if letter in letters]
    t = t.permute(*(letters.index(letter) for letter in present))
    sizes = iter(t.shape)
    return t.reshape(tuple(next(sizes) if letter in letters else 1 for letter in order))


def _pair(a: Tensor, al: str, b: Tensor, bl: str, kept: str) -> tuple[Tensor, str]:
    """One product over the letters that only these two have and the rest does not need."""
    summed = [c for c in dict.fromkeys(al) if c in bl and c not in kept]
    batch = [c for c in dict.fromkeys(al) if c in bl and c in kept]
    a_alone = [c for c in dict.fromkeys(al) if c not in bl]
    b_alone = [c for c in dict.fromkeys(bl) if c not in al]
    for letter in [c for c in a_alone if c not in kept]:
        a, al = _aligned(a, al, "".join(dict.fromkeys(al))), "".join(dict.fromkeys(al))
        a, al = a.sum(al.index(letter)), al.replace(letter, "")
        a_alone.remove(letter)
    for letter in [c for c in b_alone if c not in kept]:
        b, bl = _aligned(b, bl, "".join(dict.fromkeys(bl))), "".join(dict.fromkeys(bl))
        b, bl = b.sum(bl.index(letter)), bl.replace(letter, "")
        b_alone.remove(letter)
    a = _aligned(a, al, "".join(batch + a_alone + summed))
    b = _aligned(b, bl, "".join(batch + summed + b_alone))
    shared = [max(a.shape[i], b.shape[i]) for i in range(len(batch))]
    left = list(a.shape[len(batch) : len(batch) + len(a_alone)])
    right = list(b.shape[len(batch) + len(summed) :])
    inner = int(np.prod(a.shape[len(batch) + len(a_alone) :], dtype=int))
    x = a.reshape((*a.shape[: len(batch)], int(np.prod(left, dtype=int)), inner))
    y = b.reshape((*b.shape[: len(batch)], inner, int(np.prod(right, dtype=int))))
    result = product(x, y).reshape((*shared, *left, *right))
    return result, "".join(batch + a_alone + b_alone)


@function("einsum")
def einsum(equation: str, *operands: Any) -> Tensor:
    """Sums of products by letters: ``torch.einsum("bqd,bkd->bqk", q, k)``."""
    tensors = list(operands[0] if len(operands) == 1 and isinstance(operands[0], (list, tuple)) else operands)
    letters, output = _without_ellipsis(equation, tensors)
    letters, wanted = _letters(letters, output)
    t, mine = tensors[0], letters[0]
    for i in range(1, len(tensors)):
        t, mine = _pair(t, mine, tensors[i], letters[i], wanted + "".join(letters[i + 1 :]))
    t = _aligned(t, mine, "".join(dict.fromkeys(mine)))
    mine = "".join(dict.fromkeys(mine))
    gone = [i for i, letter in enumerate(mine) if letter not in wanted]
    if gone:
        t = t.sum(gone)
    mine = "".join(letter for letter in mine if letter in wanted)
    t = t.permute(*(mine.index(letter) for letter in wanted)).contiguous()
    t._op = "ViewBackward0" if len(tensors) > 1 else t._op
    return t


@function("tensordot")
def tensordot(a: Tensor, b: Tensor, dims: Any = 2) -> Tensor:
    """Products summed over the last axes of one and the first of the other, or over the axes named."""
    if isinstance(dims, int):
        over = list(range(len(a.shape) - dims, len(a.shape))), list(range(dims))
    else:
        over = [d % len(a.shape) for d in dims[0]], [d % len(b.shape) for d in dims[1]]
    alphabet = "abcdefghijklmnopqrstuvwxyz"
    first, second = alphabet[: len(a.shape)], list(alphabet[len(a.shape) : len(a.shape) + len(b.shape)])
    for i, j in zip(*over, strict=True):
        second[j] = first[i]
    left = "".join(c for i, c in enumerate(first) if i not in over[0])
    right = "".join(c for j, c in enumerate(second) if j not in over[1])
    return einsum(f"{first},{''.join(second)}->{left}{right}", a, b)


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
