"""What heads do, as a table that can be sorted."""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .view import View

# What a measure is, as a mean over all queries, and its unit.
_MEANINGS = {
    "entropy": "how evenly a query's weights are spread, in nats: 0 on one key, log n evenly on n keys",
    "distance": "from a query to its keys, by weight, in tokens",
    "previous": "share of the weight on the token before, 0 to 1",
    "self": "share on the token itself, 0 to 1",
    "first": "share on the first token, 0 to 1",
    "duplicate": "share on the same token earlier, where there is one, 0 to 1",
    "induction": "share on the token after the last earlier same one, where there is one, 0 to 1",
    "separators": "share on punctuation and special tokens, 0 to 1",
}


class MeasuresTable(View):
    """A row for each head, a column for each measure ``(layers, H)`` that is not NaN everywhere."""

    script = "measures_table"

    def __init__(self, measures: Mapping[str, ArrayLike], title: str | None = None) -> None:
        self.title = title
        arrays = {name.rstrip("_"): np.asarray(array, float) for name, array in measures.items()}
        self._measures = {name: array for name, array in arrays.items() if np.isfinite(array).any()}
        self._all = np.stack(list(arrays.values()))

    def _drawing(self) -> str:
        data = self._data()
        names = "".join(f"<th>{html.escape(name)}</th>" for name in ("layer", "head", *data["names"]))
        rows = "".join(
            f"<tr>{''.join(f'<td>{_told(value)}</td>' for value in row)}</tr>" for row in data["rows"]
        )
        told = "".join(
            f"<dt>{html.escape(name)}</dt><dd>{html.escape(_MEANINGS.get(name, ''))}</dd>"
            for name in data["names"]
        )
        return (
            f'<div class="stage"><table><tr>{names}</tr>{rows}</table></div><dl class="meanings">{told}</dl>'
        )

    def _data(self) -> dict[str, Any]:
        present = np.isfinite(self._all).any(0)  # a layer may have fewer heads than another
        rows = [
            [layer, head, *(_number(array[layer, head]) for array in self._measures.values())]
            for layer, head in np.argwhere(present).tolist()
        ]
        return {"names": list(self._measures), "rows": rows, "meanings": _MEANINGS}


def _told(value: float | int | None) -> str:
    return "" if value is None else f"{value}" if isinstance(value, int) else f"{value:.3f}"


def _number(value: float) -> float | None:
    return round(float(value), 6) if np.isfinite(value) else None
