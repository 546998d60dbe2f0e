"""Numbers of data as arrays, and sequences of unequal length in one array."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._words.errors import integer_of, shown


def is_array(x: Any) -> bool:
    """Whether NumPy reads `x` as an array without being told: arrays, Tensors, PyTorch tensors, data frames."""
    return hasattr(x, "__array__") or hasattr(x, "__dlpack__")


def is_number(x: Any) -> bool:
    """Whether `x` is one number, of Python or of an array library."""
    return isinstance(x, Real) or getattr(x, "shape", None) == ()


def check_filling(operation: str, pad_id: Any) -> None:
    """Refuse anything but a number to fill sequences up with."""
    if not is_number(pad_id):
        raise TypeError(f"{operation}: pad_id must be a number; got {shown(pad_id)}")


def as_array(operation: str, name: str, x: Any) -> NDArray[Any]:
    """Return `x` as an array of what it holds; one that records gradients is refused."""
    if getattr(x, "requires_grad", False):
        raise ValueError(
            f"{operation}: {name} must not require a gradient because batches are copies of data; "
            f"got one that does, pass x.detach()"
        )
    if hasattr(x, "requires_grad"):
        return _core.as_numpy(x, operation, name)
    try:
        return np.asarray(x)
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(
            f"{operation}: {name} must be an array or lists of equal lengths; got {type(x).__name__}"
        ) from None


def numbers(operation: str, name: str, x: Any) -> NDArray[Any]:
    """Return `x` as int64 or as floats: of an array's width, float32 for Python's own."""
    table = as_array(operation, name, x)
    if is_array(x) or table.size:
        if table.dtype.kind in "biu":
            if table.dtype == np.uint64 and table.max(initial=0) >= 2**63:
                raise ValueError(f"{operation}: {name} must hold integers below 2**63; got {table.max()}")
            return table.astype(np.int64, copy=False)
        if table.dtype.kind != "f" and table.dtype.name != "bfloat16":
            raise TypeError(f"{operation}: {name} must hold numbers; got dtype {table.dtype}")
        return table.astype(np.float32) if isinstance(_first(x), (int, float)) else table
    return table.astype(np.int64)  # an empty list says nothing about its dtype


def _first(x: Any) -> Any:
    while isinstance(x, (list, tuple)) and x:
        x = x[0]
    return x


class Ragged:
    """N sequences ``(n_i,)`` or ``(n_i, D)``, one after the other, in one array of one dtype."""

    def __init__(self, operation: str, name: str, sequences: Iterable[Any]) -> None:
        if not isinstance(sequences, Iterable):
            raise TypeError(f"{operation}: {name} must be sequences of numbers; got {shown(sequences)}")
        tables = [numbers(operation, name, sequence) for sequence in sequences]
        shapes = {table.shape[1:] for table in tables if table.shape != (0,)} or {()}
        if any(table.ndim not in (1, 2) for table in tables) or len(shapes) > 1:
            found = sorted({table.shape for table in tables}, key=lambda shape: (len(shape), shape))[:3]
            raise ValueError(
                f"{operation}: {name} must be sequences (n_i,) or (n_i, D) with one D because they stand under "
                f"each other; got {', '.join(map(str, found))}"
            )
        (rest,) = shapes
        floats = {table.dtype for table in tables if table.dtype != np.int64}
        dtype = np.result_type(*floats) if floats else np.dtype(np.int64)
        self._operation = operation
        self._entries = np.concatenate(
            [np.empty((0, *rest), dtype), *(table.reshape(len(table), *rest) for table in tables)],
            dtype=dtype,
            casting="same_kind" if not floats else "unsafe",
        )
        self.lens = np.array([len(table) for table in tables], np.int64)
        self._starts = np.cumsum(self.lens) - self.lens

    def __len__(self) -> int:
        return len(self.lens)

    def padded(
        self, rows: Sequence[int] | NDArray[np.int64], pad_id: float
    ) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Return some sequences under each other, filled up with `pad_id` (rows with zeros), and their lengths."""
        rows = np.asarray(rows, np.int64)
        entries, lens = self._entries, self.lens[rows]
        check_filling(self._operation, pad_id)
        fill: float = 0 if entries.ndim == 2 else pad_id
        if entries.dtype == np.int64:
            if not float(fill).is_integer():
                raise ValueError(
                    f"{self._operation}: pad_id must be an integer because the sequences hold integers; got {fill}"
                )
            fill = integer_of(self._operation, "pad_id", int(fill))
        table = np.full((len(rows), int(lens.max(initial=0)), *entries.shape[1:]), fill, entries.dtype)
        for row, start, n in zip(table, self._starts[rows], lens, strict=True):
            row[:n] = entries[start : start + n]
        return table, lens
