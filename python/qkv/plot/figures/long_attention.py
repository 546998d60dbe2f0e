"""Attention of any length as a heatmap."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..._public import explained
from ..._types import Numbers
from ...functions.image import attention_image
from .drawing import Drawn, grid_of_axes, numbers, one_bar, scale

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@explained
def show_attention(
    query: Numbers,
    key: Numbers,
    *,
    size: tuple[int, int] = (512, 512),
    rows: tuple[int, int] | None = None,
    columns: tuple[int, int] | None = None,
    cmap: str = "Reds",
    vmin: float | None = None,
    vmax: float | None = None,
    ax: Axes | None = None,
    **options: Any,
) -> tuple[Figure, NDArray[Any]]:
    """Draw the weights of attention, however long, each head as one panel: see :func:`qkv.attention_image`.

    Parameters
    ----------
    query : array_like or Tensor
        ``(B, H, Lq, D)``, ``(B, Lq, D)`` or ``(Lq, D)``.
    key : array_like or Tensor
        ``(B, H, Lk, D)``, or without the axes that the query lacks.
    size : (int, int)
        Height and width of a panel in pixels.
    rows, columns : (int, int), optional
        Queries and keys that are shown; all unless given.
    cmap : str
    vmin, vmax : float, optional
        Ends of the colour scale; 0 and the greatest pixel unless given.
    ax : Axes or sequence of matplotlib.axes.Axes, optional
        One for each panel: a row for each batch item, a column for each head.
    **options
        ``reduce``, and those of :func:`qkv.scaled_dot_product_attention`.

    Returns
    -------
    fig : matplotlib.figure.Figure
    axes : ndarray of matplotlib.axes.Axes, (B, H)

    Raises
    ------
    ValueError
        If shapes or ranges do not fit, or `ax` are too few.
    ImportError
        If matplotlib is missing.

    Examples
    --------
    >>> fig, axes = show_attention(np.ones((2, 1000, 8)), np.ones((2, 1000, 8)), is_causal=True)
    >>> axes.shape
    (2, 1)
    """
    image = numbers(attention_image(query, key, size=size, rows=rows, columns=columns, **options))
    panels = image[None, None] if image.ndim == 2 else image[:, None] if image.ndim == 3 else image
    count, heads = panels.shape[:2]
    inches = min(14.0, 0.8 + 3.2 * heads), min(9.0, 0.4 + 3.0 * count)
    fig, axes = grid_of_axes("show_attention", ax, (count, heads), figsize=inches, sharex=True, sharey=True)
    low, high = scale([panels], 0.0 if vmin is None else vmin, vmax)
    top, bottom = rows or (0, _length(query))
    left, right = columns or (0, _length(key))
    for i, j in np.ndindex(count, heads):
        drawn = axes[i, j].imshow(
            panels[i, j],
            cmap=cmap,
            vmin=low,
            vmax=high,
            aspect="auto",
            interpolation="nearest",
            extent=(left - 0.5, right - 0.5, bottom - 0.5, top - 0.5),
        )
        axes[i, j].set(
            xlabel="keys" if i == count - 1 else "",
            ylabel="queries" if j == 0 else "",
            title=f"head {j}" if heads > 1 else "",
        )
    one_bar(fig, axes, drawn, 0.6)
    return Drawn((fig, axes))


def _length(x: Any) -> int:
    return int(np.shape(x)[-2])
