"""NumPy's sums of products, out of transpositions and matrix products."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from .. import _core
from .._core import Tensor
from .._words.errors import shown
from . import UnsupportedError

Labels = list[Any]


def tensor(x: Any) -> Tensor:
    """Return a Tensor as it is and everything else as one."""
    return x if isinstance(x, Tensor) else _core.tensor(x)


def tensordot(a: Any, b: Any, axes: Any = 2) -> Tensor:
    """Sum over pairs of axes."""
    a, b = tensor(a), tensor(b)
    left, right = (range(-axes, 0), range(axes)) if isinstance(axes, int) else axes
    left, right = (
        [left] if isinstance(left, int) else list(left),
        [right] if isinstance(right, int) else list(right),
    )
    if any(not -a.ndim <= axis < a.ndim for axis in left) or any(
        not -b.ndim <= axis < b.ndim for axis in right
    ):
        raise ValueError(f"tensordot: axes must be axes of a {a.shape} and b {b.shape}; got {shown(axes)}")
    left, right = [axis % a.ndim for axis in left], [axis % b.ndim for axis in right]
    plan = _Plan(((a.shape, a.dtype), (b.shape, b.dtype)))
    names_a: Labels = [("a", axis) for axis in range(a.ndim)]
    names_b: Labels = [("b", axis) for axis in range(b.ndim)]
    if len(left) != len(right) or any(a.shape[i] != b.shape[j] for i, j in zip(left, right, strict=True)):
        raise ValueError(
            f"tensordot: axes must pair axes of equal size; got a {a.shape}, b {b.shape} and axes {axes}"
        )
    for i, j in zip(left, right, strict=True):
        names_b[j] = names_a[i]
    kept = [names_a[i] for i in range(a.ndim) if i not in left] + [
        names_b[j] for j in range(b.ndim) if j not in right
    ]
    plan.last = contract([(plan.operands[0], names_a), (plan.operands[1], names_b)], kept).at
    return plan.run([a, b])


def dot(a: Any, b: Any, out: Any = None) -> Any:
    """Product of matrices or vectors; of numbers with anything; for more axes, the last with the second to last."""
    if out is not None:
        raise UnsupportedError("out is not known here")
    a, b = tensor(a), tensor(b)
    if a.ndim == 0 or b.ndim == 0:
        return a * b
    if a.ndim <= 2 and b.ndim <= 2:
        return a @ b
    return tensordot(a, b, ([a.ndim - 1], [max(b.ndim - 2, 0)]))


def vdot(a: Any, b: Any, /) -> Any:
    """Sum of the products of all numbers."""
    return tensor(a).reshape(-1) @ tensor(b).reshape(-1)


def inner(a: Any, b: Any, /) -> Any:
    """Sum of products over the last axes."""
    a, b = tensor(a), tensor(b)
    return a * b if a.ndim == 0 or b.ndim == 0 else tensordot(a, b, ([a.ndim - 1], [b.ndim - 1]))


def outer(a: Any, b: Any, out: Any = None) -> Any:
    """Product of each number with each."""
    if out is not None:
        raise UnsupportedError("out is not known here")
    return tensor(a).reshape(-1, 1) * tensor(b).reshape(1, -1)


def einsum(*operands: Any, out: Any = None, optimize: Any = False, **options: Any) -> Any:
    """Sum of products by names of axes, two operands at a time, in the order that costs least."""
    del optimize  # any order gives the same numbers
    if out is not None or options:
        raise UnsupportedError(f"{', '.join(options) or 'out'} is not known here")
    y = summed(*operands)
    return y if len(operands) > 2 else y.copy()  # of one operand it may be a view


def summed(*operands: Any) -> Tensor:
    """Compute `einsum`; what only permutes axes or takes diagonals is a view."""
    names: Any
    if isinstance(operands[0], str):
        names, arrays = operands[0], operands[1:]
    else:
        pairs = len(operands) // 2
        wanted = tuple(operands[-1]) if len(operands) % 2 else None
        names, arrays = (tuple(map(tuple, operands[1 : 2 * pairs : 2])), wanted), operands[: 2 * pairs : 2]
    tensors = [tensor(x) for x in arrays]
    return _plan(names, tuple((x.shape, x.dtype) for x in tensors)).run(tensors)


class _Plan:
    """What becomes of operands of some shapes, worked out once, step by step."""

    def __init__(self, operands: tuple[Any, ...]):
        self.steps: list[tuple[Callable[..., Any], int, tuple[Any, ...], int | None]] = []
        self.given, self.last = len(operands), 0
        self.operands = [_Operand(self, at, *operand) for at, operand in enumerate(operands)]

    def add(
        self, f: Any, x: _Operand, shape: Any, dtype: Any, *args: Any, other: int | None = None
    ) -> _Operand:
        self.steps.append((f, x.at, args, other))
        return _Operand(self, self.given + len(self.steps) - 1, tuple(shape), dtype)

    def run(self, tensors: list[Any]) -> Tensor:
        values = tensors
        for f, at, args, other in self.steps:
            values.append(f(values[at], *args) if other is None else f(values[at], values[other]))
        return values[self.last]  # type: ignore[no-any-return]


class _Operand:
    """A Tensor of a plan: what is done with it becomes a step, unless it changes nothing of several operands."""

    def __init__(self, plan: _Plan, at: int, shape: tuple[int, ...], dtype: Any):
        self.plan, self.at, self.shape, self.dtype, self.ndim = plan, at, shape, dtype, len(shape)

    def reshape(self, *shape: Any) -> _Operand:
        new = tuple(shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape)
        if new == self.shape and self.plan.given > 1:
            return self
        return self.plan.add(Tensor.reshape, self, new, self.dtype, new)

    def transpose(self, axes: Any) -> _Operand:
        axes = tuple(axes or ())
        if axes == tuple(range(self.ndim)) and self.plan.given > 1:
            return self
        return self.plan.add(Tensor.transpose, self, [self.shape[axis] for axis in axes], self.dtype, axes)

    def diagonal(self, offset: int, i: int, j: int) -> _Operand:
        shape = [size for axis, size in enumerate(self.shape) if axis not in (i, j)]
        return self.plan.add(
            Tensor.diagonal, self, [*shape, min(self.shape[i], self.shape[j])], self.dtype, offset, i, j
        )

    def summed(self, axes: tuple[int, ...]) -> _Operand:
        # Of booleans it is whether any is true, as in NumPy.
        f = Tensor.any if self.dtype.kind == "b" else Tensor.sum
        shape = [size for axis, size in enumerate(self.shape) if axis not in axes]
        return self.plan.add(f, self, shape, self.dtype, axes)

    def times(self, other: _Operand, shape: Any, f: Callable[..., Any]) -> _Operand:
        return self.plan.add(f, self, shape, np.result_type(self.dtype, other.dtype), other=other.at)


@lru_cache(maxsize=256)
def _plan(names: Any, operands: tuple[Any, ...]) -> _Plan:
    plan = _Plan(operands)
    terms, result = _parsed(names, plan.operands)
    sizes: dict[Any, int] = {}
    for x, labels in terms:
        for label, size in zip(labels, x.shape, strict=True):
            known = sizes.setdefault(label, size)
            if size != known and 1 not in (size, known):
                raise ValueError(
                    f"einsum: an axis must have one size in all operands; got {known} and {size} for {label}"
                )
            sizes[label] = size if known == 1 else known
    missing = [label for label in result if label not in sizes]
    if missing or len(set(result)) != len(result):
        raise ValueError(
            f"einsum: the output must name axes of the operands, each once; got {''.join(map(str, result))}"
        )
    plan.last = contract([_plain_axes(x, labels, sizes) for x, labels in terms], result).at
    return plan


def _parsed(names: Any, operands: list[_Operand]) -> tuple[list[tuple[Any, Labels]], Labels]:
    """Return the operands with a label for each axis, and the labels of the result."""
    if isinstance(names, str):
        left, arrow, right = names.replace(" ", "").partition("->")
        subscripts = [_characters(part) for part in left.split(",")]
        wanted = _characters(right) if arrow else None
    else:
        subscripts = [list(labels) for labels in names[0]]
        wanted = None if names[1] is None else list(names[1])
    if len(operands) != len(subscripts):
        raise ValueError(
            f"einsum: there must be one operand per term; got {len(subscripts)} terms, {len(operands)} operands"
        )
    terms = []
    for x, labels in zip(operands, subscripts, strict=True):
        hidden = x.ndim - (len(labels) - (... in labels))
        if hidden < 0 or (hidden > 0 and ... not in labels):
            raise ValueError(
                f"einsum: a term must name each axis of its operand; got an operand {x.shape} and {len(labels)} names"
            )
        terms.append((x, _unfolded(labels, hidden)))
    hidden = max((sum(isinstance(label, tuple) for label in labels) for _, labels in terms), default=0)
    if wanted is None:
        named = [label for _, labels in terms for label in labels if not isinstance(label, tuple)]
        wanted = [..., *sorted({label for label in named if named.count(label) == 1})]
        return terms, _unfolded(wanted, hidden)
    return terms, _unfolded(wanted, hidden)


def _characters(term: str) -> Labels:
    head, dots, tail = term.partition("...")
    return [*head, ..., *tail] if dots else [*head]


def _unfolded(labels: Labels, hidden: int) -> Labels:
    """Label the axes of an ellipsis, counted from the last."""
    unfolded: Labels = []
    for label in labels:
        unfolded += [("...", axis) for axis in range(hidden, 0, -1)] if label is ... else [label]
    return unfolded


def _plain_axes(x: _Operand, labels: Labels, sizes: dict[Any, int]) -> tuple[_Operand, Labels]:
    """Take diagonals where a label occurs twice, and leave out axes of size 1 that broadcast."""
    for label in set(labels):
        while labels.count(label) > 1:
            i = labels.index(label)
            j = labels.index(label, i + 1)
            x = x.diagonal(0, i, j)
            labels = [name for axis, name in enumerate(labels) if axis not in (i, j)] + [label]
    kept = [axis for axis, label in enumerate(labels) if x.shape[axis] == sizes[label]]
    return x.reshape([x.shape[axis] for axis in kept]), [labels[axis] for axis in kept]


def contract(terms: list[tuple[_Operand, Labels]], result: Labels) -> _Operand:
    """Multiply all, two at a time, and sum over the labels that the result does not have."""
    sizes = {label: size for x, labels in terms for label, size in zip(labels, x.shape, strict=True)}
    terms = list(terms)
    for i, j in _pairs([frozenset(labels) for _, labels in terms], frozenset(result), sizes)[1]:
        (x, left), (y, right) = terms[i], terms.pop(j)
        others = (label for at, (_, labels) in enumerate(terms) if at != i for label in labels)
        terms[i] = _product(x, left, y, right, {*result, *others})
    x, labels = _summed(*terms[0], set(result))
    # An operand's axis of size 1 that broadcast against no other axis is back in its place.
    return x.transpose([labels.index(label) for label in result]) if labels != result else x


_WRITTEN = 16  # products that a matrix product takes in the time in which one number is written and read


def _pairs(
    terms: list[frozenset[Any]], result: frozenset[Any], sizes: dict[Any, int]
) -> tuple[float, list[tuple[int, int]]]:
    """The cost of multiplying terms pair by pair, and the pairs in the cheapest order: the best of all orders for up to
    5 terms, of more the pair that costs least at each step; of equal ones the first from the left."""
    if len(terms) < 3:
        return 0, [(0, 1)] * (len(terms) - 1)
    best: tuple[float, list[tuple[int, int]]] = (math.inf, [])
    found = []
    for i, j in itertools.combinations(range(len(terms)), 2):
        others = terms[:i] + terms[i + 1 : j] + terms[j + 1 :]
        needed = result.union(*others)
        both = (terms[i] & (terms[j] | needed)) | (terms[j] & (terms[i] | needed))
        product = both & needed
        cost = float(math.prod(map(sizes.__getitem__, both)))
        cost += _WRITTEN * math.prod(map(sizes.__getitem__, product))
        found.append((cost, i, j, [*terms[:i], product, *terms[i + 1 : j], *terms[j + 1 :]]))
    if len(terms) > 5:
        found = [min(found, key=lambda one: one[0])]
    for cost, i, j, left in found:
        later, order = _pairs(left, result, sizes)
        if cost + later < best[0]:
            best = cost + later, [(i, j), *order]
    return best


def _summed(x: _Operand, labels: Labels, needed: set[Any]) -> tuple[_Operand, Labels]:
    axes = tuple(axis for axis, label in enumerate(labels) if label not in needed)
    return (x.summed(axes), [label for label in labels if label in needed]) if axes else (x, labels)


def _product(
    x: _Operand, left: Labels, y: _Operand, right: Labels, needed: set[Any]
) -> tuple[_Operand, Labels]:
    """Multiply two operands as one batch of matrices, and sum over shared labels that nobody needs any more."""
    x, left = _summed(x, left, needed | set(right))
    y, right = _summed(y, right, needed | set(left))
    batch = [label for label in left if label in right and label in needed]
    inside = [label for label in left if label in right and label not in needed]
    rows = [label for label in left if label not in right]
    columns = [label for label in right if label not in left]
    sizes = dict(zip([*left, *right], [*x.shape, *y.shape], strict=True))

    def size(labels: Labels) -> int:
        return math.prod(sizes[label] for label in labels)

    if not inside and np.result_type(x.dtype, y.dtype).kind == "f":  # no sums: any order does
        labels = [*left, *columns]
        y = y.transpose([right.index(label) for label in labels if label in right])
        y = y.reshape([sizes[label] if label in right else 1 for label in labels])
        x = x.reshape([*x.shape, *(1 for _ in columns)])
        return x.times(y, [sizes[label] for label in labels], Tensor.__mul__), labels
    a = x.transpose([left.index(label) for label in [*batch, *rows, *inside]] or None)
    b = y.transpose([right.index(label) for label in [*batch, *inside, *columns]] or None)
    a = a.reshape(size(batch), size(rows), size(inside))
    b = b.reshape(size(batch), size(inside), size(columns))
    labels = [*batch, *rows, *columns]
    product = a.times(b, (size(batch), size(rows), size(columns)), Tensor.__matmul__)
    return product.reshape([sizes[label] for label in labels]), labels
