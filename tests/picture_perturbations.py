"""What can be wrong with what is drawn: each function here changes matplotlib, or d2l's function, in this process.

`CHANGED` holds the numbers of the figures in which a change is to be seen: there a check has to fail.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from perturbations import wrap

CHANGED: set[int] = set()


def note(artist: Any) -> None:
    """Remember that something differs in the figure that an artist belongs to."""
    from qkv.reproduce.figures import number_of

    figure = artist.figure
    while getattr(figure, "figure", figure) is not figure:
        figure = figure.figure
    CHANGED.add(number_of(figure))


def heatmaps(change: Callable[[np.ndarray], np.ndarray]) -> None:
    """Change the matrices that are drawn."""
    from matplotlib.axes import Axes

    def make(function: Any) -> Any:
        def imshow(self: Any, table: Any, *args: Any, **kwargs: Any) -> Any:
            table = np.asarray(table, dtype=float)
            other = change(table)
            if not np.array_equal(table, other, equal_nan=True):
                note(self)
            return function(self, other, *args, **kwargs)

        return imshow

    wrap(Axes, "imshow", make)


def heatmaps_halved() -> None:
    """Heatmaps show half of each number."""
    heatmaps(lambda table: table / 2)


def heatmaps_transposed() -> None:
    """Heatmaps show queries as columns."""
    heatmaps(lambda table: table.swapaxes(0, 1))


def after_image(change: Callable[[Any], None]) -> None:
    """Change images once they are drawn; those of colours instead of numbers stay."""
    from matplotlib.axes import Axes

    def make(function: Any) -> Any:
        def imshow(self: Any, table: Any, *args: Any, **kwargs: Any) -> Any:
            image = function(self, table, *args, **kwargs)
            if np.ndim(table) == 2:
                change(image)
            return image

        return imshow

    wrap(Axes, "imshow", make)


def colours_by_a_power_law() -> None:
    """The colours of heatmaps follow the root of the numbers."""
    from matplotlib.colors import PowerNorm

    def change(image: Any) -> None:
        image.set_norm(PowerNorm(0.5, *image.get_clim()))
        note(image)

    after_image(change)


def colour_maps_reversed() -> None:
    """What was dark is light."""

    def change(image: Any) -> None:
        image.set_cmap(image.get_cmap().reversed())
        note(image)

    after_image(change)


def panels_swapped() -> None:
    """The second heatmap of a figure is where the first should be, and the reverse."""

    def change(image: Any) -> None:
        others = [i for ax in image.figure.axes for i in ax.get_images() if i is not image]
        if len(others) == 1:
            first, second = (np.array(i.get_array()) for i in (others[0], image))
            if first.shape == second.shape and not np.array_equal(first, second, equal_nan=True):
                others[0].set_data(second)
                image.set_data(first)
                note(image)

    after_image(change)


def lines_reversed() -> None:
    """Lines run from their end to their beginning."""
    from matplotlib.axes import Axes

    def make(function: Any) -> Any:
        def plot(self: Any, *args: Any, **kwargs: Any) -> Any:
            drawn = function(self, *args, **kwargs)
            for line in drawn if self.axison else ():
                y = np.asarray(line.get_ydata(), dtype=float)
                if not np.array_equal(y, y[::-1], equal_nan=True):
                    line.set_ydata(y[::-1])
                    note(self)
            return drawn

        return plot

    wrap(Axes, "plot", make)


def bars_reversed() -> None:
    """The first bar is as long as the last should be; bars that are drawn one by one go the other way."""
    from matplotlib.axes import Axes

    def make(function: Any) -> Any:
        def bar(self: Any, *args: Any, **kwargs: Any) -> Any:
            if len(args) > 1:  # else it is barh that calls bar
                places, sizes, *rest = args
                other = sizes[::-1] if np.ndim(sizes) else -sizes
                if not np.array_equal(sizes, other):
                    note(self)
                args = places, other, *rest
            return function(self, *args, **kwargs)

        return bar

    wrap(Axes, "bar", make)
    wrap(Axes, "barh", make)


def arrows_reversed() -> None:
    """Arrows point to where they come from."""
    from matplotlib.axes import Axes

    def make(function: Any) -> Any:
        def annotate(self: Any, text: str, xy: Any, xytext: Any = None, *args: Any, **kwargs: Any) -> Any:
            if xytext is not None and kwargs.get("arrowprops"):
                note(self)
                xy, xytext = xytext, xy
            return function(self, text, xy, xytext, *args, **kwargs)

        return annotate

    wrap(Axes, "annotate", make)


def titles_rolled() -> None:
    """The first letter of a title is its last."""
    from matplotlib.axes import Axes

    def make(function: Any) -> Any:
        def set_title(self: Any, label: str, *args: Any, **kwargs: Any) -> Any:
            other = label[1:] + label[:1]
            if other != label:
                note(self)
            return function(self, other, *args, **kwargs)

        return set_title

    wrap(Axes, "set_title", make)


def tick_labels_rolled() -> None:
    """The label of each tick is at the one before."""
    from matplotlib.axis import Axis

    def make(function: Any) -> Any:
        def set_ticks(self: Any, ticks: Any, labels: Any = None, **kwargs: Any) -> Any:
            if labels is not None and list(labels) != [*labels[1:], *labels[:1]]:
                note(self)
                labels = [*labels[1:], *labels[:1]]
            return function(self, ticks, labels, **kwargs)

        return set_ticks

    wrap(Axis, "set_ticks", make)


def d2l_heatmaps_halved() -> None:
    """The heatmaps of d2l's function show half of each number."""
    from qkv.torch import d2l

    def make(function: Any) -> Any:
        def show_heatmaps(matrices: Any, *args: Any, **kwargs: Any) -> Any:
            drawn = function(matrices / 2, *args, **kwargs)
            import matplotlib.pyplot as plt

            note(plt.gca())
            return drawn

        return show_heatmaps

    wrap(d2l, "show_heatmaps", make)


PICTURES: dict[str, Callable[[], None]] = {
    f.__name__: f
    for f in (
        heatmaps_halved,
        heatmaps_transposed,
        colours_by_a_power_law,
        colour_maps_reversed,
        panels_swapped,
        lines_reversed,
        bars_reversed,
        arrows_reversed,
        titles_rolled,
        tick_labels_rolled,
        d2l_heatmaps_halved,
    )
}
