"""Matrices as pictures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..._public import explained
from .drawing import (
    Drawn,
    check_number,
    check_there,
    check_ticks,
    draw_matrix,
    grid_of_axes,
    matrix_of,
    name_odd,
    numbers,
    one_axes,
    one_bar,
    one_of,
    row_of_axes,
    scale,
    titles_per_row,
    whole,
)
from .labels import fit_ticks, label_ticks
from .texts import readable_title

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@explained
def show_heatmaps(
    matrices: ArrayLike,
    xlabel: str | None = None,
    ylabel: str | None = None,
    titles: Sequence[Any] | None = None,
    figsize: tuple[float, float] | None = None,
    cmap: str = "Reds",
    *,
    xticks: Sequence[Any] | None = None,
    yticks: Sequence[Any] | None = None,
    vmin: float | None = None,
    vmax: float | None = None,
    share_scale: bool = True,
    x_label: str | None = None,
    y_label: str | None = None,
    ax: Any = None,
) -> tuple[Figure, NDArray[Any]]:
    """Draw one heatmap per matrix in a grid, with one colour bar.

    All panels share one colour scale, so the bar holds for each of them (in d2l's function of this name each
    panel has its own scale and the bar belongs to the last one). A new figure grows where its labels need room, and
    has at most the size of a screen unless these or `figsize` ask for more.

    Parameters
    ----------
    matrices : array or Tensor, (rows, cols, Lq, Lk)
    xlabel, ylabel : str, optional
        Written below the bottom row and beside the left column. `x_label` and `y_label` are accepted too.
    titles : sequence of str, optional
        One for each column, or one such sequence for each row.
    figsize : (width, height), optional
        Of the whole figure, in inches; (2.5, 2.5) for one panel and more for a grid unless given.
    cmap : str
    xticks, yticks : sequence, optional
        Labels of the Lk keys and the Lq queries, such as words: text as it is, never formulas, so small in a new
        figure that they are apart.
    vmin, vmax : float, optional
        Ends of the colour scale; the least and the greatest entry unless given.
    share_scale : bool
        False gives each panel a scale and a colour bar of its own.
    ax : array or sequence of matplotlib.axes.Axes, optional
        One for each matrix, row by row.

    Returns
    -------
    fig : matplotlib.figure.Figure
    axes : ndarray of matplotlib.axes.Axes, (rows, cols)

    Raises
    ------
    ValueError
        If `matrices` is not 4-D, or labels do not fit it in number.
    ImportError
        If matplotlib is missing.

    Examples
    --------
    >>> fig, axes = show_heatmaps(np.eye(10).reshape(1, 1, 10, 10), xlabel="Keys", ylabel="Queries")
    >>> axes.shape, axes[0, 0].get_xlabel()
    ((1, 1), 'Keys')
    """
    name = "show_heatmaps"
    xlabel, ylabel = one_of(name, "xlabel", xlabel, x_label), one_of(name, "ylabel", ylabel, y_label)
    check_there(name, "matrices", matrices)
    table = numbers(matrices)
    if table.ndim != 4 or 0 in table.shape:
        one = "; one matrix is drawn by qkv.plot.heatmap(matrix)" if table.ndim == 2 else ""
        raise ValueError(
            f"{name}: matrices must be (rows, cols, Lq, Lk), none of them 0, because each matrix becomes one "
            f"panel of a grid; got {table.shape}{one}"
        )
    rows, cols, Lq, Lk = table.shape
    per_row = titles_per_row(name, titles, rows, cols)
    check_ticks(name, "xticks", xticks, Lk)
    check_ticks(name, "yticks", yticks, Lq)
    low, high = scale([table], vmin, vmax) if share_scale else (vmin, vmax)
    size = figsize or grid_size(table.shape, xticks, yticks)
    fig, axes = grid_of_axes(name, ax, (rows, cols), figsize=size, sharex=True, sharey=True)
    for i, j in np.ndindex(rows, cols):
        image = draw_matrix(axes[i, j], table[i, j], cmap, low, high)
        if ax is not None:
            label_ticks(axes[i, j], xticks, yticks)
        if not share_scale:
            fig.colorbar(image, ax=axes[i, j], shrink=0.6)
        axes[i, j].set(
            xlabel=readable_title(xlabel) if i == rows - 1 else "",
            ylabel=readable_title(ylabel) if j == 0 else "",
            title=per_row[i][j],
        )
    if share_scale:
        one_bar(fig, axes, image, 0.6)
    name_odd(fig, axes, table, is_new=ax is None)
    if ax is None:  # panels share their axes: only the outer ones show labels
        for panel in axes[-1]:
            label_ticks(panel, xticks, None)
        for panel in axes[:, 0]:
            label_ticks(panel, None, yticks)
        fit_ticks(fig, axes[-1], xticks, axes[:, 0], yticks, grows=figsize is None)
    return Drawn((fig, axes))


SCREEN = 14.0, 9.0  # inches


def grid_size(
    shape: tuple[int, ...], xticks: Sequence[Any] | None, yticks: Sequence[Any] | None
) -> tuple[float, float]:
    """Return the size in inches at which a grid (rows, cols, Lq, Lk) of heatmaps can be read."""
    rows, cols, Lq, Lk = shape
    if rows == cols == 1 and xticks is None and yticks is None:
        return 2.5, 2.5
    cell = 0.2 if xticks is None and yticks is None else 0.26
    high, wide = max(1.5, cell * Lq), max(1.5, cell * Lk)
    beside, below = (
        0.09 * max(map(len, map(str, ticks)), default=0) if ticks else 0.3 for ticks in (yticks, xticks)
    )
    width, height = 1.0 + beside + cols * wide, 0.6 + below + rows * (high + 0.25)
    part = min(1.0, SCREEN[0] / width, SCREEN[1] / height)
    return part * width, part * height


@explained
def heatmap(
    matrix: ArrayLike,
    xlabel: str | None = None,
    ylabel: str | None = None,
    title: str | None = None,
    *,
    ax: Axes | None = None,
    figsize: tuple[float, float] | None = None,
    cmap: str = "Reds",
    vmin: float | None = None,
    vmax: float | None = None,
    aspect: str = "equal",
    xticks: Sequence[Any] | None = None,
    yticks: Sequence[Any] | None = None,
    colorbar: float | None = None,
) -> tuple[Figure, Axes]:
    """Draw one matrix, into `ax` or a new figure.

    Parameters
    ----------
    matrix : array or Tensor, (Lq, Lk)
    xlabel, ylabel, title : str, optional
    ax : matplotlib.axes.Axes, optional
    figsize : (width, height), optional
        Of the new figure, in inches; (2.5, 2.5), and more where its labels need room, unless given.
    cmap : str
    vmin, vmax : float, optional
    aspect : "equal" or "auto"
        "auto" fills the axes instead of drawing square cells.
    xticks, yticks : sequence, optional
        Labels of the columns and the rows, as in `show_heatmaps`.
    colorbar : float, optional
        Add a colour bar of this length, relative to the axes.

    Returns
    -------
    fig : matplotlib.figure.Figure
    ax : matplotlib.axes.Axes

    Raises
    ------
    ValueError
        If `matrix` is not 2-D, or labels do not fit it in number.
    ImportError
        If matplotlib is missing.

    Examples
    --------
    >>> fig, ax = heatmap(np.eye(3), "Keys", title="identity")
    >>> ax.get_title()
    'identity'
    """
    table = matrix_of("heatmap", matrix)
    check_ticks("heatmap", "xticks", xticks, table.shape[1])
    check_ticks("heatmap", "yticks", yticks, table.shape[0])
    fig, own = one_axes(figsize or grid_size((1, 1, *table.shape), xticks, yticks), ax)
    image = draw_matrix(own, table, cmap, vmin, vmax, aspect)
    label_ticks(own, xticks, yticks)
    own.set(xlabel=readable_title(xlabel), ylabel=readable_title(ylabel), title=readable_title(title))
    if colorbar is not None:
        fig.colorbar(image, ax=own, shrink=colorbar)
    name_odd(fig, own, table, is_new=ax is None)
    if ax is None:
        fit_ticks(fig, [own], xticks, [own], yticks, grows=figsize is None)
    return Drawn((fig, own))


@explained
def alignment(
    weights: ArrayLike,
    source: Sequence[str],
    target: Sequence[str],
    xlabel: str = "Source",
    ylabel: str = "Target",
    *,
    ax: Axes | None = None,
    figsize: tuple[float, float] | None = None,
    cmap: str = "Reds",
    colorbar: float | None = 0.6,
) -> tuple[Figure, Axes]:
    """Draw which source token each target token attends to.

    Parameters
    ----------
    weights : array or Tensor, (target tokens, source tokens)
    source, target : sequence of str
        The tokens, written beside the columns and the rows.
    xlabel, ylabel : str
    ax : matplotlib.axes.Axes, optional
    figsize : (width, height), optional
        By the tokens unless given.
    cmap : str
    colorbar : float, optional
        Length of the colour bar; None for none.

    Returns
    -------
    fig : matplotlib.figure.Figure
    ax : matplotlib.axes.Axes

    Raises
    ------
    ValueError
        If the numbers of tokens do not fit `weights`.
    ImportError
        If matplotlib is missing.

    Examples
    --------
    >>> fig, ax = alignment([[0.9, 0.1], [0.2, 0.8]], ["Guten", "Morgen"], ["good", "morning"])
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['good', 'morning']
    """
    table = matrix_of("alignment", weights)
    check_ticks("alignment", "source", source, table.shape[1])
    check_ticks("alignment", "target", target, table.shape[0])
    size = grid_size((1, 1, *table.shape), source, target)
    return heatmap(
        table,
        xlabel,
        ylabel,
        ax=ax,
        figsize=figsize or (max(4.5, size[0]), max(4.0, size[1])),
        cmap=cmap,
        xticks=source,
        yticks=target,
        colorbar=colorbar,
    )


@explained
def heatmap_row(
    matrices: Sequence[ArrayLike],
    labels: Sequence[str],
    ylabel: str | Sequence[str] | None = None,
    titles: Sequence[str] | None = None,
    figsize: tuple[float, float] = (12, 3),
    cmap: str = "Reds",
    *,
    shrink: float = 0.7,
    vmin: float | None = None,
    vmax: float | None = None,
    share_scale: bool = True,
    ax: Sequence[Axes] | None = None,
) -> tuple[Figure, NDArray[Any]]:
    """Draw matrices side by side, each with its own label, and one colour bar.

    Parameters
    ----------
    matrices : sequence of arrays or Tensors, each (Lq, Lk)
    labels : sequence of str
        Written below the panels.
    ylabel : str or sequence of str, optional
        For the left panel, or one for each panel.
    titles : sequence of str, optional
    figsize : (width, height)
    cmap : str
    shrink : float
        Length of the colour bar, relative to the axes.
    vmin, vmax : float, optional
        Ends of the colour scale.
    share_scale : bool
        False gives each panel its own scale; the colour bar is then that of the last panel alone.
    ax : sequence of matplotlib.axes.Axes, optional
        One for each matrix.

    Returns
    -------
    fig : matplotlib.figure.Figure
    axes : ndarray of matplotlib.axes.Axes

    Raises
    ------
    ValueError
        If a matrix is not 2-D, or labels, titles or axes do not fit in number.
    ImportError
        If matplotlib is missing.

    Examples
    --------
    >>> fig, axes = heatmap_row([np.eye(3), np.ones((3, 3)) / 3], ["sharp", "flat"])
    >>> [a.get_xlabel() for a in axes]
    ['sharp', 'flat']
    """
    name = "heatmap_row"
    tables = [matrix_of(name, m) for m in matrices]
    ylabels = (
        [ylabel or "", *[""] * len(tables)][: len(tables)]
        if ylabel is None or isinstance(ylabel, str)
        else ylabel
    )
    for what, given in (("labels", labels), ("ylabel", ylabels), ("titles", titles)):
        check_number(name, what, given, len(tables))
    fig, axes = row_of_axes(name, len(tables), figsize, ax, sharey=len({len(table) for table in tables}) == 1)
    low, high = scale(tables, vmin, vmax) if share_scale else (vmin, vmax)
    for i, (panel, table) in enumerate(zip(axes, tables, strict=True)):
        image = draw_matrix(panel, table, cmap, low, high)
        names = (labels[i], ylabels[i], titles[i] if titles else "")
        panel.set(**dict(zip(("xlabel", "ylabel", "title"), map(readable_title, names), strict=True)))
        panel.title.set_fontsize("small")
    if share_scale:
        one_bar(fig, axes, image, shrink)
    else:
        fig.colorbar(image, ax=list(axes), shrink=shrink)
    name_odd(fig, axes, *tables, is_new=ax is None)
    if ax is None:
        whole(fig)
    return Drawn((fig, axes))
