"""What temperature and masks do to the weights of attention."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...functions.normalizers import masked_softmax
from ..figures.drawing import matrix_of
from ..figures.heatmaps import heatmap
from .heads import tokens_of
from .sliders import INK, RED, Control, SliderView

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CELL = 30  # pixels: side of a weight


class AttentionSliders(SliderView):
    """``softmax(scores / temperature)`` with sliders: temperature, number of real keys, causal mask.

    A notebook shows it, ``save("page.html")`` writes a page that computes without Python, and ``widget()`` gives live
    widgets of Jupyter, for which qkv computes. Low temperatures choose one key, high ones average all.

    Parameters
    ----------
    scores : array or Tensor, (Lq, Lk)
        Such as ``q @ k.T / sqrt(D)``; -inf excludes.
    tokens : sequence of Lq str, optional
        The queries' tokens; their numbers unless given.
    key_tokens : sequence of Lk str, optional
        The keys' tokens; the queries' unless given, where there are as many.
    temperature : float
        At the start, from 0.01 to 100.
    valid_len : int, optional
        How many leading keys are real at the start; all of them unless given.
    is_causal : bool
        Whether query i sees the keys up to i alone at the start.
    title : str, optional

    Raises
    ------
    ValueError
        If `scores` is not 2-D, tokens do not fit, or a start is out of its range.

    Examples
    --------
    >>> view = AttentionSliders([[2.0, 1.0], [0.0, 3.0]], ["Guten", "Morgen"], temperature=0.5)
    >>> view
    AttentionSliders(2 queries, 2 keys)
    >>> view.weights(temperature=100.0).round(2).tolist()
    [[0.5, 0.5], [0.49, 0.51]]
    """

    model = "attention"
    told = (
        "Cells are weights in hundredths, 25 for 0.25; a dot is a weight of 0. A row is a query, a column a key. Real "
        "keys are the first ones: those after them are padding and get no weight; with causal also those after the "
        "query."
    )

    def __init__(
        self,
        scores: ArrayLike,
        tokens: Sequence[str] | None = None,
        key_tokens: Sequence[str] | None = None,
        *,
        temperature: float = 1.0,
        valid_len: int | None = None,
        is_causal: bool = False,
        title: str | None = None,
    ) -> None:
        table = matrix_of("AttentionSliders", scores).astype(np.float64)
        if np.isnan(table).any() or np.isposinf(table).any():
            raise ValueError(
                "AttentionSliders: scores must be numbers, or -inf where a key is excluded; got NaN or infinity"
            )
        Lq, Lk = table.shape
        _check_range("AttentionSliders", "temperature", temperature, 0.01, 100.0)
        length = Lk if valid_len is None else valid_len
        _check_range("AttentionSliders", "valid_len", length, 0, Lk)
        self.scores = table
        self.tokens = tokens_of("AttentionSliders", "tokens", range(Lq) if tokens is None else tokens, 0, Lq)
        if key_tokens is None:
            key_tokens = tokens if tokens is not None and Lq == Lk else range(Lk)  # type: ignore[assignment]
        self.key_tokens = tokens_of("AttentionSliders", "key_tokens", key_tokens, 0, Lk)
        super().__init__(
            [
                Control("temperature", "temperature", "log", float(temperature), 0.01, 100.0),
                Control("valid_len", "real keys", "int", length, 0, Lk),
                Control("is_causal", "causal", "bool", float(is_causal)),
            ],
            title,
        )

    def weights(
        self, temperature: float = 1.0, valid_len: int | None = None, is_causal: bool = False
    ) -> NDArray[Any]:
        """Compute the weights (Lq, Lk) that the picture shows.

        Parameters
        ----------
        temperature : float
        valid_len : int, optional
            How many leading keys are real; all of them unless given.
        is_causal : bool
            Whether query i sees the keys up to i alone.

        Returns
        -------
        ndarray, (Lq, Lk)
        """
        allowed = np.tri(*self.scores.shape) > 0 if is_causal else None
        return np.asarray(masked_softmax(self.scores / temperature, valid_len, mask=allowed))

    def _numbers(self) -> dict[str, Any]:
        scores = [[None if math.isinf(x) else x for x in row] for row in self.scores.tolist()]
        return {"scores": scores, "queries": self.tokens, "keys": self.key_tokens}

    def _picture(self, **values: Any) -> str:
        table = self.weights(values["temperature"], int(values["valid_len"]), bool(values["is_causal"]))
        left = 12 + 7 * max(map(len, self.tokens))
        top = 12 + 6 * max(map(len, self.key_tokens))
        (Lq, Lk), middle = table.shape, CELL // 2
        cells = "".join(
            f'<rect class="cell" x="{left + k * CELL}" y="{top + q * CELL}" width="{CELL - 1}" height="{CELL - 1}" '
            f'fill="{RED}" fill-opacity="{table[q, k]:.6f}"><title>{html.escape(self.tokens[q])}, '
            f"{html.escape(self.key_tokens[k])}: {table[q, k]:.4f}</title></rect>"
            for q, k in np.ndindex(Lq, Lk)
        )
        shares = "".join(
            f'<text class="cell{" strong" * bool(table[q, k] > 0.5)}" x="{left + k * CELL + middle}" '
            f'y="{top + q * CELL + middle}" dy="0.35em" text-anchor="middle" font-size="10">'
            f"{share_of(table[q, k])}</text>"
            for q, k in np.ndindex(Lq, Lk)
        )
        rows = "".join(
            f'<text x="{left - 6}" y="{top + q * CELL + middle}" dy="0.35em" text-anchor="end">{html.escape(name)}'
            "</text>"
            for q, name in enumerate(self.tokens)
        )
        columns = "".join(
            f'<text transform="translate({left + k * CELL + middle},{top - 6}) rotate(-55)">{html.escape(name)}'
            "</text>"
            for k, name in enumerate(self.key_tokens)
        )
        right = 5 * max(map(len, self.key_tokens))
        width, height = left + Lk * CELL + right, top + Lq * CELL + 6
        frame = (
            f'<rect x="{left - 1}" y="{top - 1}" width="{Lk * CELL + 1}" height="{Lq * CELL + 1}" fill="none" '
            'stroke="#bbb"/>'
        )
        return (
            f'<svg viewBox="0 0 {width} {height}" width="{width}" role="img" font-size="12" fill="{INK}">'
            f"{frame}{cells}{rows}{columns}{shares}</svg>"
        )

    def _still(self) -> Figure:
        from matplotlib.figure import Figure

        Lq, Lk = self.scores.shape
        figure = Figure(figsize=(1.6 + 0.4 * Lk, 1.2 + 0.4 * Lq), layout="constrained")
        table = self.weights(**{control.name: control.value for control in self.controls})  # type: ignore[arg-type]
        heatmap(
            table,
            title=self.title,
            ax=figure.add_subplot(),
            xticks=self.key_tokens,
            yticks=self.tokens,
            colorbar=0.6,
            vmin=0.0,
            vmax=1.0,
        )
        return figure

    def __repr__(self) -> str:
        return f"AttentionSliders({len(self.tokens)} queries, {len(self.key_tokens)} keys)"


def share_of(weight: float) -> str:
    """Return a weight in hundredths, as a cell has room for."""
    return "·" if weight == 0 else "&lt;1" if weight < 0.005 else f"{100 * weight:.0f}"


def _check_range(operation: str, name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise ValueError(f"{operation}: {name} must be from {low} to {high}; got {value}")
