"""dtypes, devices and sizes under PyTorch's names.

The core computes in float32, float64, int64 and bool. The narrower integers are int64 numbers that are cut to their
width after each operation and carry their dtype with them.
"""

from __future__ import annotations

import math
from typing import Any, NoReturn

import numpy as np

from .._core import set_derived_default, set_derived_dtypes
from .._words.errors import shown


class dtype:  # noqa: N801
    """The type of a Tensor's numbers: ``torch.float32`` and its like."""

    def __init__(self, name: str) -> None:
        # np.dtype(torch.float32) asks for it
        self.name, self.dtype = name, np.dtype(name if name != "bfloat16" else "float32")
        self.kind = {"b": 0, "f": 2}.get(self.dtype.kind, 1)  # bool, integer, floating; a higher one wins
        self.itemsize = 2 if name == "bfloat16" else self.dtype.itemsize
        # of the numbers in memory
        self.core = "int64" if self.kind == 1 else "" if self.itemsize == 2 else name
        self.narrow = self.kind == 1 and name != "int64"  # cut to its width after each operation
        self.is_floating_point, self.is_complex = self.kind == 2, False
        self.is_signed = name not in ("bool", "uint8")

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self):
        return named, (self.name,)


_NAMES = "float32 float64 float16 bfloat16 int64 int32 int16 int8 uint8 bool"
ALL = {name: dtype(name) for name in _NAMES.split()}
float32, float64, float16, bfloat16, int64, int32, int16, int8, uint8, bool_ = ALL.values()
set_derived_dtypes([*ALL.values()])


def named(name: str) -> dtype:
    """Return the dtype of that name, which `pickle` stored."""
    return ALL[name]


ALIASES = {
    **{"float": float32, "double": float64, "half": float16},
    **{"long": int64, "int": int32, "short": int16, "bool": bool_},
}
OF_PYTHON = {bool: bool_, int: int64, float: float32}
# Names that ``x.type()`` and old code use.
_WORDS = {**ALIASES, "char": int8, "byte": uint8}
TYPE_NAMES = {f"{word.capitalize()}Tensor": kind for word, kind in _WORDS.items() if kind.core}
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
    set_derived_default(d is float64)


def computed(wanted, operation: str) -> dtype:
    """Return the dtype that was asked for, if qkv computes in it."""
    if isinstance(wanted, dtype):
        found = wanted
    elif isinstance(wanted, type) and wanted in OF_PYTHON:
        found = _default if wanted is float else OF_PYTHON[wanted]
    elif isinstance(wanted, str) and wanted.removeprefix("torch.") in TYPE_NAMES:
        found = TYPE_NAMES[wanted.removeprefix("torch.")]
    else:
        raise TypeError(f"{operation}: dtype must be a dtype such as torch.float32; got {shown(wanted)}")
    if not found.core:
        wanted = "dtype must be torch.float32 or torch.float64 because qkv computes in these"
        raise TypeError(f"{operation}: {wanted}; got {found!r}")
    return found


class device:  # noqa: N801
    """Where a Tensor lies: ``torch.device("cpu")``, the only one that qkv computes on."""

    def __init__(self, type="cpu", index: int | None = None) -> None:
        if isinstance(type, device):
            type, index = str(type), None
        if not isinstance(type, str):
            raise TypeError(f"device: type must be a string such as 'cpu'; got {shown(type)}")
        self.type, _, number = type.partition(":")
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


def check_device(where, operation: str) -> None:
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

    def __getitem__(self, index):
        found = tuple.__getitem__(self, index)
        return Size(found) if isinstance(index, slice) else found

    def __add__(self, other: tuple[int, ...]) -> Size:  # type: ignore[override]
        return Size(tuple.__add__(self, tuple(other)))

    def __radd__(self, other: tuple[int, ...]) -> Size:
        return Size(tuple(other) + tuple(self))


class _Limits:
    def _take(self, limits: Any, number: Any, *words: str) -> None:
        self._shown = {word: number(getattr(limits, word)) for word in words}
        vars(self).update(self._shown, bits=int(limits.bits), dtype=limits.dtype.name)

    def __repr__(self) -> str:
        values = ", ".join(f"{word}={value:g}" for word, value in self._shown.items())
        return f"{type(self).__name__}({values}, dtype={self.dtype})"


class finfo(_Limits):  # noqa: N801
    """Limits of a floating dtype: ``torch.finfo(torch.float32).min``, ``.max``, ``.eps``, ``.tiny``."""

    def __init__(self, type: dtype | None = None) -> None:
        limits = np.finfo((type or _default).dtype)
        self._take(limits, float, "resolution", "min", "max", "eps", "smallest_normal", "tiny")


class iinfo(_Limits):  # noqa: N801
    """Limits of an integer dtype: ``torch.iinfo(torch.int64).max``."""

    def __init__(self, type: dtype) -> None:
        self._take(np.iinfo(type.dtype), int, "min", "max")
