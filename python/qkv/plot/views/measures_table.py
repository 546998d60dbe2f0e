"""What heads do, as a table that can be sorted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .view import View

_MEANINGS = {
    "entropy": "of the weights, in nats",
    "distance": "how far away the keys are, in tokens",
    "previous": "weight on the token before",
    "self": "weight on the token itself",
    "first": "weight on the first token",
    "duplicate": "weight on the same token earlier",
    "induction": "weight on the token after the last earlier same one",
    "separators": "weight on punctuation and special tokens",
}


class MeasuresTable(View):
    """A row for each head, a column for each measure ``(layers, H)`` that is not NaN everywhere."""

    script = "measures_table"

    def __init__(self, measures: Mapping[str, ArrayLike], title: str | None = None) -> None:
        self.title = title
        arrays = {name.rstrip("_"): np.asarray(array, float) for name, array in measures.items()}
        self._measures = {name: array for name, array in arrays.items() if np.isfinite(array).any()}
        self._all = np.stack(list(arrays.values()))

    def _data(self) -> dict[str, Any]:
        present = np.isfinite(self._all).any(0)  # a layer may have fewer heads than another
        rows = [
            [layer, head, *(_number(array[layer, head]) for array in self._measures.values())]
            for layer, head in np.argwhere(present).tolist()
        ]
        return {"names": list(self._measures), "rows": rows, "meanings": _MEANINGS}


def _number(value: float) -> float | None:
    return round(float(value), 6) if np.isfinite(value) else None
