"""The course of a training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..._public import explained
from ..._words.errors import count_of
from .drawing import Drawn, check_labelled, numbers, one_axes
from .texts import readable_title

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ...training import History


SIZES, APART = 3.0, 45.0  # by how much metrics of one axis differ, and points from one axis to the next


@explained
def training_curve(
    history: History | ArrayLike,
    metrics: Sequence[str] | None = None,
    *,
    smooth: int | None = None,
    reference: Mapping[str, float] | None = None,
    title: str | None = None,
    yscale: str = "linear",
    figsize: tuple[float, float] = (5.0, 3.0),
    ax: Axes | None = None,
) -> tuple[Figure, Axes]:
    """Draw the loss of each update, its running mean, and the metrics of the evaluations, on axes of their own.

    Parameters
    ----------
    history : qkv.training.History, or array_like (updates,)
        A history, or losses alone.
    metrics : sequence of str, optional
        Which metrics to draw, all of them unless given. Those with "loss" in their name share the axis of the loss, the
        others one on the right if their largest numbers differ by no more than a factor of 3 from those of the first.
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
        Of the loss; those of the other metrics are its twins, the last of ``fig.axes``.

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
    reference = {} if reference is None else reference
    check_labelled("training_curve", "reference", reference, '{"entropy": 1.5}')
    for label, value in reference.items():
        drawn.append(ax.axhline(value, color="gray", linestyle=":", label=readable_title(label)))
    ax.set(xlabel="update", ylabel="loss", title=readable_title(title), yscale=yscale)
    ax.grid(True, alpha=0.4)
    # The largest number of its first metric, and all their names.
    beside: list[tuple[Axes, float, list[str]]] = []
    for number, name in enumerate(chosen, start=1):
        steps, values = history.metric(name)  # type: ignore[union-attr]  # of which the names are
        target = ax if "loss" in name else _beside(ax, beside, name, values)
        label = readable_title(name)
        drawn += target.plot(steps, values, color=f"C{number}", marker="o", markersize=3, label=label)
    for target, _, names in beside:
        target.set_ylabel(readable_title(" / ".join(names)))
    top = beside[-1][0] if beside else ax  # above the lines of all axes
    top.legend(handles=drawn, fontsize="small", loc="center right" if beside else "best")
    return Drawn((fig, ax))


def _beside(ax: Axes, known: list[tuple[Axes, float, list[str]]], name: str, values: list[float]) -> Any:
    """Return the axis on the right on which a metric can be read: that of metrics of its size, or a new one."""
    size = float(np.max(np.abs(values), initial=0.0, where=np.isfinite(values)))
    for target, first, names in known:
        if first / SIZES <= size <= first * SIZES:
            names.append(name)
            return target
    target = ax.twinx()
    target.spines["right"].set_position(("outward", APART * len(known)))
    known.append((target, size, [name]))
    return target


def running_mean(values: NDArray[Any], width: int) -> NDArray[np.float64]:
    """Return the mean of each value and those before it, at most `width` of them."""
    total = np.concatenate([[0.0], np.cumsum(values, dtype=np.float64)])
    last = np.arange(1, values.size + 1)
    first = np.maximum(last - width, 0)
    mean: NDArray[np.float64] = (total[last] - total[first]) / (last - first)
    return mean
