"""A text whose tokens are coloured by what one of them attends to."""

from __future__ import annotations

import copy
import html
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..._public import explained
from ..._words.errors import counted
from ..figures.drawing import color_of, given_axes, name_odd, numbers
from ..figures.labels import add_label, width_of
from .heads import HeadsView, Weights, layers_of, place_in, sentence_of, title_of, tokens_of
from .packing import has_negative, largest
from .view import PAGE, AttentionView

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LINE, GAP, EDGE = 0.26, 0.06, 0.05  # inches of the figure: height of a line, between tokens, around a token


@explained
def token_view(
    weights: Weights,
    tokens: Sequence[Any],
    *,
    token: int = 0,
    layer: int = 0,
    head: int | None = None,
    item: int = 0,
    title: str | None = None,
    color: str = "#1f6fb4",
    width: float = 6.0,
    ax: Axes | None = None,
) -> AttentionView:
    """Write a text whose tokens are coloured by how much one of them attends to each.

    A notebook shows a page: choose the token, layer and head, and whether the colours are what the token attends to or
    what attends to it.

    Parameters
    ----------
    weights : array or Tensor (L,), (L, L), (H, L, L) or (B, H, L, L), a list of such arrays, or a recording
        A list holds the layers. Of a recording all weights are taken. One row, (L,) or (H, 1, L), is of a query that is
        no token of the text, such as what ``qkv.look.rollout`` returns.
    tokens : sequence of L str
        Or B such sequences, of which the shorter cut the padding off.
    token : int
        Which token is the query at first, and in the figure; negative ones count from the end.
    layer, head : int
        What is shown first; the mean of the layer's heads unless `head` is given.
    item : int
        Which sentence of a batch is shown; the title says so.
    title : str, optional
    color : str
        Of the figure.
    width : float
        Of the figure, in inches; lines break there.
    ax : matplotlib.axes.Axes, optional
        Draws the figure there.

    Returns
    -------
    AttentionView
        ``save("name.svg")``, ``figure()``; unpacks to ``(fig, axes)``, axes (1,).

    Raises
    ------
    ValueError
        If `weights` are not of tokens over themselves, there is no such item, token, layer or head, or tokens do not
        fit in number.
    ImportError
        If matplotlib is missing, for figures.

    Examples
    --------
    >>> token_view([[0.9, 0.1], [0.2, 0.8]], ["good", "morning"], token=1)
    TokenView(1 layer of 1 head, 2 tokens)
    """
    name = "token_view"
    layers, batch = layers_of(name, _as_rows(weights), item)
    _, Lq, Lk = layers[0].shape
    if Lq not in (1, Lk):
        raise ValueError(
            f"{name}: weights must be (L, L) of tokens over themselves because one of them is the query and all are "
            f"coloured, or one row; got {(Lq, Lk)}"
        )
    view = TokenView()
    if Lq == Lk:
        layers, view.tokens, _ = sentence_of(name, layers, tokens, None, item)
        view.token = place_in(name, "token", token, len(view.tokens), "token")
    else:
        view.tokens, view.token = tokens_of(name, "tokens", tokens, item, Lk), None
        layers = [layer[..., : len(view.tokens)] for layer in layers]
    view.take(name, layers, layer, head)
    view.title, view.color, view.width = title_of(title, item, batch), color, width
    view._into(ax)
    return view


def _as_rows(weights: Any) -> Any:
    """Return one row of weights (L,) as (1, L)."""
    if isinstance(weights, (list, tuple)) or not hasattr(weights, "ndim"):
        return (
            [weights]
            if isinstance(weights, (list, tuple)) and weights and not np.ndim(weights[0])
            else weights
        )
    return numbers(weights)[None] if len(weights.shape) == 1 else weights


class TokenView(HeadsView):
    """What :func:`token_view` returns."""

    script = "token_view"
    tokens: list[str]
    token: int | None
    color: str
    width: float
    lines: tuple[int, int] | None = None  # of a sheet

    def _sizes(self) -> str:
        return counted(len(self.tokens), "token")

    def _is_quick(self) -> bool:
        return len(self.tokens) <= 400

    def _data(self) -> dict[str, Any]:
        return {**self._heads(-1), "tokens": self.tokens, "token": self.token}

    def _drawing(self) -> str:
        tokens = "".join(f'<span class="token">{html.escape(token)}</span>' for token in self.tokens)
        return f'<div class="stage">{tokens}</div>'

    def row(self) -> Any:
        """Return the weights (L,) that are shown first."""
        table = self.layers[self.layer][:, self.token or 0]
        return table.mean(0) if self.head is None else table[self.head]

    def _places(self) -> list[tuple[float, int, float]]:
        """Return where each token begins, in which line, and its width."""
        places, x, line = [], 0.0, 0
        for token in self.tokens:
            wide = max(width_of(token), 0.06) + 2 * EDGE
            if x and x + wide > self.width:
                x, line = 0.0, line + 1
            places.append((x, line, wide))
            x += wide + GAP
        return places

    def _on_sheets(self) -> list[TokenView]:
        places, many = self._places(), int((PAGE[1] - 0.8) / LINE)
        found = []
        for first in range(0, places[-1][1] + 1, many):
            sheet = copy.copy(self)
            sheet.lines = first, min(first + many, places[-1][1] + 1)
            found.append(sheet)
        return found

    def _plot(self, subplots: Callable[..., tuple[Figure, Any]], ax: Any = None) -> tuple[Figure, Any]:
        from matplotlib.patches import Rectangle

        places = self._places()
        width = max(self.width, *(x + wide for x, _, wide in places))
        first, end = self.lines or (0, places[-1][1] + 1)
        height = (end - first) * LINE
        if ax is None:
            above = 0.3 if self.title else 0.0
            fig, axes = subplots(1, 1, figsize=(width + 0.1, height + above + 0.1))
            fig.subplots_adjust(0.05 / width, 0.05 / height, 1, 1 - above / (height + above + 0.1))
            axes = axes[0]
        else:
            fig, axes = given_axes("token_view", ax, (1,))
        panel, row = axes[0], self.row()
        top, is_signed = largest([row]) or 1.0, has_negative([row])
        for place, ((x, at, wide), token) in enumerate(zip(places, self.tokens, strict=True)):
            line = at - first
            if not first <= at < end:
                continue
            weight = float(row[place])
            color = self.color if weight >= 0 and not is_signed else color_of(weight)
            strength = 0.75 * math.sqrt(min(abs(weight) / top, 1.0)) if math.isfinite(weight) else 0.75
            chosen = place == self.token
            box = Rectangle(
                (x, line * LINE + 0.02),
                wide,
                LINE - 0.04,
                facecolor=(color, strength),
                edgecolor="#b03020" if chosen else "#bbb",
                linewidth=1.5 if chosen else 0.5,
            )
            panel.add_patch(box)
            add_label(panel, x + wide / 2, (line + 0.5) * LINE, token, ha="center", va="center_baseline")
        panel.set(xlim=(-0.02, width + 0.02), ylim=(height, 0.0))
        panel.set_axis_off()
        name_odd(
            fig, axes, row, is_new=ax is None, **({"more": "above 0", "less": "below 0"} if is_signed else {})
        )
        if self.title:
            panel.set_title(self.title, fontsize="small")
        return fig, axes
