"""NumPy's sums of products, out of transpositions and matrix products."""

from __future__ import annotations

import math
from typing import Any

from .. import _core
from .._core import Tensor
from . import UnsupportedError

Labels = list[Any]


def tensor(x: Any) -> Tensor:
    """Give a Tensor as it is and everything else as one."""
    return x if isinstance(x, Tensor) else _core.tensor(x)


def tensordot(a: Any, b: Any, axes: Any = 2) -> Tensor:
    """Sum over pairs of axes."""
    a, b = tensor(a), tensor(b)
    left, right = (range(-axes, 0), range(axes)) if isinstance(axes, int) else axes
    left, right = (
        [left] if isinstance(left, int) else list(left),
        [right] if isinstance(right, int) else list(right),
    )
    left, right = [axis % a.ndim for axis in left], [axis % b.ndim for axis in right]
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
    return contract([(a, names_a), (b, names_b)], kept)


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
    """Sum of products by names of axes, two operands at a time from left to right."""
    del optimize  # any order gives the same numbers
    if out is not None or options:
        raise UnsupportedError(f"{', '.join(options) or 'out'} is not known here")
    y = summed(*operands)
    return y if len(operands) > 2 else y.copy()  # of one operand it may be a view


def summed(*operands: Any) -> Tensor:
    """Compute `einsum`; what only permutes axes or takes diagonals is a view."""
    terms, result = _parsed(operands)
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
    return contract([_plain_axes(x, labels, sizes) for x, labels in terms], result)


def _parsed(operands: tuple[Any, ...]) -> tuple[list[tuple[Tensor, Labels]], Labels]:
    """Give the operands with a label for each axis, and the labels of the result."""
    if isinstance(operands[0], str):
        left, arrow, right = operands[0].replace(" ", "").partition("->")
        subscripts = [_characters(part) for part in left.split(",")]
        arrays = [tensor(x) for x in operands[1:]]
        wanted = _characters(right) if arrow else None
    else:
        pairs = len(operands) // 2
        arrays = [tensor(x) for x in operands[: 2 * pairs : 2]]
        subscripts = [list(labels) for labels in operands[1 : 2 * pairs : 2]]
        wanted = list(operands[-1]) if len(operands) % 2 else None
    if len(arrays) != len(subscripts):
        raise ValueError(
            f"einsum: there must be one operand per term; got {len(subscripts)} terms, {len(arrays)} operands"
        )
    terms = []
    for x, labels in zip(arrays, subscripts, strict=True):
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
    """Give the axes behind an ellipsis labels of their own, counted from the last."""
    unfolded: Labels = []
    for label in labels:
        unfolded += [("...", axis) for axis in range(hidden, 0, -1)] if label is ... else [label]
    return unfolded


def _plain_axes(x: Tensor, labels: Labels, sizes: dict[Any, int]) -> tuple[Tensor, Labels]:
    """Take diagonals where a label stands twice, and leave out axes of size 1 that broadcast."""
    for label in set(labels):
        while labels.count(label) > 1:
            i = labels.index(label)
            j = labels.index(label, i + 1)
            x = x.diagonal(0, i, j)
            labels = [name for axis, name in enumerate(labels) if axis not in (i, j)] + [label]
    kept = [axis for axis, label in enumerate(labels) if x.shape[axis] == sizes[label]]
    return x.reshape([x.shape[axis] for axis in kept]), [labels[axis] for axis in kept]


def contract(terms: list[tuple[Tensor, Labels]], result: Labels) -> Tensor:
    """Multiply all and sum over the labels that the result does not have."""
    x, labels = terms[0]
    for i, (y, others) in enumerate(terms[1:], 2):
        needed = {*result, *(label for _, later in terms[i:] for label in later)}
        x, labels = _product(x, labels, y, others, needed)
    x, labels = _summed(x, labels, set(result))
    # An operand's axis of size 1 that broadcast against no other axis is back in its place.
    return x.transpose([labels.index(label) for label in result]) if labels != result else x


def _summed(x: Tensor, labels: Labels, needed: set[Any]) -> tuple[Tensor, Labels]:
    axes = tuple(axis for axis, label in enumerate(labels) if label not in needed)
    # Of booleans it is whether any is true, as in NumPy.
    summed = x.any if x.dtype.kind == "b" else x.sum
    return (summed(axes), [label for label in labels if label in needed]) if axes else (x, labels)


def _product(x: Tensor, left: Labels, y: Tensor, right: Labels, needed: set[Any]) -> tuple[Tensor, Labels]:
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

    a = x.transpose([left.index(label) for label in [*batch, *rows, *inside]] or None)
    b = y.transpose([right.index(label) for label in [*batch, *inside, *columns]] or None)
    a = a.reshape(size(batch), size(rows), size(inside))
    b = b.reshape(size(batch), size(inside), size(columns))
    labels = [*batch, *rows, *columns]
    return (a @ b).reshape([sizes[label] for label in labels]), labels
