"""Picking and replacing numbers: indices, gather, masks, triangles, padding."""

from __future__ import annotations

import builtins
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import _core
from .._errors import shown
from ._dtypes import bool_, int64
from ._elementwise import as_numbers, as_tensor, cast, is_operand
from ._shaping import axis_of
from ._tensor import Core, Tensor, _core_shape, as_core, both, constant, wrap


def _items(index: Any) -> tuple[tuple[Any, ...], builtins.bool]:
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
        elif item is not None and item is not Ellipsis and not isinstance(item, (builtins.bool, np.bool_)):
            numbers = np.asarray(item)
            item = operator.index(item) if not numbers.shape and numbers.dtype.kind in "iu" else numbers
        items.append(item)
    return tuple(items), builtins.any(
        isinstance(item, (np.ndarray, builtins.bool, np.bool_)) for item in items
    )


# By whole numbers and slices; of the core, which has the names of these views.
_viewed = _core.direct(
    "__getitem__", lambda t, items: wrap(Core.__getitem__(t, items), "SliceBackward0", t._kind)
)


def _numbers_first(t: Tensor, items: tuple[Any, ...]) -> tuple[Tensor, tuple[Any, ...]]:
    """What whole numbers select, as a view, and the other items: NumPy would let them join the arrays."""
    if not builtins.any(type(item) is builtins.int for item in items):
        return t, items
    axes = [
        item.ndim
        if isinstance(item, np.ndarray) and item.dtype.kind == "b"
        else builtins.int(item is not None)
        for item in items
    ]
    rest = len(_core_shape(t)) - sum(n for n, item in zip(axes, items, strict=True) if item is not Ellipsis)
    first: list[Any] = []
    for n, item in zip(axes, items, strict=True):
        number = type(item) is builtins.int
        first += [item] if number else [slice(None)] * (rest if item is Ellipsis else n)
    return _viewed(t, tuple(first)), tuple(item for item in items if type(item) is not builtins.int)


def _get_item(t: Tensor, index: Any) -> Tensor:
    items, advanced = _items(index)
    if not advanced:
        return _viewed(t, items)  # type: ignore[no-any-return]
    t, items = _numbers_first(t, items)
    return wrap(Core.__getitem__(t, items), "IndexBackward0", t._kind)


def set_item(t: Tensor, index: Any, value: Any) -> None:
    if not is_operand(value):
        value = as_tensor(value)
    items, advanced = _items(index)
    if advanced:
        t, items = _numbers_first(t, items)
    new = cast(value, t.dtype) if isinstance(value, Core) else constant(value, t.dtype)
    Core.__setitem__(t, items, new)
    t._op = "IndexPutBackward0" if advanced else "CopySlices"


Tensor.__getitem__ = _core.direct("__getitem__", _get_item)
Tensor.__setitem__ = set_item


def _at(t: Tensor, dim: Any, operation: str, item: Any) -> Any:
    """What an item selects of an axis."""
    return _viewed(t, (slice(None),) * axis_of(dim, len(t.shape), operation) + (item,))


@both("select")
def select(input: Tensor, dim: builtins.int, index: Any) -> Tensor:
    """One entry of an axis, which goes."""
    return _at(input, dim, "select", operator.index(index))  # type: ignore[no-any-return]


@both("narrow")
def narrow(input: Tensor, dim: builtins.int, start: Any, length: builtins.int) -> Tensor:
    """``length`` entries of an axis from ``start`` on."""
    first, count = operator.index(start), operator.index(length)
    total = input.shape[axis_of(dim, len(input.shape), "narrow")]
    begin = first + total if first < 0 else first
    if not 0 <= begin <= begin + count <= total:
        raise RuntimeError(
            f"narrow: start and length must stay within the {total} entries of axis {dim}; got start {first}, "
            f"length {count}"
        )
    return _at(input, dim, "narrow", slice(begin, begin + count))  # type: ignore[no-any-return]


def renamed(t: Tensor, op: str) -> Tensor:
    t._op = op
    return t


@both("unbind")
def unbind(input: Tensor, dim: builtins.int = 0) -> tuple[Tensor, ...]:
    """The entries of an axis."""
    count = input.shape[axis_of(dim, len(input.shape), "unbind")]
    return tuple(renamed(_at(input, dim, "unbind", i), "UnbindBackward0") for i in range(count))


@both("split")
def split(input: Tensor, split_size_or_sections: Any, dim: builtins.int = 0) -> tuple[Tensor, ...]:
    """Parts of equal size along an axis, or of the sizes given."""
    if not input.shape:
        raise RuntimeError("split: the Tensor must have at least one axis; got one of 0 axes")
    total, given = input.shape[axis_of(dim, len(input.shape), "split")], split_size_or_sections
    if isinstance(given, builtins.int):
        parts = [builtins.min(given, total - i) for i in range(0, total, given)] if given > 0 else []
        parts, label = parts or [0], "SplitBackward0"
    else:
        parts, label = [operator.index(part) for part in given], "SplitWithSizesBackward0"
    if builtins.sum(parts) != total:
        raise RuntimeError(f"split: sections must sum to the size of axis {dim}, {total}; got {shown(given)}")
    begins = [builtins.sum(parts[:i]) for i in range(len(parts))]
    return tuple(
        renamed(_at(input, dim, "split", slice(begin, begin + n)), label)
        for begin, n in zip(begins, parts, strict=True)
    )


@both("chunk")
def chunk(input: Tensor, chunks: builtins.int, dim: builtins.int = 0) -> tuple[Tensor, ...]:
    """At most that many parts of equal size along an axis."""
    total = input.shape[axis_of(dim, len(input.shape), "chunk")]
    if chunks < 1:
        raise RuntimeError(f"chunk: chunks must be at least 1; got {chunks}")
    return split(input, -(-total // chunks) if total else [0] * chunks, dim)


def _picking(name: str, op: str, core: Any, by_entries: builtins.bool = False) -> Callable[..., Any]:
    """A function of a Tensor, an axis, an index and perhaps more; a Tensor without axes counts as one of size 1."""

    def pick(t: Tensor, dim: builtins.int, index: Any, *more: Any) -> Tensor:
        axis, numbers = axis_of(dim, len(_core_shape(t)), name), _whole_numbers(index, name)
        if _core_shape(t):
            return wrap(core(t, axis, numbers, *more), op, t._kind)
        result = core(Core.reshape(t, 1), 0, numbers if by_entries else numbers.reshape(-1), *more)
        shape = (
            _core_shape(numbers)
            if name == "gather"
            else ()
            if _core_shape(result) == (1,)
            else _core_shape(result)
        )
        return wrap(Core.reshape(result, shape), op, t._kind)

    return pick


def _whole_numbers(index: Any, operation: str) -> Any:
    """An index, which must hold whole numbers: booleans would select by truth."""
    index = as_tensor(index)
    if (kind := index.dtype).kind != 1 and index.numel():
        raise RuntimeError(f"{operation}: index must hold whole numbers; got dtype {kind}")
    return cast(index, int64)


_gather = _picking("gather", "GatherBackward0", _core.gather)
_select = _picking("index_select", "IndexSelectBackward0", _core.index_select, True)
_put = _picking("scatter", "ScatterBackward0", _core.scatter)
_put_one = _picking("scatter", "ScatterBackward1", _core.scatter)
_add = _picking("scatter_add", "ScatterAddBackward0", _core.scatter)
_add_entries = _picking("index_add", "IndexAddBackward0", _core.index_put, True)
_put_entries = _picking("index_copy", "IndexCopyBackward0", _core.index_put, True)


@both("gather")
def gather(input: Tensor, dim: builtins.int, index: Tensor, *, sparse_grad: builtins.bool = False) -> Tensor:
    """``t[i, index[i, j], ...]``: along an axis, the entries whose numbers are given."""
    return _gather(input, dim, index)  # type: ignore[no-any-return]


@both("index_select")
def index_select(input: Tensor, dim: builtins.int, index: Tensor) -> Tensor:
    """Entries of an axis by number."""
    return _select(input, dim, index)  # type: ignore[no-any-return]


@both("take_along_dim")
def take_along_dim(input: Tensor, indices: Tensor, dim: builtins.int | None = None) -> Tensor:
    """As `gather`; axes of size 1 of ``indices`` are expanded."""
    if dim is None:
        return gather(input.reshape(-1), 0, indices.reshape(-1))
    axis = axis_of(dim, len(input.shape), "take_along_dim")
    shape = [indices.shape[i] if i == axis else size for i, size in enumerate(input.shape)]
    return gather(input, dim, indices.expand(shape))


@both("take", label="TakeBackward0")
def take(input: Tensor, index: Tensor) -> Any:
    """Entries by number among all."""
    return np.take(as_core(input), as_numbers(_whole_numbers(index, "take")))


def _values(name: str, t: Tensor, value: Any) -> Any:
    """What is put or added: a number in the dtype of `t`, or a Tensor of that dtype."""
    if not isinstance(value, Core):
        return constant(value, t.dtype)
    if (kind := as_tensor(value).dtype) is not t.dtype:
        raise RuntimeError(f"{name}: the values must have the Tensor's dtype {t.dtype}; got {kind}")
    return value


def _part(name: str, t: Tensor, src: Any, index: Any) -> Any:
    """What of `src` goes to the places of an index."""
    values, shape = _values(name, t, src), _core_shape(index)
    if not isinstance(src, Core) or (own := _core_shape(values)) == shape:
        return values
    if len(own) != len(shape):
        raise RuntimeError(f"{name}: src must have as many axes as index {shape}; got {own}")
    return Core.__getitem__(values, tuple(slice(0, n) for n in shape))


@both("scatter")
def scatter(
    input: Tensor,
    dim: builtins.int,
    index: Tensor,
    src: Any = None,
    *,
    value: Any = None,
    reduce: str | None = None,
) -> Tensor:
    """A copy in which ``t[i, index[i, j], ...]`` are the entries of ``src``, or ``value``; reduce="add" adds them."""
    if reduce not in (None, "add"):
        raise RuntimeError(f"scatter: reduce must be 'add' or None; got {shown(reduce)}")
    given = src if src is not None else value
    put = _put if isinstance(given, Core) else _put_one
    return put(input, dim, index, _part("scatter", input, given, index), reduce == "add")  # type: ignore[no-any-return]


@both("scatter_add")
def scatter_add(input: Tensor, dim: builtins.int, index: Tensor, src: Tensor) -> Tensor:
    """A copy in which the entries of ``src`` are added at ``t[i, index[i, j], ...]``."""
    return _add(input, dim, index, _part("scatter_add", input, src, index), True)  # type: ignore[no-any-return]


@both("index_add")
def index_add(input: Tensor, dim: builtins.int, index: Tensor, source: Tensor, *, alpha: Any = 1) -> Tensor:
    """A copy in which the entries of ``source`` are added to those of an axis by number."""
    rows = source if alpha == 1 else source * alpha
    return _add_entries(input, dim, index, _values("index_add", input, rows), True)  # type: ignore[no-any-return]


@both("index_copy")
def index_copy(input: Tensor, dim: builtins.int, index: Tensor, source: Tensor) -> Tensor:
    """A copy in which the entries of an axis by number are those of ``source``."""
    return _put_entries(input, dim, index, _values("index_copy", input, source), False)  # type: ignore[no-any-return]


@both("index_fill")
def index_fill(input: Tensor, dim: builtins.int, index: Tensor, value: Any) -> Tensor:
    """A copy in which the entries of an axis by number are one number."""
    number = cast(value, input.dtype) if isinstance(value, Core) else constant(value, input.dtype)
    return _put_entries(input, dim, index, number, False)  # type: ignore[no-any-return]


@both("masked_fill", label="MaskedFillBackward0")
def masked_fill(input: Tensor, mask: Tensor, value: Any) -> Any:
    """``value`` where the mask is True."""
    if not isinstance(mask, Core) or as_tensor(mask).dtype is not bool_:
        raise TypeError("masked_fill: mask must be a Tensor of booleans; compare it (mask == 0) to have one")
    return _core.where(mask, constant(value.item() if isinstance(value, Core) else value, input.dtype), input)


@both("masked_select", label="MaskedSelectBackward0")
def masked_select(input: Tensor, mask: Tensor) -> Any:
    """The entries at which the mask is True, on one axis."""
    shape = np.broadcast_shapes(tuple(input.shape), tuple(mask.shape))
    return Core.__getitem__(_core.expanded(input, shape), (np.broadcast_to(as_numbers(mask), shape),))


@both("roll", label="RollBackward0")
def roll(input: Tensor, shifts: Any, dims: Any = None) -> Any:
    """Axes turned by some places."""
    places, axes = (
        None if one is None else tuple(np.atleast_1d(as_numbers(one)).tolist()) for one in (shifts, dims)
    )
    if len(places or ()) != (1 if axes is None else len(axes)):
        raise RuntimeError(f"roll: shifts and dims must be as many; got {shown(shifts)} and {shown(dims)}")
    return np.roll(as_core(input), places or (), axes)
