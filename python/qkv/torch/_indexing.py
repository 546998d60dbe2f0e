"""Picking and replacing numbers: indices, gather, masks, triangles.

select: One entry of an axis, which goes.
unbind: The entries of an axis.
diagonal: The diagonal of two axes, as the last axis.
gather: ``t[i, index[i, j], ...]``: along an axis, the entries whose numbers are given.
index_select: Entries of an axis by number.
index_fill: A copy in which the entries of an axis by number are one number.
scatter_add: A copy in which the entries of ``src`` are added at ``t[i, index[i, j], ...]``.
"""

from __future__ import annotations

import itertools
import operator
from typing import Any

import numpy as np

from .. import _core
from .._words.errors import shown
from ._arguments import NUMBERS, integer
from ._axes import axis_of
from ._dtypes import bool_, int64
from ._elementwise import as_tensor, cast, is_operand
from ._shaping import sizes
from ._tensor import FUNCTIONS, Core, Tensor, _core_shape, _core_size, as_core, define, named, wrap


def _items(index) -> tuple[tuple[Any, ...], bool]:
    """An index as a tuple with whole numbers for 0-d Tensors, and whether it selects by arrays."""
    items: list[Any] = []
    for item in index if isinstance(index, tuple) else (index,):
        if isinstance(item, Core):
            if (kind := as_tensor(item).dtype).kind == 2:
                raise IndexError(f"tensors used as indices must be whole numbers or booleans; got {kind}")
            item = item.detach().numpy()
        if isinstance(item, slice):
            parts = (item.start, item.stop, item.step)
            item = slice(*(None if part is None else operator.index(part) for part in parts))
            if item.step is not None and item.step <= 0:
                raise ValueError("step must be greater than zero")
        elif item is not None and item is not Ellipsis:
            numbers = np.asarray(item)
            item = operator.index(item) if not numbers.shape and numbers.dtype.kind in "iu" else numbers
        items.append(item)
    return tuple(items), any(isinstance(item, np.ndarray) for item in items)


# By whole numbers and slices; of the core, which has the names of these views.
def _viewed(t, items):
    label = "Select" if items.__class__ is int else "Slice" if items.__class__ is slice else _label(items)
    return wrap(Core.__getitem__(t, items), f"{label}Backward0", t._kind)


def _label(items) -> str:
    """What PyTorch calls a view: by its last item that selects."""
    label = "Alias"
    for place, item in enumerate(items):
        if item is None:
            label = "Unsqueeze"
        elif item.__class__ is slice:
            label = "Slice" if place == 0 or item != slice(None) else label
        elif item is not Ellipsis:
            label = "Select"
    return label


def _numbers_first(t, items: tuple[Any, ...]) -> tuple[Tensor, tuple[Any, ...]]:
    """What whole numbers select, as a view, and the other items: NumPy would let them join the arrays."""
    axes = [
        item.ndim if isinstance(item, np.ndarray) and item.dtype.kind == "b" else int(item is not None)
        for item in items
    ]
    rest = len(_core_shape(t)) - sum(n for n, item in zip(axes, items, strict=True) if item is not Ellipsis)
    first: list[Any] = []
    for n, item in zip(axes, items, strict=True):
        first += [item] if type(item) is int else [slice(None)] * (rest if item is Ellipsis else n)
    others = tuple(item for item in items if type(item) is not int)
    return (_viewed(t, tuple(first)), others) if len(others) < len(items) else (t, items)


_PLAIN = {int, slice, type(None), type(Ellipsis)}


def _get_item(t, index) -> Tensor:
    if index.__class__ is int or (index.__class__ is slice and index.step is None):
        return _viewed(t, index)  # type: ignore[no-any-return]
    if index.__class__ is tuple:
        for item in index:
            if item.__class__ not in _PLAIN or (item.__class__ is slice and item.step is not None):
                break
        else:
            return _viewed(t, index)  # type: ignore[no-any-return]
    if index.__class__ is Tensor and index.dtype.kind < 2 and _core_shape(index):
        return wrap(Core.__getitem__(t, index), "IndexBackward0", t._kind)
    items, advanced = _items(index)
    if not advanced:
        return _viewed(t, items)  # type: ignore[no-any-return]
    t, items = _numbers_first(t, items)
    return wrap(Core.__getitem__(t, items), "IndexBackward0", t._kind)


def set_item(t, index, value) -> None:
    items, advanced = _items(index)
    if advanced:
        t, items = _numbers_first(t, items)
    Core.__setitem__(t, items, cast(value if is_operand(value) else FUNCTIONS["tensor"](value), t.dtype))
    t._op = "IndexPutBackward0" if advanced else "CopySlices"


Tensor.__getitem__ = _get_item
Tensor.__setitem__ = set_item


def _at(t, dim, operation: str, item):
    """What an item selects of an axis."""
    return _viewed(t, (slice(None),) * axis_of(dim, len(t.shape), operation) + (item,))


def _length(t, dim, operation: str) -> int:
    return t.shape[axis_of(dim, len(t.shape), operation)]  # type: ignore[no-any-return]


def renamed(t, op: str) -> Tensor:
    t._op = op
    return t


@named("split")
def split(input, split_size_or_sections, dim: int = 0) -> tuple[Tensor, ...]:
    """Parts of equal size along an axis, or of the sizes given."""
    if not input.shape:
        raise RuntimeError("split: the Tensor must have at least one axis; got one of 0 axes")
    total, given = _length(input, dim, "split"), split_size_or_sections
    if isinstance(given, int):
        parts = [min(given, total - i) for i in range(0, total, given)] if given > 0 else []
        parts, label = parts or [0], "SplitBackward0"
    else:
        parts, label = [operator.index(part) for part in given], "SplitWithSizesBackward0"
    if sum(parts) != total:
        raise RuntimeError(f"split: sections must sum to the size of axis {dim}, {total}; got {shown(given)}")
    pieces = [slice(end - n, end) for n, end in zip(parts, itertools.accumulate(parts), strict=True)]
    return tuple(renamed(_at(input, dim, "split", piece), label) for piece in pieces)


@named("chunk")
def chunk(input, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """At most that many parts of equal size along an axis."""
    total = _length(input, dim, "chunk")
    if chunks < 1:
        raise RuntimeError(f"chunk: chunks must be at least 1; got {chunks}")
    return split(input, -(-total // chunks) if total else [0] * chunks, dim)


_LABELS = {
    name: "".join(part.capitalize() for part in name.split("_")) + "Backward0"
    for name in ("gather", "scatter", "scatter_add", "index_select", "index_add", "index_fill")
}


def _placed(name: str, t, dim, index, *values) -> Tensor:
    """What the core picks or puts along an axis: entries by their numbers, or by an index of as many axes."""
    t, entries, put = as_tensor(t), name.startswith("index_"), bool(values)
    own = _core_shape(t)
    axis = axis_of(dim, len(own), name)
    if not isinstance(index, (Core, np.ndarray)):
        raise TypeError(f"{name}: index must be a Tensor; got {shown(index)}")
    index = _whole_numbers(index, name)
    given = _core_shape(index)
    if entries and len(given) > 1:
        raise IndexError(f"{name}: index must have one axis; got shape {given}")
    x = t if own else Core.reshape(t, 1)
    places = _core.entries_along(index, x, axis) if entries else index if own else Core.reshape(index, -1)
    if not put:
        y, shape = _core.gather(name, x, places, axis), () if entries else given
    else:
        (value,), word = values, "source" if entries else "src"
        number = name == "scatter" and not isinstance(value, Core)
        if not number and not isinstance(value, Core):
            raise TypeError(f"{name}: the values must be a Tensor; got {shown(value)}")
        if not number and (kind := as_tensor(value).dtype) is not t.dtype:
            raise RuntimeError(f"{name}: the values must have the Tensor's dtype {t.dtype}; got {kind}")
        value = cast(value, t.dtype)
        if entries and name != "index_fill":
            _check_source(name, t, axis, index, value)
        if not entries and not number and _core_shape(value) != given:
            found = _core_shape(value)
            if len(found) != len(given) or any(a < b for a, b in zip(found, given, strict=True)):
                raise RuntimeError(
                    f"{name}: src must have as many axes as index {given}, and as many entries; got {found}"
                )
            value = Core.__getitem__(value, tuple(slice(0, n) for n in given))
        y, shape = _core.scatter(name, x, places, value, axis, name.endswith("add"), word), ()
    label = _LABELS[name] if not (put and name == "scatter" and number) else "ScatterBackward1"
    return wrap(y if own else Core.reshape(y, shape), label, t._kind)


def _check_source(name: str, t, axis: int, index, source) -> None:
    """An entry for each number of the index, in the shape of the others."""
    shape, given = list(_core_shape(t)), list(_core_shape(source))
    if shape:
        shape[axis] = int(_core_size(index))
    if given != (shape or [int(_core_size(index))]) and not (not given and not shape):
        raise RuntimeError(
            f"{name}: source must have the shape {tuple(shape)} because index has an entry for each; got {tuple(given)}"
        )


def _whole_numbers(index, operation: str):
    """An index, which must hold whole numbers: booleans would select by truth."""
    index = as_tensor(index)
    if (kind := index.dtype).kind != 1 and index.numel():
        raise RuntimeError(f"{operation}: index must hold whole numbers; got dtype {kind}")
    return cast(index, int64)


@named("scatter")
def scatter(input, dim: int, index, src=None, *, value=None, reduce: str | None = None) -> Tensor:
    """A copy in which ``t[i, index[i, j], ...]`` are the entries of ``src``, or ``value``; reduce="add" adds them."""
    if reduce not in (None, "add"):
        raise RuntimeError(f"scatter: reduce must be 'add' or None; got {shown(reduce)}")
    given = src if src is not None else value
    if reduce is None:
        return _placed("scatter", input, dim, index, given)
    number = not isinstance(given, Core)
    values = cast(given, input.dtype).expand(index.shape) if number else given
    return renamed(_placed("scatter_add", input, dim, index, values), f"ScatterBackward{int(number)}")


@named("index_add")
def index_add(input, dim: int, index, source, *, alpha=1) -> Tensor:
    """A copy in which the entries of ``source`` are added to those of an axis by number."""
    scaled = source * alpha if isinstance(source, Core) and alpha != 1 else source
    return _placed("index_add", input, dim, index, scaled)


def _one_number(name: str, value, kind):
    """A number, or a Tensor without axes, whose gradient it keeps."""
    if _core_shape(value) if isinstance(value, Core) else not isinstance(value, NUMBERS):
        got = f"one of shape {_core_shape(value)}" if isinstance(value, Core) else shown(value)
        raise RuntimeError(f"{name}: value must be a number, or a Tensor without axes; got {got}")
    return cast(value, kind)


@named("masked_fill: MaskedFill")
def masked_fill(input, mask, value):
    """``value`` where the mask is True."""
    if not isinstance(mask, Core) or as_tensor(mask).dtype is not bool_:
        raise TypeError("masked_fill: mask must be a Tensor of booleans; compare it (mask == 0) to have one")
    return _core.where(mask, _one_number("masked_fill", value, input.dtype), input)


@named("roll: Roll")
def roll(input, shifts, dims=None):
    """Axes turned by some places."""
    places, axes = sizes((shifts,)), None if dims is None else sizes((dims,))
    if len(places) != (1 if axes is None else len(axes)):
        raise RuntimeError(f"roll: shifts and dims must be as many; got {shown(shifts)} and {shown(dims)}")
    return np.roll(as_core(input), places, axes)


def _triangle(name: str, core) -> None:
    triangle: Any = lambda input, diagonal=0: core(input, diagonal)  # noqa: E731
    triangle.__doc__ = f"The {'upper' if name == 'triu' else 'lower'} triangle of matrices, 0 elsewhere."
    named(f"{name}: {name.capitalize()}")(triangle)


_triangle("triu", _core.triu)
_triangle("tril", _core.tril)

_TABLE = {
    "select": lambda input, dim, index: _at(input, dim, "select", integer("select", "index", index)),
    "unbind": lambda input, dim=0: tuple(
        renamed(_at(input, dim, "unbind", i), "UnbindBackward0") for i in range(_length(input, dim, "unbind"))
    ),
    "gather": lambda input, dim, index, *, sparse_grad=False: _placed("gather", input, dim, index),
    "index_select": lambda input, dim, index: _placed("index_select", input, dim, index),
    "diagonal: Diagonal": lambda input, offset=0, dim1=0, dim2=1: Core.diagonal(input, offset, dim1, dim2),
    "scatter_add": lambda input, dim, index, src: _placed("scatter_add", input, dim, index, src),
    "index_fill": lambda input, dim, index, value: _placed(
        "index_fill", input, dim, index, _one_number("index_fill", value, input.dtype)
    ),
}
define(_TABLE)
gather = FUNCTIONS["gather"]
