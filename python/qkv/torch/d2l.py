"""The helpers of d2l's chapters on attention, by their names: ``from qkv.torch import d2l``.

Document 000 calls them ``utils``: ``from qkv.torch import d2l as utils``.
"""

# ruff: noqa: F403

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ._d2l.attention import *
from ._d2l.seq2seq import *
from ._d2l.training import *
from ._dtypes import CPU, device
from ._elementwise import as_numbers
from ._tensor import Core, plain, refuse_attribute


def try_gpu(i: int = 0) -> device:
    """The CPU."""
    return CPU


def show_heatmaps(
    matrices: Any,
    xlabel: str | None = None,
    ylabel: str | None = None,
    titles: Sequence[str] | None = None,
    figsize: tuple[float, float] = (2.5, 2.5),
    cmap: str = "Reds",
    *,
    x_label: str | None = None,
    y_label: str | None = None,
) -> Any:
    """Draw ``(rows, columns, Lq, Lk)`` matrices; see :func:`qkv.plot.show_heatmaps`."""
    from ..plot import show_heatmaps as show

    return show(plain(matrices), xlabel or x_label, ylabel or y_label, titles, figsize, cmap)


def plot(
    X: Any,
    Y: Any = None,
    xlabel: str | None = None,
    ylabel: str | None = None,
    legend: Sequence[str] = (),
    xlim: Any = None,
    ylim: Any = None,
    xscale: str = "linear",
    yscale: str = "linear",
    fmts: Sequence[str] = ("-", "m--", "g-.", "r:"),
    figsize: tuple[float, float] = (3.5, 2.5),
    axes: Any = None,
) -> Any:
    """Draw lines, one for each row of ``Y`` over ``X``; without ``Y`` the rows of ``X`` over their numbers."""
    from ..plot.drawing import pyplot

    if Y is None:
        X, Y = None, X
    lines = _rows(Y)
    places = [range(len(line)) for line in lines] if X is None else _rows(X)
    if axes is None:
        axes = pyplot().figure(figsize=figsize, layout="constrained").add_subplot()
    for i, line in enumerate(lines):
        axes.plot(places[i % len(places)], line, fmts[i % len(fmts)])
    axes.set(xlabel=xlabel, ylabel=ylabel, xscale=xscale, yscale=yscale, xlim=xlim, ylim=ylim)
    if len(legend):
        axes.legend(legend)
    axes.grid()
    return axes


def _rows(values: Any) -> list[Any]:
    """Lines: of one row, or of several."""
    if isinstance(values, Core):
        numbers = as_numbers(values)
        return [numbers] if numbers.ndim < 2 else list(numbers)
    if len(values) and hasattr(values[0], "__len__"):
        return [as_numbers(line) for line in values]
    return [as_numbers(values)]


def __getattr__(name: str) -> Any:
    refuse_attribute("d2l", name)
