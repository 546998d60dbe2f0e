"""Attention of a vision model over its image."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..._public import explained
from ..._words.errors import counted, shown
from ..figures.drawing import color_of, given_axes, name_odd
from .heads import HeadsView, Weights, layers_of, place_in, title_of, tokens_of
from .packing import has_negative, largest, text_of
from .view import AttentionView

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HOT = 230 / 255, 60 / 255, 20 / 255  # colour of a weight, as in view.css
LARGEST = 448  # pixels of the page's image, on its longer side


@explained
def image_view(
    weights: Weights,
    image: ArrayLike,
    *,
    grid: tuple[int, int] | None = None,
    tokens: Sequence[Any] | None = None,
    query: int = 0,
    layer: int = 0,
    head: int | None = None,
    item: int = 0,
    title: str | None = None,
    ncols: int = 4,
    ax: Axes | Sequence[Axes] | None = None,
) -> AttentionView:
    """Draw the attention of a patch, of a token before the patches or of a word, over the image.

    A notebook shows a page: click on a patch (or move with the arrow keys) to see what it attends to. The figure has a
    panel for each head.

    Parameters
    ----------
    weights : array or Tensor (Lq, Lk), (H, Lq, Lk) or (B, H, Lq, Lk), a list of such arrays, or a recording
        The keys are the patches of a grid, row by row, and before them as many other tokens, CLS and registers, as
        there are more keys. The queries are the same, or `tokens`. A list holds the layers. Of a recording all weights
        are taken.
    image : array (height, width, 3), (3, height, width) or (height, width)
        uint8, or floats from 0 to 1.
    grid : (int, int), optional
        Rows and columns of patches; unless given it is square, with at most one token before it.
    tokens : sequence of Lq str, optional
        The queries, where they are words, as those of a caption.
    query : int
        Which token is the query at first: 0 is the CLS token where there is one, or the first word; negative ones
        count from the end.
    layer, head : int
        What is shown first; the figure draws all heads of the layer unless `head` is given.
    item : int
        Which image of a batch is shown; the title says so.
    title : str, optional
    ncols : int
        Number of panels of the figure beside each other.
    ax : matplotlib.axes.Axes, or a sequence of them, optional
        One for each head: draws the figure there.

    Returns
    -------
    AttentionView
        ``save("name.svg")``, ``figure()``; unpacks to ``(fig, axes)``, axes (H,).

    Raises
    ------
    ValueError
        If `weights` are not over such a grid, `image` is not an image, tokens do not fit in number, or there is no such
        item, query, layer or head.
    ImportError
        If matplotlib is missing, for figures.

    Examples
    --------
    >>> image_view(np.full((3, 5, 5), 0.2), np.zeros((32, 32, 3), np.uint8))
    ImageView(1 layer of 3 heads, 2 x 2 patches and CLS)
    >>> image_view(np.full((3, 2, 6), 1 / 6), np.zeros((32, 48)), grid=(2, 3), tokens=["a", "cat"])
    ImageView(1 layer of 3 heads, 2 words over 2 x 3 patches)
    """
    name = "image_view"
    layers, batch = layers_of(name, weights, item)
    _, Lq, Lk = layers[0].shape
    view = ImageView()
    view.grid = _grid_of(name, grid, Lk)
    view.special = special_names(Lk - math.prod(view.grid))
    view.words = None if tokens is None else tokens_of(name, "tokens", tokens, item, Lq)
    if tokens is None and Lq != Lk:
        raise ValueError(
            f"{name}: weights must be (L, L) of patches, or tokens must name the queries; got {(Lq, Lk)}"
        )
    view.image = _pixels(name, image)
    view.query = place_in(name, "query", query, Lq if view.words is None else len(view.words), "token")
    view.take(name, layers, layer, head)
    view.title, view.ncols = title_of(title, item, batch), ncols
    view._into(ax)
    return view


def _grid_of(name: str, grid: Any, keys: int) -> tuple[int, int]:
    """Return rows and columns of patches."""
    if grid is None:
        side = math.isqrt(keys)
        if side == 0 or keys - side * side > 1:
            raise ValueError(
                f"{name}: grid must be (rows, columns) of patches where weights are not over a square grid, with or "
                f"without CLS; got weights over {counted(keys, 'key')}"
            )
        return side, side
    try:
        rows, columns = map(int, grid)
    except (TypeError, ValueError):
        rows = columns = 0
    if min(rows, columns) < 1 or rows * columns > keys:
        raise ValueError(
            f"{name}: grid must be (rows, columns) of at most {keys} patches because weights have so many keys; "
            f"got {shown(grid)}"
        )
    return rows, columns


def special_names(count: int) -> list[str]:
    """Return the names of the tokens before the patches."""
    return ["CLS", *(f"register {i}" for i in range(1, count))][:count]


def _pixels(name: str, image: Any) -> NDArray[np.uint8]:
    """Return an image as (height, width, 3) bytes."""
    given = np.asarray(image)
    found = given[..., None] if given.ndim == 2 else given
    if found.ndim == 3 and found.shape[-1] not in (1, 3) and found.shape[0] in (1, 3):
        found = np.moveaxis(found, 0, -1)
    if found.ndim != 3 or found.shape[-1] not in (1, 3) or 0 in found.shape:
        raise ValueError(
            f"{name}: image must be (height, width, 3) or (3, height, width), red, green and blue, or (height, width); "
            f"got {given.shape}"
        )
    found = np.repeat(found, 3 // found.shape[-1], -1)
    if found.dtype == np.uint8:
        return found
    if found.dtype.kind != "f" or not (found.min() >= 0 and found.max() <= 1):
        raise ValueError(
            f"{name}: image must be uint8 or floats from 0 to 1; got {found.dtype}"
            + (f" from {found.min():.3g} to {found.max():.3g}" if found.dtype.kind in "iuf" else "")
        )
    whole: NDArray[np.uint8] = np.rint(255 * found).astype(np.uint8)
    return whole


class ImageView(HeadsView):
    """What :func:`image_view` returns."""

    script = "image_view"
    image: NDArray[np.uint8]
    grid: tuple[int, int]
    special: list[str]
    words: list[str] | None
    query: int
    ncols: int

    def _sizes(self) -> str:
        words = "" if self.words is None else f"{counted(len(self.words), 'word')} over "
        registers = f" and {counted(len(self.special) - 1, 'register')}" if self.special[1:] else ""
        return (
            f"{words}{self.grid[0]} x {self.grid[1]} patches{' and CLS' if self.special else ''}{registers}"
        )

    def _is_quick(self) -> bool:
        return self.head is not None or len(self.layers[0]) <= 16

    def _data(self) -> dict[str, Any]:
        height, width = self.image.shape[:2]
        step = max(height, width) / min(max(height, width), LARGEST)
        rows, columns = ((np.arange(int(n / step)) * step).astype(int) for n in (height, width))
        small = self.image[rows][:, columns]
        return {
            **self._heads(-1, budget=1_700_000),
            "image": text_of(small),
            "size": small.shape[:2],
            "patches": self.grid,
            "special": self.special,
            "words": self.words,
            "query": self.query,
        }

    def _plot(self, subplots: Callable[..., tuple[Figure, Any]], ax: Any = None) -> tuple[Figure, Any]:
        from matplotlib.patches import Rectangle

        heads = list(range(len(self.layers[0]))) if self.head is None else [self.head]
        height, width = self.image.shape[:2]
        if ax is None:
            columns = min(self.ncols, len(heads))
            rows = math.ceil(len(heads) / columns)
            size = (
                2.2 * columns,
                (2.2 * min(max(height / width, 0.4), 2.5) + 0.3) * rows + (0.3 if self.title else 0),
            )
            fig, grid = subplots(rows, columns, figsize=size, layout="constrained")
            panels = grid.ravel()
            for unused in panels[len(heads) :]:
                unused.set_axis_off()
            if self.title:
                fig.suptitle(self.title, fontsize="medium")
        else:
            fig, panels = given_axes("image_view", ax, (len(heads),))
        grey = self.image.mean(-1, keepdims=True) * 0.8 + self.image * 0.2
        table, before = self.layers[self.layer][:, self.query], len(self.special)
        rows, columns = self.grid
        over = {"extent": (0, columns, rows, 0), "aspect": height * columns / (width * rows)}
        place = self.query - before if self.words is None else -1
        for panel, head in zip(panels, heads, strict=False):
            panel.imshow(grey.astype(np.uint8), **over)
            panel.imshow(_patches(table[head, before:]).reshape(rows, columns, 4), **over)
            if place >= 0:
                corner = place % columns, place // columns
                panel.add_patch(Rectangle(corner, 1, 1, fill=False, edgecolor="#00b4ff", linewidth=1.5))
            panel.set(xticks=[], yticks=[])
            panel.set_title(self._called(head), fontsize="small")
        seen = table[heads, before:]
        signs = {"more": "above 0", "less": "below 0"} if has_negative([seen]) else {}
        name_odd(fig, panels, seen, is_new=ax is None, **signs)
        return fig, panels[: len(heads)]


def _patches(row: NDArray[np.floating]) -> NDArray[np.floating]:
    """Return the colours (patches, 4) of weights, as strong as their share of the greatest."""
    from matplotlib.colors import to_rgb

    top, found = largest([row]) or 1.0, np.empty((len(row), 4))
    for place, weight in enumerate(row.tolist()):
        found[place, :3] = HOT if weight >= 0 else to_rgb(color_of(weight))
        found[place, 3] = 0.8 * (abs(weight) / top if math.isfinite(weight) else 1.0)
    return found
