"""The helpers of d2l's chapters on attention, by their names: ``from qkv.torch import d2l``.

They are those of the English edition 1.0. Document 000 calls them ``utils``: ``from qkv.torch import d2l as utils``.
"""

# ruff: noqa: F403

from __future__ import annotations

import importlib

from .._display.html import in_notebook
from ._d2l import edition
from ._d2l.attention import *
from ._d2l.functions import *
from ._d2l.seq2seq import *
from ._d2l.training import *
from ._dtypes import CPU
from ._elementwise import as_numbers
from ._tensor import Core, plain


def try_gpu(i=0):
    """The CPU."""
    return CPU


def use_svg_display():
    """Let a notebook show figures as SVG."""
    if in_notebook():
        importlib.import_module("matplotlib_inline.backend_inline").set_matplotlib_formats("svg")


def set_figsize(figsize=(3.5, 2.5)):
    """Set the size of figures to come, in inches."""
    use_svg_display()
    _pyplot().rcParams["figure.figsize"] = figsize


def _pyplot():
    from ..plot.figures.drawing import pyplot

    return pyplot()


def show_heatmaps(
    matrices,
    xlabel=None,
    ylabel=None,
    titles=None,
    figsize=(2.5, 2.5),
    cmap="Reds",
    *,
    x_label=None,
    y_label=None,
):
    """Draw ``(rows, columns, Lq, Lk)`` matrices; see :func:`qkv.plot.show_heatmaps`."""
    from ..plot import show_heatmaps as show

    return show(plain(matrices), xlabel or x_label, ylabel or y_label, titles, figsize, cmap)


def plot(
    X,
    Y=None,
    xlabel=None,
    ylabel=None,
    legend=(),
    xlim=None,
    ylim=None,
    xscale="linear",
    yscale="linear",
    fmts=("-", "m--", "g-.", "r:"),
    figsize=(3.5, 2.5),
    axes=None,
):
    """Draw lines, one for each row of ``Y`` over ``X``; without ``Y`` the rows of ``X`` over their numbers."""
    if Y is None:
        X, Y = None, X
    lines = _rows(Y)
    places = [range(len(line)) for line in lines] if X is None else _rows(X)
    if axes is None:
        axes = _pyplot().figure(figsize=figsize, layout="constrained").add_subplot()
    for i, line in enumerate(lines):
        axes.plot(places[i % len(places)], line, fmts[i % len(fmts)])
    axes.set(xlabel=xlabel, ylabel=ylabel, xlim=xlim, ylim=ylim, xscale=xscale, yscale=yscale)
    if len(legend):
        axes.legend(legend)
    axes.grid()
    return axes


def _rows(values):
    """Lines: of one row, or of several."""
    values = as_numbers(values) if isinstance(values, Core) else values
    if len(values) and hasattr(values[0], "__len__"):
        return [as_numbers(line) for line in values]
    return [as_numbers(values)]


def __getattr__(name):
    if name == "plt":
        return _pyplot()
    if name in ("FashionMNIST", "MTFraEng", "TimeMachine"):
        raise AttributeError(
            f"d2l: {name} is a download, and qkv makes none; write a d2l.DataModule with get_dataloader(train)"
        )
    return edition.refuse(name)


for _value in list(vars().values()):
    if (
        isinstance(_value, type)
        and _value.__module__.startswith("qkv.torch._d2l.")
        and "__init__" in vars(_value)
    ):
        edition.says_edition(_value)
