"""Curves as pictures."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..._public import explained
from .drawing import Drawn, check_labelled, check_number, lines_of, numbers, one_axes, row_of_axes
from .texts import readable_title

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


FORMATS = ("-", "m--", "g-.", "r:")


@explained
def plot_lines(
    X: ArrayLike | Sequence[ArrayLike],
    Y: ArrayLike | Sequence[ArrayLike] | None = None,
    xlabel: str | None = None,
    ylabel: str | None = None,
    legend: Sequence[str] | None = None,
    figsize: tuple[float, float] = (3.5, 2.5),
    *,
    fmts: Sequence[str] = FORMATS,
    title: str | None = None,
    xlim: tuple[float, float] | None = None,
    ylim: tuple[float, float] | None = None,
    xscale: str = "linear",
    yscale: str = "linear",
    grid: bool = True,
    ax: Axes | None = None,
) -> tuple[Figure, Axes]:
    """Draw lines in the formats solid, magenta dashed, green dash-dotted and red dotted, in turn.

    Parameters
    ----------
    X : array or Tensor, (n,), or a sequence of such, one for each line
        With `Y` None these are the lines themselves, over 0, 1, 2, ...
    Y : array or Tensor, (n,) or (lines, n), or a sequence of (n,)
    xlabel, ylabel, title : str, optional
    legend : sequence of str, optional
        One for each line.
    figsize : (width, height)
        Of the new figure, in inches.
    fmts : sequence of str
        matplotlib's line formats.
    xlim, ylim : (low, high), optional
    xscale, yscale : "linear" or "log"
    grid : bool
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    fig : matplotlib.figure.Figure
    ax : matplotlib.axes.Axes

    Raises
    ------
    ValueError
        If the numbers of lines, x arrays or legend entries differ.
    ImportError
        If matplotlib is missing.

    Examples
    --------
    >>> fig, ax = plot_lines(np.arange(5), [np.arange(5), np.arange(5) ** 2], "x", legend=["x", "x squared"])
    >>> [line.get_linestyle() for line in ax.get_lines()]
    ['-', '--']
    """
    if Y is None:
        ys = lines_of(X)
        xs = [numbers(np.arange(len(y))) for y in ys]
    else:
        xs, ys = lines_of(X), lines_of(Y)
        xs = xs * len(ys) if len(xs) == 1 else xs
    check_number("plot_lines", "X", xs, len(ys))
    check_number("plot_lines", "legend", legend, len(ys))
    fig, ax = one_axes(figsize, ax)
    for x, y, fmt in zip(xs, ys, itertools.cycle(fmts), strict=False):
        ax.plot(x, y, fmt)
    names = dict(
        zip(("xlabel", "ylabel", "title"), map(readable_title, (xlabel, ylabel, title)), strict=True)
    )
    ax.set(**names, xscale=xscale, yscale=yscale)
    ax.set(**{side: limits for side, limits in (("xlim", xlim), ("ylim", ylim)) if limits is not None})
    if legend:
        ax.legend([readable_title(text) for text in legend])
    if grid:
        ax.grid(True)
    return Drawn((fig, ax))


@explained
def kernel_regression(
    x_val: ArrayLike,
    y_hat: Mapping[str, ArrayLike],
    y_val: ArrayLike | None = None,
    x_train: ArrayLike = (),
    y_train: ArrayLike = (),
    figsize: tuple[float, float] = (12, 3),
    *,
    legend: Sequence[str] = ("y_hat", "y"),
    ax: Sequence[Axes] | None = None,
) -> tuple[Figure, NDArray[Any]]:
    """Draw estimates, the truth (magenta, dashed) and the training points, one panel for each estimate.

    Parameters
    ----------
    x_val : array or Tensor, (n,)
    y_hat : dict from label to array or Tensor (n,)
        The labels are below the panels.
    y_val : array or Tensor, (n,), optional
        The truth, where it is known.
    x_train, y_train : array or Tensor, (m,), optional
    figsize : (width, height)
    legend : sequence of str
    ax : sequence of matplotlib.axes.Axes, optional
        One for each estimate.

    Returns
    -------
    fig : matplotlib.figure.Figure
    axes : ndarray of matplotlib.axes.Axes
        They share their y axis.

    Raises
    ------
    ValueError
        If `ax` and `y_hat` differ in number.
    ImportError
        If matplotlib is missing.

    Examples
    --------
    >>> fig, axes = kernel_regression([0, 1], {"Gaussian": [0, 2]}, [0, 1], [0.5], [0.6])
    >>> [line.get_linestyle() for line in axes[0].get_lines()]
    ['-', '--', 'None']
    """
    check_labelled("kernel_regression", "y_hat", y_hat, '{"Gaussian": y_hat}')
    fig, axes = row_of_axes("kernel_regression", len(y_hat), figsize, ax)
    x = numbers(x_val)
    for panel, (label, estimate) in zip(axes, y_hat.items(), strict=True):
        drawn = panel.plot(x, numbers(estimate))
        if y_val is not None:
            drawn += panel.plot(x, numbers(y_val), "m--")
        texts = [readable_title(text) for text in legend[: len(drawn)]]
        drawn += panel.plot(numbers(x_train), numbers(y_train), "o", alpha=0.5)
        panel.set_xlabel(readable_title(label))
        panel.legend(drawn[: len(texts)], texts)
    return Drawn((fig, axes))
