"""dtypes, devices and sizes under PyTorch's names.

The core computes in float32, float64, int64 and bool. The narrower integers are int64 numbers that are cut to their
width after each operation and carry their dtype with them.
"""

from __future__ import annotations

import math
from typing import Any, NoReturn

import numpy as np

from .._errors import shown


class dtype:  # noqa: N801
    """The type of a Tensor's numbers: ``torch.float32`` and its like."""

    def __init__(self, name: str, core: str, kind: int, width: int) -> None:
        self.name = name
        self.core = core  # of the numbers in memory
        self.kind = kind  # 0 bool, 1 integer, 2 floating; a higher one wins
        self.itemsize = width
        # np.dtype(torch.float32) asks for it
        self.dtype = np.dtype(name if name != "bfloat16" else "float32")
        self.is_floating_point = kind == 2
        self.is_complex = False
        self.is_signed = name not in ("bool", "uint8")

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> Any:
        return named, (self.name,)


float32 = dtype("float32", "float32", 2, 4)
float64 = dtype("float64", "float64", 2, 8)
float16 = dtype("float16", "", 2, 2)
bfloat16 = dtype("bfloat16", "", 2, 2)
int64 = dtype("int64", "int64", 1, 8)
int32 = dtype("int32", "int64", 1, 4)
int16 = dtype("int16", "int64", 1, 2)
int8 = dtype("int8", "int64", 1, 1)
uint8 = dtype("uint8", "int64", 1, 1)
bool_ = dtype("bool", "bool", 0, 1)

ALL = {t.name: t for t in (float32, float64, float16, bfloat16, int64, int32, int16, int8, uint8, bool_)}


def named(name: str) -> dtype:
    """Give the dtype of that name, which `pickle` stored."""
    return ALL[name]


ALIASES = {
    "float": float32,
    "double": float64,
    "half": float16,
    "long": int64,
    "int": int32,
    "short": int16,
    "bool": bool_,
}
OF_CORE = {np.dtype(t.name): t for t in (float32, float64, int64, bool_)}
OF_PYTHON = {bool: bool_, int: int64, float: float32}
# Names that ``x.type()`` and old code use.
TYPE_NAMES = {
    "FloatTensor": float32,
    "DoubleTensor": float64,
    "LongTensor": int64,
    "IntTensor": int32,
    "ShortTensor": int16,
    "CharTensor": int8,
    "ByteTensor": uint8,
    "BoolTensor": bool_,
}
_default = float32


def get_default_dtype() -> dtype:
    """dtype of Python's floats: ``torch.float32`` unless it was set otherwise."""
    return _default


def set_default_dtype(d: dtype) -> None:
    """Let Python's floats become ``torch.float32`` or ``torch.float64``."""
    global _default
    if d is not float32 and d is not float64:
        raise TypeError(f"set_default_dtype: d must be torch.float32 or torch.float64; got {shown(d)}")
    _default = d


def computed(wanted: Any, operation: str) -> dtype:
    """Give the dtype that somebody asked for, if qkv computes in it."""
    if isinstance(wanted, dtype):
        found = wanted
    elif isinstance(wanted, type) and wanted in OF_PYTHON:
        found = _default if wanted is float else OF_PYTHON[wanted]
    elif isinstance(wanted, str) and wanted.removeprefix("torch.") in TYPE_NAMES:
        found = TYPE_NAMES[wanted.removeprefix("torch.")]
    else:
        raise TypeError(f"{operation}: dtype must be a dtype such as torch.float32; got {shown(wanted)}")
    if not found.core:
        raise TypeError(
            f"{operation}: dtype must be torch.float32 or torch.float64 because qkv computes in these; "
            f"got {found!r}"
        )
    return found


def of_numpy(kind: np.dtype[Any]) -> dtype:
    """Give the dtype of an array's numbers."""
    found = ALL.get(kind.name) or {"uint16": int32, "uint32": int64}.get(kind.name)
    if found is None:
        raise TypeError(f"tensor: data must hold numbers of a dtype that torch has; got {kind.name}")
    return float32 if found is float16 else found


class device:  # noqa: N801
    """Where a Tensor lies: ``torch.device("cpu")``, the only one that qkv computes on."""

    def __init__(self, type: Any = "cpu", index: int | None = None) -> None:
        if isinstance(type, device):
            type, index = str(type), None
        if not isinstance(type, str):
            raise TypeError(f"device: type must be a string such as 'cpu'; got {shown(type)}")
        name, _, number = str(type).partition(":")
        self.type: str = name
        self.index = int(number) if number else index

    def __repr__(self) -> str:
        number = "" if self.index is None else f", index={self.index}"
        return f"device(type='{self.type}'{number})"

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, device) and (self.type, self.index) == (other.type, other.index)

    def __hash__(self) -> int:
        return hash((self.type, self.index))


CPU = device("cpu")


def check_device(where: Any, operation: str) -> None:
    """Refuse any device but the CPU."""
    if where is not None and device(where).type != "cpu":
        refuse_device(str(where), operation)


def refuse_device(name: str, operation: str) -> NoReturn:
    """Say that there is only the CPU."""
    raise RuntimeError(f"{operation}: device must be 'cpu' because qkv computes on the CPU; got '{name}'")


class Size(tuple[int, ...]):
    """The sizes of a Tensor's axes: a tuple that prints as PyTorch's.

    Examples
    --------
    >>> import qkv.torch as torch
    >>> torch.ones(2, 3).shape, torch.ones(2, 3).shape.numel()
    (torch.Size([2, 3]), 6)
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return f"torch.Size([{', '.join(map(str, self))}])"

    __str__ = __repr__

    def numel(self) -> int:
        """Product of the sizes."""
        return math.prod(self)

    def __getitem__(self, index: Any) -> Any:
        found = tuple.__getitem__(self, index)
        return Size(found) if isinstance(index, slice) else found

    def __add__(self, other: tuple[int, ...]) -> Size:  # type: ignore[override]
        return Size(tuple.__add__(self, tuple(other)))

    def __radd__(self, other: tuple[int, ...]) -> Size:
        return Size(tuple(other) + tuple(self))


class _Limits:
    _shown: tuple[str, ...] = ()

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={getattr(self, name):g}" for name in self._shown)
        return f"{type(self).__name__}({values}, dtype={self.dtype})"

    dtype = ""


class finfo(_Limits):  # noqa: N801
    """Limits of a floating dtype: ``torch.finfo(torch.float32).min``, ``.max``, ``.eps``, ``.tiny``."""

    _shown = ("resolution", "min", "max", "eps", "smallest_normal", "tiny")

    def __init__(self, type: dtype | None = None) -> None:
        limits = np.finfo((type or _default).dtype)
        self.min, self.max = float(limits.min), float(limits.max)
        self.eps, self.tiny = float(limits.eps), float(limits.tiny)
        self.resolution, self.smallest_normal = float(limits.resolution), float(limits.tiny)
        self.bits = int(limits.bits)
        self.dtype = limits.dtype.name


class iinfo(_Limits):  # noqa: N801
    """Limits of an integer dtype: ``torch.iinfo(torch.int64).max``."""

    _shown = ("min", "max")

    def __init__(self, type: dtype) -> None:
        limits = np.iinfo(type.dtype)
        self.min, self.max, self.bits, self.dtype = limits.min, limits.max, limits.bits, type.name
