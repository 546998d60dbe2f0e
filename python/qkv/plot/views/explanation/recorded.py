"""The numbers of one pass, as a page holds them: every one is one of a recording."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....look.names import Part
from ....look.recording import Recording
from ...figures.drawing import numbers
from ..packing import coded, packed, text_of

Array = NDArray[Any]
_UNDERFLOW = 80.0  # a score so far below the greatest has weight 0 without being excluded
_UNLIMITED = 1 << 60  # bytes: nothing is left out


class Values:
    """Values of a recording of one text."""

    def __init__(self, recording: Recording, call: int) -> None:
        self.recording, self._call = recording, call  # of a module that both sides use

    def has(self, name: str) -> bool:
        """Return whether it was recorded."""
        return name in self.recording

    def rows(self, name: str) -> Array:
        """Return rows of features (L, D)."""
        table = numbers(self._value(name))
        return table.reshape(-1, table.shape[-1])

    def by_heads(self, name: str, part: Part) -> Array:
        """Return (H, L, D) of an attention."""
        table = numbers(self._value(name))
        if not part.has_heads(table.ndim):
            table = table[..., None, :, :]
        found: Array = table.reshape(-1, *table.shape[-3:])[0]
        return found

    def _value(self, name: str) -> Any:
        value = self.recording[name]
        return value[min(self._call, len(value) - 1)] if isinstance(value, list) else value


def vectors(table: Array) -> dict[str, Any]:
    """Return rows (..., D) for `vectorsOf` of numbers.js: 16 bits of the greatest number of each row."""
    finite = np.where(np.isfinite(table), np.abs(table), 0.0).max(-1)
    scales = np.where(finite > 0, finite, 1.0).astype("<f4")
    whole = coded(np.asarray(table, "float64"), scales.astype("float64")[..., None], "<i2")  # type: ignore[arg-type]
    return {"shape": table.shape, "scales": text_of(scales), "all": text_of(whole)}


def matrices(table: Array) -> dict[str, Any]:
    """Return (H, Lq, Lk) for `weightsOf` of view.js, all of them."""
    return packed([table], budget=_UNLIMITED)


def excluded(scores: Array, weights: Array) -> Array:
    """Return which pairs (H, Lq, Lk) a mask leaves out of a softmax: weight 0 that the score does not explain."""
    none: Array = weights == 0
    greatest = np.where(none, -np.inf, scores).max(-1, keepdims=True)
    left_out: Array = none & ~(scores < greatest - _UNDERFLOW)
    return left_out


def out_of_order(shape: tuple[int, ...], causal: Any, window: Any) -> Array:
    """Return which pairs (H, Lq, Lk) causal order and a window leave out."""
    _, Lq, Lk = shape
    distance = np.arange(Lk) - np.arange(Lq)[:, None] - (Lk - Lq if causal == "lower_right" else 0)
    left, right = window or (-1, -1)
    out = (distance > 0) & bool(causal) | (distance < -left) & (left >= 0) | (distance > right) & (right >= 0)
    return np.broadcast_to(out, shape)


def bits(table: Array) -> str:
    """Return booleans in base64, eight in a byte."""
    return text_of(np.packbits(table, bitorder="little"))
