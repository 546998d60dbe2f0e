"""How a training went."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .._errors import count_of
from .drawing import numbers, one_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def training_curve(
    history: Any,
    metrics: Sequence[str] | None = None,
    *,
    smooth: int | None = None,
    reference: Mapping[str, float] | None = None,
    title: str | None = None,
    yscale: str = "linear",
    figsize: tuple[float, float] = (5.0, 3.0),
    ax: Axes | None = None,
) -> tuple[Figure, Axes]:
    """Draw the loss of each update, its running mean, and the metrics of the evaluations, on an axis of their own.

    Parameters
    ----------
    history : qkv.training.History, or array_like (updates,)
        A history, or losses alone.
    metrics : sequence of str, optional
        Which metrics to draw, all of them unless given. Those with "loss" in their name share the axis of the loss.
    smooth : int, optional
        Number of updates in the running mean; a fiftieth of all unless given, 1 draws none.
    reference : dict from label to number, optional
        Losses to compare with, such as the entropy of single characters, drawn as dotted lines.
    title : str, optional
    yscale : "linear" or "log"
        Of the loss.
    figsize : (width, height)
        Of the new figure, in inches.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    fig : matplotlib.figure.Figure
    ax : matplotlib.axes.Axes
        Of the loss; that of the other metrics is its twin, ``fig.axes[-1]``.

    Raises
    ------
    ValueError
        If there is no update, or no such metric.
    ImportError
        If matplotlib is missing.

    Examples
    --------
    >>> fig, ax = training_curve([4.0, 2.0, 1.0, 0.5], reference={"entropy": 1.5})
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['loss', 'entropy']
    """
    loss = numbers(history.loss if hasattr(history, "loss") else history)
    if loss.ndim != 1 or loss.size == 0:
        raise ValueError(
            f"training_curve: history must hold the loss of at least one update; got {loss.shape} losses"
        )
    known = history.metrics() if hasattr(history, "metrics") else []
    chosen = list(known if metrics is None else metrics)
    if set(chosen) - set(known):
        raise ValueError(
            f"training_curve: metrics must be out of those of the history, {known}; got {list(chosen)}"
        )
    width = max(loss.size // 50, 1) if smooth is None else count_of("training_curve", "smooth", smooth, 1)
    fig, ax = one_axes(figsize, ax)
    updates = np.arange(1, loss.size + 1)
    drawn = [*ax.plot(updates, loss, color="C0", alpha=0.3 if width > 1 else 1.0, label="loss")]
    if loss.size == 1:  # no line to be seen
        drawn[0].set_marker("o")
    if width > 1:
        mean = running_mean(loss, width)
        drawn += ax.plot(updates, mean, color="C0", label=f"mean of {width}")
    for label, value in (reference or {}).items():
        drawn.append(ax.axhline(value, color="gray", linestyle=":", label=label))
    ax.set(xlabel="update", ylabel="loss", title=title or "", yscale=yscale)
    ax.grid(True, alpha=0.4)
    others = [name for name in chosen if "loss" not in name]
    beside = ax.twinx() if others else ax
    for number, name in enumerate(chosen, start=1):
        steps, values = history.metric(name)
        target = beside if name in others else ax
        drawn += target.plot(steps, values, color=f"C{number}", marker="o", markersize=3, label=name)
    if others:
        beside.set_ylabel(" / ".join(others))
        beside.legend(handles=drawn, fontsize="small", loc="center right")  # above the lines of both axes
    else:
        ax.legend(handles=drawn, fontsize="small")
    return fig, ax


def running_mean(values: NDArray[Any], width: int) -> NDArray[np.float64]:
    """Give the mean of each value and those before it, at most `width` of them."""
    total = np.concatenate([[0.0], np.cumsum(values, dtype=np.float64)])
    last = np.arange(1, values.size + 1)
    first = np.maximum(last - width, 0)
    mean: NDArray[np.float64] = (total[last] - total[first]) / (last - first)
    return mean
