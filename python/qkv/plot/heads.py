"""Which token attends to which, head by head."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .drawing import check_number, draw_matrix, given_axes, numbers, pyplot

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def head_view(
    weights: Any,
    tokens: Sequence[Any],
    key_tokens: Sequence[Any] | None = None,
    *,
    item: int = 0,
    titles: Sequence[str] | None = None,
    columns: int = 4,
    color: str = "C0",
    figsize: tuple[float, float] | None = None,
    ax: Sequence[Axes] | Axes | None = None,
) -> tuple[Figure, NDArray[Any]]:
    """Write the queries on the left and the keys on the right, and join them by lines as strong as the weights.

    Parameters
    ----------
    weights : array or Tensor, (Lq, Lk), (H, Lq, Lk) or (B, H, Lq, Lk)
        One panel for each head.
    tokens : sequence of Lq str
        The queries' tokens; or B such sequences, where what lies behind the last token of a sentence is not drawn.
    key_tokens : sequence of Lk str, or B of them, optional
        The keys' tokens; the queries' unless given.
    item : int
        Which sentence of a batch is drawn; the figure's title says so.
    titles : sequence of str, optional
        One for each head; "head 0" and so on unless given.
    columns : int
        Number of panels beside each other.
    color : str
    figsize : (width, height), optional
        Of the whole figure, in inches; by the number of tokens unless given.
    ax : matplotlib.axes.Axes, or a sequence of them, optional
        One for each head.

    Returns
    -------
    fig : matplotlib.figure.Figure
    axes : ndarray of matplotlib.axes.Axes, (H,)

    Raises
    ------
    ValueError
        If `weights` have another rank, there is no such item, or tokens, titles or axes do not fit them in number.
    ImportError
        If matplotlib is missing.

    Examples
    --------
    >>> fig, axes = head_view([[[0.9, 0.1], [0.2, 0.8]]] * 3, ["Guten", "Morgen"], ["good", "morning"])
    >>> [ax.get_title() for ax in axes]
    ['head 0', 'head 1', 'head 2']
    """
    table, batch = heads_of("head_view", weights, item)
    (table,), queries, keys = sentence_of("head_view", [table], tokens, key_tokens, item)
    H, Lq, Lk = table.shape
    names = [f"head {h}" for h in range(H)] if titles is None else titles
    check_number("head_view", "titles", names, H)
    if ax is None:
        cols = min(columns, H)
        rows = math.ceil(H / cols)
        size = figsize or (2.6 * cols, (0.24 * max(Lq, Lk) + 0.5) * rows)
        layout = "constrained" if batch > 1 else None  # room for the title
        fig, grid = pyplot().subplots(rows, cols, figsize=size, squeeze=False, layout=layout)
        panels = grid.ravel()
        for unused in panels[H:]:
            unused.set_axis_off()
    else:
        fig, panels = given_axes("head_view", ax, (H,))
    for panel, matrix, name in zip(panels, table, names, strict=False):
        _draw_head(panel, matrix, queries, keys, color)
        panel.set_title(name, fontsize="small")
    if batch > 1 and ax is None:
        fig.suptitle(f"item {item} of {batch}", fontsize="medium")
    return fig, panels[:H]


def layer_view(
    weights: Any,
    *,
    item: int = 0,
    cmap: str = "Reds",
    vmax: float | None = None,
    figsize: tuple[float, float] | None = None,
    ax: Any = None,
) -> tuple[Figure, NDArray[Any]]:
    """Draw all heads of all layers at a glance: one row per layer, one column per head, one colour scale.

    Parameters
    ----------
    weights : array or Tensor (layers, H, Lq, Lk), or a list of (H, Lq, Lk) or (B, H, Lq, Lk), one for each layer
        Such as ``model.attention_weights`` after a call. An array of five axes is (layers, B, H, Lq, Lk).
    item : int
        Which sentence of a batch is drawn; the figure's title says so.
    cmap : str
    vmax : float, optional
        The weight that gets the darkest colour; the greatest unless given. The lightest stands for 0.
    figsize : (width, height), optional
        Of the whole figure, in inches.
    ax : array or sequence of matplotlib.axes.Axes, optional
        One for each head, layer by layer.

    Returns
    -------
    fig : matplotlib.figure.Figure
    axes : ndarray of matplotlib.axes.Axes, (layers, H)

    Raises
    ------
    ValueError
        If the layers have different shapes, or there are none, or there is no such item.
    ImportError
        If matplotlib is missing.

    Examples
    --------
    >>> fig, axes = layer_view(np.full((2, 3, 5, 5), 0.2))
    >>> axes.shape, axes[1, 0].get_ylabel(), axes[0, 2].get_title()
    ((2, 3), 'layer 1', 'head 2')
    """
    layers, batch = layers_of("layer_view", weights, item)
    if len({layer.shape for layer in layers}) != 1:
        raise ValueError(
            "layer_view: weights must have one shape (H, Lq, Lk) in all layers because they become one grid; "
            f"got {[layer.shape for layer in layers]}"
        )
    table = np.stack(layers)
    rows, cols, Lq, Lk = table.shape
    panel = 1.1
    size = figsize or (panel * cols + 1.1, panel * max(0.5, min(Lq / Lk, 2.0)) * rows + 0.5)
    if ax is None:
        fig, axes = pyplot().subplots(rows, cols, figsize=size, squeeze=False, layout="constrained")
    else:
        fig, axes = given_axes("layer_view", ax, (rows, cols))
    top = float(np.nanmax(table)) if vmax is None else vmax
    for i, j in np.ndindex(rows, cols):
        image = draw_matrix(axes[i, j], table[i, j], cmap, 0.0, top or 1.0, aspect="auto")
        axes[i, j].set(xticks=[], yticks=[])
        if i == 0:
            axes[i, j].set_title(f"head {j}", fontsize="small")
        if j == 0:
            axes[i, j].set_ylabel(f"layer {i}", fontsize="small")
    fig.colorbar(image, ax=list(axes.ravel()), shrink=0.7, label="weight")
    if batch > 1 and ax is None:
        fig.suptitle(f"item {item} of {batch}", fontsize="medium")
    return fig, axes


def heads_of(operation: str, weights: Any, item: int = 0) -> tuple[NDArray[np.floating], int]:
    """Give the weights of one sentence as (H, Lq, Lk), and the number of sentences."""
    table = numbers(weights)
    if table.ndim == 2:
        table = table[None]
    if table.ndim == 3:
        table = table[None]
    if table.ndim != 4 or 0 in table.shape:
        raise ValueError(
            f"{operation}: weights must be (Lq, Lk), (H, Lq, Lk) or (B, H, Lq, Lk), none of them 0, because the "
            f"heads of one sentence are drawn; got {numbers(weights).shape}"
        )
    if not 0 <= item < len(table):
        raise ValueError(
            f"{operation}: item must be from 0 to {len(table) - 1} because weights hold {len(table)} sentence"
            f"{'s' * (len(table) != 1)}; got {item}"
        )
    return table[item], len(table)


def layers_of(operation: str, weights: Any, item: int = 0) -> tuple[list[NDArray[np.floating]], int]:
    """Give the weights of one sentence as a list over layers of (H, Lq, Lk), and the number of sentences."""
    if isinstance(weights, (list, tuple)) and weights and all(np.ndim(layer) >= 3 for layer in weights):
        found = [heads_of(operation, layer, item) for layer in weights]
    else:
        table = numbers(weights)
        many = table.ndim in (4, 5) and 0 not in table.shape
        found = [heads_of(operation, layer, item) for layer in (table if many else [table])]
    return [layer for layer, _ in found], found[0][1]


def tokens_of(operation: str, name: str, tokens: Any, item: int, wanted: int) -> list[str]:
    """Give the tokens of one sentence, out of one list or a list for each sentence, which may be shorter."""
    given = list(tokens)
    ragged = bool(given) and not isinstance(given[0], str) and np.ndim(given[0]) > 0
    chosen = [str(token) for token in (given[item] if ragged and item < len(given) else given)]
    if len(chosen) != wanted and not (ragged and 0 < len(chosen) < wanted):
        side = "query" if name == "tokens" else "key"
        raise ValueError(
            f"{operation}: {name} must have {wanted} entries, one for each {side}; got {len(chosen)}"
        )
    return chosen


def sentence_of(
    operation: str, layers: list[NDArray[np.floating]], tokens: Any, key_tokens: Any, item: int
) -> tuple[list[NDArray[np.floating]], list[str], list[str]]:
    """Give the weights between the tokens of one sentence, without its padding, and the tokens."""
    _, Lq, Lk = layers[0].shape
    queries = tokens_of(operation, "tokens", tokens, item, Lq)
    keys = tokens_of(operation, "key_tokens", tokens if key_tokens is None else key_tokens, item, Lk)
    return [layer[:, : len(queries), : len(keys)] for layer in layers], queries, keys


def _draw_head(
    ax: Axes, matrix: NDArray[np.floating], queries: list[str], keys: list[str], color: str
) -> None:
    from matplotlib.collections import LineCollection
    from matplotlib.colors import to_rgba

    strength = np.clip(np.nan_to_num(matrix), 0.0, 1.0)
    pairs = np.argwhere(strength > 0.005)
    lines = [[(0.0, float(q)), (1.0, float(k))] for q, k in pairs]
    colors = [(*to_rgba(color)[:3], float(strength[q, k])) for q, k in pairs]
    widths = [0.5 + 2.0 * float(strength[q, k]) for q, k in pairs]
    ax.add_collection(LineCollection(lines, colors=colors, linewidths=widths))
    for x, side, tokens in ((-0.04, "right", queries), (1.04, "left", keys)):
        for place, token in enumerate(tokens):
            ax.text(x, place, token, ha=side, va="center", fontsize="small", parse_math=False)
    ax.set(xlim=(-0.8, 1.8), ylim=(max(len(queries), len(keys)) - 0.5, -0.5))
    ax.set_axis_off()
