"""Making Tensors: of numbers, filled, counted; and what turns one into another dtype, device or copy.

full: One number everywhere.
full_like: One number everywhere, in the shape and dtype of another.
new_full: `full` in the dtype of this one.
new_tensor: `tensor` in the dtype of this one.
eye: 1 on the diagonal, 0 elsewhere.
"""

from __future__ import annotations

import functools
import inspect
from array import array
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import _core
from .._words.errors import shown
from . import _dtypes
from ._arguments import integer, number
from ._arguments import tensor as tensor_of
from ._dtypes import check_device, computed, dtype, int64
from ._elementwise import as_tensor as _as_tensor
from ._elementwise import cast, common_dtype, is_operand, result_dtype
from ._shaping import in_memory_order, sizes
from ._tensor import Core, Tensor, _core_shape, _core_size, named, wrap


def _is_list(data) -> bool:
    """Whether it holds numbers in order: a list, a range, an array of Python's."""
    return isinstance(data, (list, tuple)) or (
        isinstance(data, Sequence | array) and not isinstance(data, (str, bytes))
    )


def kind_of(data) -> dtype:
    """The dtype that `torch.tensor` gives to data."""
    if isinstance(data, np.generic):
        data = np.asarray(data)  # NumPy's numbers have a dtype of their own
    if is_operand(data):
        return result_dtype(data)  # type: ignore[no-any-return]
    if _is_list(data):
        kinds = [kind_of(item) for item in data]
        return functools.reduce(common_dtype, kinds) if kinds else _dtypes.get_default_dtype()
    if hasattr(data, "__array__"):
        return kind_of(np.asarray(data))
    raise TypeError(f"tensor: data must be numbers, lists of them or arrays; got {shown(data)}")


def numbers_of(data):
    """Data as an array, with Tensors in lists taken apart."""
    if _is_list(data):
        parts = [numbers_of(item) for item in data]
        if len({part.shape for part in parts}) > 1:
            found = " and ".join(dict.fromkeys(str(part.shape) for part in parts))
            raise ValueError(f"tensor: data must be lists of equal lengths; got parts of the shapes {found}")
        return np.asarray(parts)
    wide = isinstance(data, int) and data >= 2**63  # no uint64, which becomes a float beside other integers
    return data.detach().numpy() if isinstance(data, Core) else np.asarray(data, object if wide else None)


def finished(
    numbers, kind: dtype, operation: str, device=None, requires_grad: bool = False, fresh: bool = False
) -> Tensor:
    """A leaf of these numbers in a dtype, as the factories' common arguments ask for it.

    What nobody else holds is `fresh`, and keeps the order of its axes in memory.
    """
    check_device(device, operation)
    numbers = np.asarray(numbers)
    if numbers.dtype != kind.core:
        if numbers.dtype.kind == "c":
            raise TypeError(
                f"{operation}: data must be real numbers because qkv computes in no others; got {shown(numbers)}"
            )
        if kind is int64 and numbers.dtype.kind == "O":  # Python's integers, which have no bounds
            for number in numbers.flat:
                if not -(2**63) <= number < 2**63:
                    raise ValueError(
                        f"{operation}: data must fit in int64 because the dtype does; got {number}"
                    )
        with np.errstate(invalid="ignore", over="ignore"):
            numbers = numbers.astype(kind.core)
    ordered = numbers.flags.c_contiguous or not fresh
    t = wrap(_core.tensor(numbers) if ordered else _core.shared(numbers), "", kind)
    if requires_grad:
        t.requires_grad = True
    return t


def factory(name: str, kind=None, like: bool = False) -> Callable[[Any], Any]:
    """Decorate what gives the numbers of ``torch.<name>``, to which `dtype`, `device` and their like are added.

    ``new_<name>`` is a method.

    The dtype is `kind`, or that of the first argument where the new Tensor is like it, or that of the numbers: of
    floating ones the default dtype. A function with a parameter ``dtype`` is told it, as the core has it.
    """

    def decorate(f):
        own = inspect.signature(f).parameters
        told = "dtype" in own
        f.__name__ = f.__qualname__ = name  # which a wrong keyword shows

        def make(
            *args,
            dtype=None,
            device=None,
            requires_grad=False,
            layout=None,
            pin_memory=False,
            memory_format=None,
            **options,
        ):
            if like and not args and "input" not in options:
                raise TypeError(f"{name}: input must be given")
            of_first = _as_tensor(args[0] if args else options["input"]).dtype if like else kind and kind()
            chosen = computed(dtype or of_first, name) if dtype or of_first else None
            numbers = f(*args, dtype=chosen, **options) if told else f(*args, **options)
            if chosen is None:
                chosen = {"b": _dtypes.bool_, "i": int64}.get(numbers.dtype.kind, _dtypes.get_default_dtype())
            return finished(numbers, chosen, name, device, requires_grad, fresh=True)

        _, *common, _ = inspect.signature(make).parameters.values()
        functools.update_wrapper(make, f)
        make.__signature__ = inspect.Signature([*(p for p in own.values() if p.name != "dtype"), *common])
        return named(("." if name.startswith("new_") else "torch.") + name)(make)

    return decorate


@named("torch.tensor")
def tensor(data, *, dtype=None, device=None, requires_grad: bool = False, pin_memory: bool = False):
    """Copy numbers into a Tensor.

    Examples
    --------
    >>> import qkv.torch as torch
    >>> torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    tensor([[1., 2.],
            [3., 4.]])
    """
    kind = kind_of(data) if dtype is None else computed(dtype, "tensor")
    numbers = numbers_of(data)
    return finished(numbers, kind, "tensor", device, requires_grad)


@named("torch.as_tensor")
def as_tensor(data, dtype=None, device=None) -> Tensor:
    """A Tensor as it is, an array in its memory, anything else as `tensor` copies it."""
    check_device(device, "as_tensor")
    if isinstance(data, np.ndarray):
        t = from_numpy(data)
    else:
        t = _as_tensor(data) if isinstance(data, Core) else tensor(data)
    return t if dtype is None else cast(t, computed(dtype, "as_tensor"))


@named("torch.from_numpy")
def from_numpy(array: np.ndarray) -> Tensor:
    """A Tensor that shares an array's memory; read-only arrays and narrow dtypes are copied."""
    if not isinstance(array, np.ndarray):
        raise TypeError(f"from_numpy: expected an np.ndarray; got {shown(array)}")
    if any(step < 0 for step in array.strides):
        raise ValueError("from_numpy: strides must not be negative, as in PyTorch; copy the array first")
    found = _core.shared(array)
    if found is not None:
        return wrap(found)
    copied, kind = _core.promoted(array)
    return wrap(copied, "", kind)


def _new(cls: type[Tensor], *data, device=None):
    """``torch.Tensor([1, 2])`` as float32, ``torch.Tensor(2, 3)`` of that shape."""
    check_device(device, cls.__name__)
    is_tensor = len(data) == 1 and isinstance(data[0], Core)
    made = data[0].detach() if is_tensor else _of_data(_dtypes.get_default_dtype(), *data)
    return _core.instance_of(cls, made)


Tensor.__new__ = _new


def _of_data(kind: dtype, *data) -> Any:
    if len(data) == 1 and not isinstance(data[0], (int, _dtypes.Size)):
        return tensor(data[0], dtype=kind)
    return zeros(*(data or (0,)), dtype=kind)


def _legacy(name: str, kind: dtype) -> None:
    def make(*data):
        return _of_data(kind, *data)

    make.__doc__ = f"As `tensor` with ``dtype=torch.{kind.name}``; of numbers a shape."
    named(f"torch.{name}")(make)


for _name, _kind in _dtypes.TYPE_NAMES.items():
    _legacy(_name, _kind)


def _shape(name: str, size: tuple[Any, ...]) -> tuple[int, ...]:
    shape = sizes(size)
    if min(shape, default=0) < 0:
        raise RuntimeError(f"{name}: sizes must be at least 0; got {shown(shape)}")
    return shape


def _filled(name: str, value):
    def make(*size, dtype):
        shape = _shape(name, size)
        return np.full(shape, value, dtype.core) if value else np.zeros(shape, dtype.core)

    def like(input, dtype):
        return in_memory_order(input, lambda shape: np.full(shape, value, dtype.core))

    make.__doc__ = f"A Tensor of that shape{'' if name == 'empty' else ' of ' + name}."
    like.__doc__ = f"`{name}` in the shape and dtype of another."
    factory(f"{name}_like", like=True)(like)
    new = factory(f"new_{name}", like=True)(lambda t, *size, dtype: make(*size, dtype=dtype))
    new.__doc__ = f"`{name}` in the dtype of this one."
    return factory(name, _dtypes.get_default_dtype)(make)


zeros = _filled("zeros", 0)
ones = _filled("ones", 1)
empty = _filled("empty", 0)


def _full(size, fill_value) -> np.ndarray:
    shape: Any = _shape("full", (size,))
    return np.full(shape, fill_value)


full: Any = factory("full")(lambda size, fill_value: _full(size, fill_value))
factory("full_like", like=True)(
    lambda input, fill_value: in_memory_order(input, lambda shape: _full(shape, fill_value))
)
factory("new_full", like=True)(lambda t, size, fill_value: _full(size, fill_value))
factory("new_tensor", like=True)(lambda t, data: numbers_of(data))
factory("eye", _dtypes.get_default_dtype)(lambda n, m=None: np.eye(n, m))


@factory("arange")
def arange(start: Any = ..., end: Any = ..., step=1):
    """Numbers from ``start`` (0) up to ``end``, without it, in steps."""
    given = [one for one in (start, end) if one is not ...]
    if not given:
        raise TypeError("arange: end must be given; got neither start nor end")
    first, last, by = (number("arange", "start, end and step", one) for one in (0, *given, step)[-3:])
    if by == 0 or (last - first) / by < 0:
        raise RuntimeError(f"arange: step must lead from start to end; got {first}, {last}, step {by}")
    whole = all(isinstance(value, (int, np.integer)) for value in (first, last, by))
    count = -(-(last - first) // by) if whole else int(np.ceil((last - first) / by))
    return first + np.arange(count, dtype=np.int64 if whole else np.float64) * by


@factory("linspace", _dtypes.get_default_dtype)
def linspace(start: float, end: float, steps: int, dtype):
    """``steps`` numbers from ``start`` to ``end``, both included, computed from either end as PyTorch does."""
    ends, count = np.array([start, end]), integer("linspace", "steps", steps, 0)
    places = np.arange(count)
    with np.errstate(all="ignore"):
        first, last = ends.astype(dtype.core)
        by = (last - first) / np.dtype(dtype.core).type(max(count - 1, 1))
        front, behind = places.astype(dtype.core), (count - 1 - places).astype(dtype.core)
        return np.where((places < count // 2) | (count == 1), first + by * front, last - by * behind)


@named("torch.meshgrid")
def meshgrid(*tensors, indexing: str = "ij") -> tuple[Tensor, ...]:
    """Coordinates of all points of a grid."""
    if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)):
        tensors = tuple(tensors[0])
    if indexing not in ("ij", "xy"):
        raise RuntimeError(f"meshgrid: indexing must be 'ij' or 'xy'; got {shown(indexing)}")
    if not tensors or any(len(_core_shape(tensor_of("meshgrid", "tensors", t))) > 1 for t in tensors):
        raise RuntimeError("meshgrid: tensors must be Tensors of at most one axis; got none, or others")
    shape = tuple(_core_size(t) for t in tensors)
    grids = []
    for i, t in enumerate(tensors):
        along = t.reshape((1,) * i + (-1,) + (1,) * (len(shape) - i - 1)).expand(shape)
        grids.append(along.transpose(0, 1) if indexing == "xy" and len(shape) > 1 else along)
    return tuple(grids)
