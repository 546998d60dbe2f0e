"""The picture beside a page: the head's weights, the chosen token's, and what comes of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ...figures.drawing import draw_matrix, given_axes
from ...figures.labels import add_label, label_matrix, widest
from ..packing import ends_of, shrunk

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LABELLED = 40  # tokens, at most
_PIXELS = 256
_LINE = 0.2  # inches


def draw(view: Any, subplots: Callable[..., tuple[Figure, Any]], ax: Any) -> tuple[Figure, Any]:
    """Draw a view of `explain`; axes (3,)."""
    queries, keys = view.names[:2]
    table = view.heads[view.layer][0][view.head]
    row, found = table[view.query], view.about["candidates"]
    few = max(len(queries), len(keys)) <= _LABELLED
    if found is None:
        words, title = keys, "mean of all heads"
        shares = np.mean([layer[0][:, view.query].mean(0) for layer in view.heads], axis=0)
    else:
        place, title = min(view.query, len(found["labels"]) - 1), "probabilities"
        words, shares = found["labels"][place], np.array(found["probabilities"][place])
    if ax is None:
        high = max(2.4, _LINE * max(len(queries), len(keys), len(words))) if few else 3.0
        left = [widest(names) + 0.2 for names in (queries * few, keys * few, words[:_LABELLED])]
        above = (widest(keys) if few else 0.0) + (0.45 if view.title else 0.15)
        wide, tall, at = sum(left) + high + 3.4, high + above + 0.5, 0.0
        fig, grid = subplots(1, 3, figsize=(wide, tall))
        axes = grid[0]
        for panel, room, width in zip(axes, left, (high, 1.5, 1.5), strict=True):
            panel.set_position(((at + room) / wide, 0.5 / tall, width / wide, high / tall))
            at += room + width + 0.1
        if view.title:
            fig.suptitle(view.title, fontsize="medium")
    else:
        fig, axes = given_axes("explain", ax, (3,))
    draw_matrix(axes[0], shrunk(table, _PIXELS), "Reds", 0.0, ends_of([table])[1] or 1.0, aspect="auto")
    axes[0].set(xticks=[], yticks=[], xlabel=f"layer {view.layer}, head {view.head}")
    if few:
        label_matrix(axes[0], queries, keys)
    _bars(axes[1], keys if few else None, row, f"weights of token {view.query}")
    _bars(axes[2], words if len(words) <= _LABELLED else None, shares, title)
    return fig, axes


def _bars(panel: Any, words: list[str] | None, shares: Any, title: str) -> None:
    panel.barh(np.arange(len(shares)), shares, color="#cb281d", height=0.8)
    panel.set(ylim=(len(shares) - 0.5, -0.5), yticks=[], xlabel=title)
    panel.tick_params(labelsize="x-small")
    for side in ("top", "right"):
        panel.spines[side].set_visible(False)
    for place, word in enumerate(words or ()):
        add_label(panel, -0.03, place, word, transform=panel.get_yaxis_transform(), ha="right", va="center")
