"""Picking and replacing numbers: indices, gather, masks, triangles, padding."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

from .. import _core
from .._errors import shown
from ._change import in_place
from ._dtypes import bool_
from ._elementwise import as_numbers, as_tensor, cast, is_operand
from ._shaping import axis_of
from ._tensor import Core, Tensor, _core_leaf, _core_shape, both, method, view, wrap, wrap_array

_BASIC = (builtins.int, np.integer, slice, type(None), type(Ellipsis))


def _items(index: Any) -> tuple[tuple[Any, ...], builtins.bool]:
    """An index as a tuple with whole numbers for 0-d Tensors, and whether it selects by arrays."""
    items, advanced = [], False
    for item in index if isinstance(index, tuple) else (index,):
        if isinstance(item, Core):
            kind = as_tensor(item).dtype
            if not _core_shape(item) and kind.kind == 1:
                item = builtins.int(item.item())
            else:
                if kind.kind == 2:
                    raise IndexError(f"tensors used as indices must be whole numbers or booleans; got {kind}")
                item, advanced = item.detach().numpy(), True
        elif isinstance(item, np.ndarray):
            if not item.shape and item.dtype.kind in "iu":
                item = builtins.int(item)
            else:
                advanced = True
        elif isinstance(item, (builtins.bool, np.bool_)) or not isinstance(item, _BASIC):
            advanced = (
                advanced or not hasattr(item, "__index__") or isinstance(item, (builtins.bool, np.bool_))
            )
            item = (
                item
                if isinstance(item, (builtins.bool, np.bool_)) or hasattr(item, "__index__")
                else np.asarray(item)
            )
        elif isinstance(item, slice):
            if any(isinstance(part, Core) for part in (item.start, item.stop, item.step)):
                part = lambda v: None if v is None else v.__index__()  # noqa: E731
                item = slice(part(item.start), part(item.stop), part(item.step))
            if item.step is not None and item.step <= 0:
                raise ValueError("step must be greater than zero")
        items.append(item)
    return tuple(items), advanced


def _viewed(t: Tensor, items: tuple[Any, ...]) -> Tensor:
    """A view by whole numbers, slices, None and an ellipsis, with PyTorch's name."""
    shape = tuple(_core_shape(t))
    named = sum(item is not None and item is not Ellipsis for item in items)
    if named > len(shape):
        raise IndexError(f"too many indices for tensor of dimension {len(shape)}")
    op, axis = "AliasBackward0", 0
    for item in items:
        if item is Ellipsis:
            axis += len(shape) - named
        elif item is None:
            op = "UnsqueezeBackward0"
        elif isinstance(item, slice):
            if item != slice(None) or op == "AliasBackward0":
                op = "SliceBackward0"
            axis += 1
        else:
            if not -shape[axis] <= item < shape[axis]:
                raise IndexError(
                    f"index {item} is out of bounds for dimension {axis} with size {shape[axis]}"
                )
            op, axis = "SelectBackward0", axis + 1
    return view(Core.__getitem__(t, items), op, t)


def _numbers_first(t: Tensor, items: tuple[Any, ...]) -> tuple[Tensor, tuple[Any, ...]]:
    """What whole numbers select, as a view, and the other items: NumPy would let them join the arrays."""
    axes = [
        item.ndim
        if isinstance(item, np.ndarray) and item.dtype.kind == "b"
        else builtins.int(item is not None)
        for item in items
    ]
    if not builtins.any(type(item) is builtins.int for item in items):
        return t, items
    rest = len(_core_shape(t)) - builtins.sum(
        n for n, item in zip(axes, items, strict=True) if item is not Ellipsis
    )
    first: list[Any] = []
    for n, item in zip(axes, items, strict=True):
        if type(item) is builtins.int:
            first.append(item)
        else:
            first += [slice(None)] * (rest if item is Ellipsis else n)
    return _viewed(t, tuple(first)), tuple(item for item in items if type(item) is not builtins.int)


def _get_item(t: Tensor, index: Any) -> Tensor:
    items, advanced = _items(index)
    if advanced:
        t, items = _numbers_first(t, items)
        return wrap(Core.__getitem__(t, items), "IndexBackward0", t._kind)
    return _viewed(t, items)


def set_item(t: Tensor, index: Any, value: Any) -> None:
    if not is_operand(value):
        value = as_tensor(value)
    items, advanced = _items(index)
    if advanced:
        t, items = _numbers_first(t, items)
    new = (
        cast(value, t.dtype)
        if isinstance(value, Core)
        else wrap_array(np.asarray(value).astype(t.dtype.core), t._kind)
    )
    Core.__setitem__(t, items, new)
    if not _core_leaf(t):
        t._op = "IndexPutBackward0" if advanced else "CopySlices"


Tensor.__getitem__ = _get_item
Tensor.__setitem__ = set_item


def _at(axis: builtins.int, item: Any) -> tuple[Any, ...]:
    return (slice(None),) * axis + (item,)


@both("select")
def select(t: Tensor, dim: builtins.int, index: Any) -> Tensor:
    """One entry of an axis, which goes."""
    return _viewed(t, _at(axis_of(dim, len(t.shape), "select"), index.__index__()))


@both("narrow")
def narrow(t: Tensor, dim: builtins.int, start: Any, length: builtins.int) -> Tensor:
    """``length`` entries of an axis from ``start`` on."""
    axis, first, count = axis_of(dim, len(t.shape), "narrow"), start.__index__(), length.__index__()
    total = t.shape[axis]
    if not -total <= first <= total or not 0 <= count <= total - (first % total if first < total else first):
        raise RuntimeError(
            f"narrow: start and length must stay within the {total} entries of axis {axis}; got start {first}, "
            f"length {count}"
        )
    first = first + total if first < 0 else first
    return _viewed(t, _at(axis, slice(first, first + count)))


@both("unbind")
def unbind(t: Tensor, dim: builtins.int = 0) -> tuple[Tensor, ...]:
    """The entries of an axis."""
    axis = axis_of(dim, len(t.shape), "unbind")
    parts = [_viewed(t, _at(axis, i)) for i in range(t.shape[axis])]
    return tuple(renamed(part, "UnbindBackward0") for part in parts)


def renamed(t: Tensor, op: str) -> Tensor:
    t._op = op
    return t


@both("split")
def split(t: Tensor, split_size_or_sections: Any, dim: builtins.int = 0) -> tuple[Tensor, ...]:
    """Parts of equal size along an axis, or of the sizes given."""
    if not t.shape:
        raise RuntimeError("split: the Tensor must have at least one axis; got one of 0 axes")
    axis = axis_of(dim, len(t.shape), "split")
    total, given = t.shape[axis], split_size_or_sections
    op = "SplitBackward0" if isinstance(given, builtins.int) else "SplitWithSizesBackward0"
    if isinstance(given, builtins.int):
        whole, rest = divmod(total, given) if given > 0 else (0, 0)
        parts = [given] * whole + [rest] * (rest > 0) if total else [0]
    else:
        parts = [part.__index__() for part in given]
    if builtins.sum(parts) != total:
        raise RuntimeError(
            f"split: sections must sum to the size of axis {axis}, {total}; got {shown(given)}"
        )
    begins = np.cumsum([0, *parts])
    return tuple(
        renamed(_viewed(t, _at(axis, slice(int(b), int(b) + n))), op)
        for b, n in zip(begins, parts, strict=False)
    )


@both("chunk")
def chunk(t: Tensor, chunks: builtins.int, dim: builtins.int = 0) -> tuple[Tensor, ...]:
    """At most that many parts of equal size along an axis."""
    axis = axis_of(dim, len(t.shape), "chunk")
    if chunks < 1:
        raise RuntimeError(f"chunk: chunks must be at least 1; got {chunks}")
    if not t.shape[axis]:
        return tuple(_viewed(t, _at(axis, slice(0, 0))) for _ in range(chunks))
    return split(t, -(-t.shape[axis] // chunks), axis)


@both("index_select")
def index_select(t: Tensor, dim: builtins.int, index: Tensor) -> Tensor:
    """Entries of an axis by number."""
    axis = axis_of(dim, len(t.shape), "index_select")
    numbers = _entries(t, axis, index, "index_select")
    return wrap(Core.__getitem__(t, _at(axis, numbers)), "IndexSelectBackward0", t._kind)


def _whole_numbers(index: Any, operation: str) -> np.ndarray:
    """An index as numbers; booleans would select by truth."""
    numbers = as_numbers(index)
    if numbers.dtype.kind not in "iu" and numbers.size:
        raise RuntimeError(f"{operation}: index must hold whole numbers; got dtype {as_tensor(index).dtype}")
    return numbers.astype(np.int64, copy=False)


def _check_range(numbers: np.ndarray, size: builtins.int, operation: str) -> None:
    if numbers.size and not (numbers.min() >= 0 and numbers.max() < size):
        raise IndexError(
            f"{operation}: index must be from 0 to {size - 1}; got {numbers.min()} to {numbers.max()}"
        )


def _entries(t: Tensor, axis: builtins.int, index: Any, operation: str) -> np.ndarray:
    """Numbers of entries of an axis."""
    numbers = _whole_numbers(index, operation)
    if numbers.ndim > 1:
        raise IndexError(f"{operation}: index must have one axis; got shape {numbers.shape}")
    _check_range(numbers, t.shape[axis] if t.shape else 1, operation)
    return numbers.reshape(-1)


def _grids(numbers: np.ndarray) -> Any:
    """The numbers of each axis, as an index that broadcasts to all places."""
    return np.indices(numbers.shape, sparse=True)


def _places(t: Tensor, dim: builtins.int, index: Tensor, operation: str) -> tuple[Any, ...]:
    """For each entry of `index` its place in `t`, as an index of NumPy's."""
    axis, numbers = axis_of(dim, len(t.shape), operation), _whole_numbers(index, operation)
    if numbers.ndim != len(t.shape):
        raise RuntimeError(
            f"{operation}: index must have as many axes as the Tensor {tuple(t.shape)}; got {tuple(numbers.shape)}"
        )
    _check_range(numbers, t.shape[axis] if t.shape else 1, operation)
    return tuple(numbers if i == axis else grid for i, grid in enumerate(_grids(numbers)))


def _without(shape: tuple[builtins.int, ...], axis: builtins.int) -> tuple[builtins.int, ...]:
    return tuple(shape[:axis]) + tuple(shape[axis + 1 :])


@both("gather")
def gather(t: Tensor, dim: builtins.int, index: Tensor, *, sparse_grad: builtins.bool = False) -> Tensor:
    """``t[i, index[i, j], ...]``: along an axis, the entries whose numbers are given."""
    axis, numbers = axis_of(dim, len(t.shape), "gather"), _whole_numbers(index, "gather")
    if numbers.ndim != len(t.shape):
        raise RuntimeError(
            f"gather: index must have as many axes as the Tensor {tuple(t.shape)}; got {tuple(numbers.shape)}"
        )
    _check_range(numbers, t.shape[axis] if t.shape else 1, "gather")
    if not t.shape:
        return wrap(Core.copy(t), "GatherBackward0", t._kind)
    whole = Core.__getitem__(t, tuple(slice(None if i == axis else n) for i, n in enumerate(numbers.shape)))
    if _without(_core_shape(whole), axis) != _without(numbers.shape, axis):
        raise RuntimeError(
            f"gather: index must not be larger than the Tensor {tuple(t.shape)} but along dim {dim}; got "
            f"{tuple(numbers.shape)}"
        )
    return wrap(_core.take_along_axis(whole, numbers, axis), "GatherBackward0", t._kind)


@both("take_along_dim")
def take_along_dim(t: Tensor, indices: Tensor, dim: builtins.int | None = None) -> Tensor:
    """As `gather`; axes of size 1 of ``indices`` are expanded."""
    if dim is None:
        return gather(t.reshape(-1), 0, indices.reshape(-1))
    axis = axis_of(dim, len(t.shape), "take_along_dim")
    shape = [indices.shape[i] if i == axis else size for i, size in enumerate(t.shape)]
    return gather(t, dim, wrap_array(np.broadcast_to(as_numbers(indices), shape)))


@both("take")
def take(t: Tensor, index: Tensor) -> Tensor:
    """Entries by number among all."""
    numbers = _whole_numbers(index, "take")
    return wrap(Core.__getitem__(Core.reshape(t, -1), (numbers,)), "TakeBackward0", t._kind)


@both("scatter")
def scatter(t: Tensor, dim: builtins.int, index: Tensor, src: Any = None, *, value: Any = None) -> Tensor:
    """A copy in which ``t[i, index[i, j], ...]`` are the entries of ``src``."""
    places, given = _places(t, dim, index, "scatter"), src if src is not None else value
    if isinstance(given, Core):
        part = Core.__getitem__(given, tuple(slice(0, n) for n in _core_shape(index)))
        return wrap(_core.replaced(t, places, cast(part, t.dtype)), "ScatterBackward0", t._kind)
    number = wrap_array(np.asarray(given, t.dtype.core))
    return wrap(_core.replaced(t, places, number), "ScatterBackward1", t._kind)


@both("scatter_add")
def scatter_add(t: Tensor, dim: builtins.int, index: Tensor, src: Tensor) -> Tensor:
    """A copy in which the entries of ``src`` are added at ``t[i, index[i, j], ...]``."""
    places = _places(t, dim, index, "scatter_add")
    part = Core.__getitem__(src, tuple(slice(0, n) for n in _core_shape(index)))
    flat = np.ravel_multi_index([np.broadcast_to(p, _core_shape(index)) for p in places], tuple(t.shape))
    rows = wrap(Core.reshape(part, (-1, 1)))
    return _added(t, flat.reshape(-1), rows, "ScatterAddBackward0")


def _added(t: Tensor, at: np.ndarray, rows: Any, op: str) -> Tensor:
    """``t`` plus rows that go to the places `at` of its rows of that width: several to one place add up."""
    width = rows.shape[1]
    order = np.argsort(at, kind="stable")
    ends = np.searchsorted(at[order], np.arange(t.numel() // width), side="right")
    running = Core.__getitem__(rows, (order,)) if len(at) else rows
    if t.dtype.kind < 2 or not rows.requires_grad:
        sums = np.zeros((t.numel() // width, width), t.dtype.core)
        np.add.at(sums, at, as_numbers(rows))
        return wrap(Core.__add__(t, _core.tensor(sums.reshape(t.shape))), op, t._kind)
    parts, begin = [], 0
    zero = wrap_array(np.zeros((1, width), t.dtype.core))
    for end in ends.tolist():
        part = Core.__getitem__(running, slice(begin, end))
        parts.append(Core.reshape(Core.sum(part, 0), (1, width)) if end > begin else zero)
        begin = end
    return wrap(Core.__add__(t, Core.reshape(_core.concatenate(parts, 0), tuple(t.shape))), op)


@both("index_add")
def index_add(t: Tensor, dim: builtins.int, index: Tensor, source: Tensor, *, alpha: Any = 1) -> Tensor:
    """A copy in which the entries of ``source`` are added to those of an axis by number."""
    axis = axis_of(dim, len(t.shape), "index_add")
    first = t.movedim(axis, 0).contiguous()
    rows = (source * alpha).movedim(axis, 0).contiguous()
    width = max(first[0].numel(), 1)
    total = _added(first, _entries(t, axis, index, "index_add"), rows.reshape(-1, width), "IndexAddBackward0")
    return renamed(total.movedim(0, axis), total._op)


@both("masked_fill")
def masked_fill(t: Tensor, mask: Tensor, value: Any) -> Tensor:
    """``value`` where the mask is True."""
    if not isinstance(mask, Core) or as_tensor(mask).dtype is not bool_:
        raise TypeError("masked_fill: mask must be a Tensor of booleans; compare it (mask == 0) to have one")
    number = value.item() if isinstance(value, Core) else value
    if t.dtype.kind < 2:
        return wrap_array(np.where(as_numbers(mask), number, as_numbers(t)).astype(t.dtype.core), t.dtype)
    return wrap(_core.where(mask, wrap_array(np.asarray(number, t.dtype.core)), t), "MaskedFillBackward0")


@both("masked_select")
def masked_select(t: Tensor, mask: Tensor) -> Tensor:
    """The entries at which the mask is True, on one axis."""
    shape = np.broadcast_shapes(tuple(t.shape), tuple(mask.shape))
    chosen = np.broadcast_to(as_numbers(mask), shape)
    return wrap(Core.__getitem__(_core.expanded(t, shape), (chosen,)), "MaskedSelectBackward0", t._kind)


@both("roll")
def roll(t: Tensor, shifts: Any, dims: Any = None) -> Tensor:
    """Axes turned by some places."""
    places = np.roll(np.arange(t.numel()).reshape(t.shape), _plain(shifts), _plain(dims))
    return wrap(
        Core.reshape(Core.__getitem__(Core.reshape(t, -1), (places,)), t.shape), "RollBackward0", t._kind
    )


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, (tuple, list)) else value


def in_place_of(*names: str) -> None:
    """Define the forms in place of methods."""
    for name in names:

        def f(
            t: Tensor, *args: Any, _f: Any = getattr(Tensor, name), _name: str = name, **options: Any
        ) -> Tensor:
            return in_place(t, _f, f"{_name}_", *args, **options)

        f.__doc__ = f"`{name}`, in place."
        method(f"{name}_")(f)


in_place_of("masked_fill", "scatter", "scatter_add", "index_add")


@method("index_fill_")
def index_fill_(t: Tensor, dim: builtins.int, index: Tensor, value: Any) -> Tensor:
    """One number at the entries of an axis by number, in place."""
    set_item(t, _at(axis_of(dim, len(t.shape), "index_fill_"), index), value)
    return t
