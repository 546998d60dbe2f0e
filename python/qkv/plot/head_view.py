"""Attention to play with on a web page of its own: no network, no other file."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

import numpy as np

from .heads import layers_of, sentence_of
from .views import View

LINE, LEFT, RIGHT, MARGIN = 22, 150, 350, 12  # pixels: height of a token, ends of the lines, space on top
LEAST = 0.005  # weights below are not drawn


class AttentionView(View):
    """All heads of all layers over one sentence, shown by a notebook and saved as a page.

    Choose layer and head above; point at a token to see its lines alone and its weights as numbers. Where scripts
    may not run the first layer's first head is shown.

    Parameters
    ----------
    weights : array or Tensor (Lq, Lk), (H, Lq, Lk) or (layers, H, Lq, Lk), or a list of layers
        Each layer (H, Lq, Lk) or (B, H, Lq, Lk).
    tokens : sequence of Lq str
        The queries' tokens; or B such sequences, where what lies behind the last token of a sentence is not shown.
    key_tokens : sequence of Lk str, or B of them, optional
        The keys' tokens; the queries' unless given.
    title : str, optional
        Unless given it says which item of a batch is shown.
    item : int
        Which sentence of a batch is shown.

    Attributes
    ----------
    weights : list of ndarray (H, Lq, Lk), one for each layer

    Raises
    ------
    ValueError
        If shapes and tokens do not fit.

    Examples
    --------
    >>> view = qkv.plot.head_view_html([[0.9, 0.1], [0.2, 0.8]], ["Guten", "Morgen"], ["good", "morning"])
    >>> view.save("attention.html")
    >>> view
    AttentionView(1 layer of 1 head, 2 queries, 2 keys)
    """

    script = "head_view"

    def __init__(
        self,
        weights: Any,
        tokens: Sequence[Any],
        key_tokens: Sequence[Any] | None = None,
        title: str | None = None,
        *,
        item: int = 0,
    ) -> None:
        layers, batch = layers_of("head_view_html", weights, item)
        sizes = {layer.shape[1:] for layer in layers}
        if len(sizes) != 1:
            raise ValueError(
                "head_view_html: weights must have one size (Lq, Lk) in all layers because they are over the "
                f"same tokens; got {sorted(sizes)}"
            )
        self.weights, self.tokens, self.key_tokens = sentence_of(
            "head_view_html", layers, tokens, key_tokens, item
        )
        self.title = f"item {item} of {batch}" if batch > 1 and title is None else title

    def _data(self) -> dict[str, Any]:
        thousandths = [np.rint(1000 * np.nan_to_num(layer)).astype(int).tolist() for layer in self.weights]
        return {"weights": thousandths, "queries": self.tokens, "keys": self.key_tokens}

    def __repr__(self) -> str:
        layers, heads = len(self.weights), self.weights[0].shape[0]
        return (
            f"AttentionView({layers} layer{'s' * (layers != 1)} of {heads} head{'s' * (heads != 1)}, "
            f"{len(self.tokens)} queries, {len(self.key_tokens)} keys)"
        )

    def _drawing(self) -> str:
        matrix = self.weights[0][0]
        rows = max(len(self.tokens), len(self.key_tokens))
        lines = "".join(
            f'<line x1="{LEFT}" y1="{_height(q)}" x2="{RIGHT}" y2="{_height(k)}" '
            f'stroke-opacity="{min(float(matrix[q, k]), 1.0):.3f}"/>'
            for q, k in np.argwhere(np.nan_to_num(matrix) > LEAST)
        )
        texts = "".join(
            f'<text class="{side}" text-anchor="{anchor}" x="{x}" y="{_height(place)}" dy="0.35em">'
            f"{html.escape(token)}</text>"
            for side, anchor, x, tokens in (
                ("query", "end", LEFT - 8, self.tokens),
                ("key", "start", RIGHT + 8, self.key_tokens),
            )
            for place, token in enumerate(tokens)
        )
        size = f"0 0 {LEFT + RIGHT} {rows * LINE + 2 * MARGIN}"
        return (
            f'<svg viewBox="{size}" width="{LEFT + RIGHT}" role="img" font-size="13">'
            f'<g class="lines" stroke="#1f6fb4" stroke-width="2">{lines}</g>{texts}</svg>'
        )


def head_view_html(
    weights: Any,
    tokens: Sequence[Any],
    key_tokens: Sequence[Any] | None = None,
    *,
    title: str | None = None,
    item: int = 0,
) -> AttentionView:
    """Show the heads of all layers over a sentence, to choose and to point at.

    Parameters
    ----------
    weights : array or Tensor (Lq, Lk), (H, Lq, Lk) or (layers, H, Lq, Lk), or a list of layers
        Such as ``model.attention_weights`` after a call; each layer (H, Lq, Lk) or (B, H, Lq, Lk).
    tokens : sequence of Lq str
        The queries' tokens; or B such sequences, where what lies behind the last token of a sentence is not shown.
    key_tokens : sequence of Lk str, or B of them, optional
        The keys' tokens; the queries' unless given.
    title : str, optional
        Unless given it says which item of a batch is shown.
    item : int
        Which sentence of a batch is shown.

    Returns
    -------
    AttentionView
        A notebook shows it; ``view.save("page.html")`` writes a page that needs no network.

    Raises
    ------
    ValueError
        If shapes and tokens do not fit.

    Examples
    --------
    >>> qkv.plot.head_view_html(np.full((2, 4, 3, 3), 1 / 3), ["it", "is", "raining"])
    AttentionView(2 layers of 4 heads, 3 queries, 3 keys)
    """
    return AttentionView(weights, tokens, key_tokens, title, item=item)


def _height(place: int) -> int:
    return MARGIN + place * LINE + LINE // 2
