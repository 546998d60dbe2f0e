"""Picking and replacing numbers: indices, gather, masks, triangles, padding."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import _core
from .._errors import shown
from ._change import in_place
from ._dtypes import bool_, int64
from ._elementwise import as_numbers, as_tensor, cast, is_operand
from ._shaping import axis_of
from ._tensor import Core, Tensor, _core_shape, both, constant, method, view, wrap

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
    new = cast(value, t.dtype) if isinstance(value, Core) else constant(value, t.dtype)
    Core.__setitem__(t, items, new)
    t._op = "IndexPutBackward0" if advanced else "CopySlices"


Tensor.__getitem__ = _core.direct("__getitem__", _get_item)
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


def _whole_numbers(index: Any, operation: str) -> Any:
    """An index, which must hold whole numbers: booleans would select by truth."""
    index = as_tensor(index)
    if (kind := index.dtype).kind == 1:
        return index
    if index.numel():
        raise RuntimeError(f"{operation}: index must hold whole numbers; got dtype {kind}")
    return cast(index, int64)


def _picking(name: str, op: str, core: Any, by_entries: builtins.bool = False) -> Callable[..., Any]:
    """A function of a Tensor, an axis, an index and perhaps more; a Tensor without axes counts as one of size 1."""

    def pick(t: Tensor, dim: builtins.int, index: Any, *more: Any) -> Tensor:
        axis, numbers = axis_of(dim, len(_core_shape(t)), name), _whole_numbers(index, name)
        if _core_shape(t):
            return wrap(core(t, axis, numbers, *more), op, t._kind)
        rows = numbers if by_entries else numbers.reshape(-1)
        result = core(Core.reshape(t, 1), 0, rows, *more)
        if name == "gather":
            return wrap(Core.reshape(result, _core_shape(numbers)), op, t._kind)
        return wrap(Core.reshape(result, ()) if _core_shape(result) == (1,) else result, op, t._kind)

    return pick


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


@both("take")
def take(input: Tensor, index: Tensor) -> Tensor:
    """Entries by number among all."""
    numbers = as_numbers(_whole_numbers(index, "take"))
    return wrap(Core.__getitem__(Core.reshape(input, -1), (numbers,)), "TakeBackward0", input._kind)


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


@both("masked_fill")
def masked_fill(t: Tensor, mask: Tensor, value: Any) -> Tensor:
    """``value`` where the mask is True."""
    if not isinstance(mask, Core) or as_tensor(mask).dtype is not bool_:
        raise TypeError("masked_fill: mask must be a Tensor of booleans; compare it (mask == 0) to have one")
    number = constant(value.item() if isinstance(value, Core) else value, t.dtype)
    return wrap(_core.where(mask, number, t), "MaskedFillBackward0", t._kind)


@both("masked_select")
def masked_select(t: Tensor, mask: Tensor) -> Tensor:
    """The entries at which the mask is True, on one axis."""
    shape = np.broadcast_shapes(tuple(t.shape), tuple(mask.shape))
    chosen = np.broadcast_to(as_numbers(mask), shape)
    return wrap(Core.__getitem__(_core.expanded(t, shape), (chosen,)), "MaskedSelectBackward0", t._kind)


@both("roll")
def roll(input: Tensor, shifts: Any, dims: Any = None) -> Tensor:
    """Axes turned by some places."""
    shifts, dims = (
        value
        if value is None
        else tuple(one.__index__() for one in (value if isinstance(value, (tuple, list)) else (value,)))
        for value in (shifts, dims)
    )
    if len(shifts) != (1 if dims is None else len(dims)):
        raise RuntimeError(f"roll: shifts and dims must be as many; got {shown(shifts)} and {shown(dims)}")
    places = np.roll(np.arange(input.numel()).reshape(input.shape), shifts, dims)
    flat = Core.__getitem__(Core.reshape(input, -1), (places,))
    return wrap(Core.reshape(flat, input.shape), "RollBackward0", input._kind)


def in_place_of(*names: str) -> None:
    """Define the forms in place of methods."""
    for name in names:

        def f(
            t: Tensor, *args: Any, _f: Any = getattr(Tensor, name), _name: str = name, **options: Any
        ) -> Tensor:
            return in_place(t, _f, f"{_name}_", *args, **options)

        f.__doc__ = f"`{name}`, in place."
        method(f"{name}_")(f)


in_place_of("masked_fill", "scatter", "scatter_add", "index_add", "index_copy", "index_fill")
