"""What the pictures share: matplotlib at the first use, arrays out of anything, checks, one drawn matrix."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ... import _core
from ..._words.errors import needs, shown
from .texts import readable_title

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage


_MOST_PANELS = 20
ODD = "odd"  # the name, in SVG too, of what is drawn over numbers that are not finite
# Colours of what is more and less than 0, of NaN and of what is excluded, as in view.css.
MORE, LESS, NAN, OUT = "#cb281d", "#1f6fb4", "#9628be", "#a5a5a5"


class Drawn(tuple[Any, Any]):
    """A figure and its axes, which a notebook does not print: it shows the figure."""

    def _ipython_display_(self) -> None:
        pass


def pyplot() -> ModuleType:
    """Import matplotlib.pyplot, or say how to install it."""
    words = "plot: matplotlib must be installed because the pictures are drawn with it"
    with needs(f'{words}; pip install "qkv[plot]"'):
        import matplotlib.pyplot as plt
    return plt


def check_there(operation: str, name: str, x: Any) -> None:
    """Refuse None, which attention_weights are before a call."""
    if x is None:
        raise TypeError(
            f"{operation}: {name} must be an array; got None, which attention_weights are before the first call; call "
            "the layer first"
        )


def check_labelled(operation: str, name: str, x: Any, example: str) -> None:
    """Refuse anything but a dict from labels."""
    if not isinstance(x, Mapping):
        raise TypeError(
            f"{operation}: {name} must be a dict because its keys are the labels; got {type(x).__name__}; write "
            f"{example}"
        )


def numbers(x: Any) -> NDArray[np.floating]:
    """Return an array or Tensor as floats that matplotlib can draw."""
    check_there("plot", "numbers", x)
    array = _core.as_numpy(x, "plot", "numbers")
    if array.dtype.kind not in "biufV":  # V: bfloat16
        raise TypeError(f"plot: numbers must be numbers; got dtype {array.dtype}")
    return array if array.dtype in (np.float32, np.float64) else array.astype(np.float64)


def matrix_of(operation: str, x: Any) -> NDArray[np.floating]:
    """Return `x` as numbers (Lq, Lk), or refuse it."""
    table = numbers(x)
    if table.ndim != 2 or 0 in table.shape:
        raise ValueError(
            f"{operation}: a matrix must be (Lq, Lk), neither of them 0, because it becomes one picture; "
            f"got {table.shape}"
        )
    return table


def lines_of(x: Any) -> list[NDArray[np.floating]]:
    """Return one line (n,), a table (lines, n) or a sequence of lines as a list of lines."""
    if isinstance(x, (list, tuple)) and any(np.ndim(line) for line in x):
        return [numbers(line) for line in x]
    table = numbers(x)
    return [table] if table.ndim == 1 else list(table)


def one_axes(figsize: tuple[float, float], ax: Axes | None) -> tuple[Figure, Axes]:
    """Make axes in a new figure, or take the given ones."""
    if ax is None:
        fig, ax = pyplot().subplots(figsize=figsize, layout="constrained")
        return fig, ax
    return figure_of(ax), ax


def whole(fig: Figure) -> None:
    """Let a new figure grow until it shows all its labels, so that ``savefig`` cuts none."""
    if len(fig.axes) > _MOST_PANELS:
        return  # where the layout alone takes seconds
    for _ in range(8):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            fig.draw_without_rendering()
        if any("collapsed" in str(warning.message) for warning in caught):  # no room for the axes
            growth = 0.2
        else:
            box, (width, height) = fig.get_tightbbox(), fig.get_size_inches()
            wide, high = max(box.x1 - width, 0) - min(box.x0, 0), max(box.y1 - height, 0) - min(box.y0, 0)
            if max(wide, high) < 0.02:
                return
            growth = max(wide / width, high / height)
        fig.set_size_inches(*(1 + growth) * fig.get_size_inches())  # both: cells stay square


def figure_of(ax: Axes) -> Figure:
    """Return the figure that the axes are in, also where it is a part of another one."""
    figure: Any = ax.figure
    return figure  # type: ignore[no-any-return]


def given_axes(operation: str, ax: Any, shape: tuple[int, ...]) -> tuple[Figure, NDArray[Any]]:
    """Take axes (one, a sequence or an array of them) in `shape`, in their order."""
    given = np.atleast_1d(np.asarray(ax, dtype=object)).ravel()
    check_number(operation, "ax", list(given), math.prod(shape))
    return figure_of(given[0]), given.reshape(shape)


def grid_of_axes(
    operation: str, ax: Any, shape: tuple[int, int], **options: Any
) -> tuple[Figure, NDArray[Any]]:
    """Make axes in rows and columns of a new figure, or take the given ones."""
    if ax is not None:
        return given_axes(operation, ax, shape)
    fig, axes = pyplot().subplots(*shape, squeeze=False, layout="constrained", **options)
    return fig, axes


def check_number(
    operation: str, name: str, given: Sequence[Any] | None, wanted: int, each: str = "panel or line"
) -> None:
    """Refuse a sequence that has not one entry for each of `wanted` things."""
    if given is None:
        return
    count = len(given) if hasattr(given, "__len__") else shown(given)
    if count != wanted:
        raise ValueError(f"{operation}: {name} must have {wanted} entries, one for each {each}; got {count}")


def check_ticks(operation: str, name: str, given: Sequence[Any] | None, wanted: int) -> None:
    """Refuse tick labels that do not fit the matrix."""
    check_number(operation, name, given, wanted, "row" if name in ("yticks", "target") else "column")


def one_of(operation: str, name: str, value: str | None, other: str | None) -> str | None:
    """Accept an argument under either of its two names."""
    if value is not None and other is not None:
        raise ValueError(
            f"{operation}: {name} must be given once because {name[0]}_label is another name for it; "
            f"got {value!r} and {other!r}"
        )
    return other if value is None else value


def titles_per_row(operation: str, titles: Sequence[Any] | None, rows: int, cols: int) -> list[list[str]]:
    """Spread titles, one per column or one list per row, over the grid."""
    if titles is None:
        return [[""] * cols for _ in range(rows)]
    nested = all(not isinstance(t, str) for t in titles)
    table = [list(t) for t in titles] if nested else [list(titles)] * rows
    if len(table) != rows or any(len(row) != cols for row in table):
        raise ValueError(
            f"{operation}: titles must be {cols} texts, one for each column, or {rows} lists of these, one "
            f"for each row; got {titles!r}"
        )
    return [[readable_title(title) for title in row] for row in table]


def scale(
    tables: Sequence[NDArray[np.floating]], vmin: float | None, vmax: float | None
) -> tuple[float | None, float | None]:
    """Return the ends of one colour scale for all `tables`: their least and greatest finite entries."""
    finite = [t[np.isfinite(t)] for t in tables]
    finite = [t for t in finite if t.size]
    if finite:
        vmin = min(float(t.min()) for t in finite) if vmin is None else vmin
        vmax = max(float(t.max()) for t in finite) if vmax is None else vmax
    return vmin, vmax


def row_of_axes(
    operation: str, count: int, figsize: tuple[float, float], ax: Sequence[Axes] | None, sharey: bool = True
) -> tuple[Figure, NDArray[Any]]:
    """Make `count` axes side by side, or take the given ones."""
    if count == 0:
        raise ValueError(f"{operation}: there must be at least one panel to draw; got none")
    fig, axes = grid_of_axes(operation, ax, (1, count), figsize=figsize, sharey=sharey)
    return fig, axes[0]


def one_bar(fig: Figure, axes: NDArray[Any], image: AxesImage, shrink: float) -> None:
    """Add the colour bar of all panels, whose scale it may widen: where all numbers are the same."""
    for panel in axes.ravel():
        for other in panel.images:
            other.set_norm(image.norm)
    fig.colorbar(image, ax=list(axes.ravel()), shrink=shrink)


def draw_matrix(
    ax: Axes,
    table: NDArray[np.floating],
    cmap: Any,
    vmin: float | None,
    vmax: float | None,
    aspect: Any = "equal",
) -> AxesImage:
    """Draw (Lq, Lk) with the first query on top; NaN and infinite numbers in colours of their own."""
    from matplotlib.ticker import AutoLocator

    finite = np.isfinite(table)
    if not finite.any():
        vmin, vmax = (0.0 if vmin is None else vmin), (1.0 if vmax is None else vmax)
    image = ax.imshow(table, cmap=cmap, vmin=vmin, vmax=vmax, aspect=aspect)
    if not finite.all():
        from matplotlib.colors import to_rgba

        over = np.zeros((*table.shape, 4))
        for color, _, which in _odd(table):
            over[which] = to_rgba(color)
        ax.imshow(over, aspect=aspect, gid=ODD)
    for axis in (ax.xaxis, ax.yaxis):
        locator = AutoLocator()
        locator.set_params(integer=True, min_n_ticks=1)  # there is no key 2.5
        axis.set_major_locator(locator)
    return image


def _odd(table: NDArray[np.floating]) -> list[tuple[str, str, NDArray[np.bool_]]]:
    """Return the colour, the name and the places of numbers that are not finite."""
    kinds = ((NAN, "NaN", np.isnan), (MORE, "inf", np.isposinf), (OUT, "-inf: excluded", np.isneginf))
    return [(color, name, test(table)) for color, name, test in kinds if test(table).any()]


def color_of(x: float) -> str:
    """Return the colour of a number: of its sign, or of what it is instead of a number."""
    return NAN if math.isnan(x) else OUT if x == -math.inf else LESS if x < 0 else MORE


def has_odd(*tables: NDArray[np.floating]) -> bool:
    """Return whether a number is not finite."""
    return not all(bool(np.isfinite(table).all()) for table in tables)


def name_odd(
    fig: Figure, axes: Any, *tables: NDArray[np.floating], is_new: bool = True, more: str = "", less: str = ""
) -> None:
    """Say below the figure, or in its last axes where they are the caller's, what colours mean."""
    names = {name: color for table in tables for color, name, _ in _odd(table)}
    names = {text: color for text, color in ((more, MORE), (less, LESS)) if text} | names
    if not names:
        return
    from matplotlib.patches import Patch

    handles = [Patch(color=color, label=name) for name, color in names.items()]
    options: dict[str, Any] = {"handles": handles, "fontsize": "x-small", "handlelength": 1.0}
    if not is_new:
        np.ravel(axes)[-1].legend(loc="best", **options)
        return
    options["loc"] = "outside lower center" if fig.get_layout_engine() is not None else "lower center"
    fig.legend(ncols=len(handles), frameon=False, **options)


def signed_colors(name: str | None, low: float, high: float) -> Any:
    """Return the colours of numbers from `low` to `high`: of signed ones white is 0, red more and blue less."""
    if name is not None or low >= 0:
        return name or "Reds"
    from matplotlib import colormaps
    from matplotlib.colors import ListedColormap

    top = max(-low, high) or 1.0
    return ListedColormap(
        colormaps["RdBu_r"](np.linspace(0.5 + 0.5 * low / top, 0.5 + 0.5 * high / top, 256))
    )
