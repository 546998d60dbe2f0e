"""Attention of a vision model over its image."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..._public import explained
from ..figures.drawing import given_axes
from .heads import HeadsView, Weights, layers_of, place_in, title_of
from .packing import text_of
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
    query: int = 0,
    layer: int = 0,
    head: int | None = None,
    item: int = 0,
    title: str | None = None,
    ncols: int = 4,
    ax: Axes | Sequence[Axes] | None = None,
) -> AttentionView:
    """Draw the attention of a patch, or of the CLS token, over the image.

    A notebook shows a page: click on a patch (or move with the arrow keys) to see what it attends to. The figure has a
    panel for each head.

    Parameters
    ----------
    weights : array or Tensor (L, L), (H, L, L) or (B, H, L, L), a list of such arrays, or a recording
        Over the patches of a square grid, row by row, with or without a CLS token before them. A list holds the layers.
        Of a recording all weights are taken.
    image : array (height, width, 3)
        uint8, or floats from 0 to 1.
    query : int
        Which token is the query at first: 0 is the CLS token where there is one; negative ones count from the end.
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
        If `weights` are not over a square grid of patches, `image` is not an image, or there is no such item, query,
        layer or head.
    ImportError
        If matplotlib is missing, for figures.

    Examples
    --------
    >>> image_view(np.full((3, 5, 5), 0.2), np.zeros((32, 32, 3), np.uint8))
    ImageView(1 layer of 3 heads, 2 x 2 patches and CLS)
    """
    name = "image_view"
    layers, batch = layers_of(name, weights, item)
    _, Lq, Lk = layers[0].shape
    side = math.isqrt(Lk)
    special = Lk - side * side
    if Lq != Lk or special > 1 or side == 0:
        raise ValueError(
            f"{name}: weights must be over the patches of a square grid, or over one token more, CLS, because they are "
            f"laid over the image; got {(Lq, Lk)}"
        )
    view = ImageView()
    view.image, view.side, view.special = _pixels(name, image), side, special
    view.query = place_in(name, "query", query, Lq, "token")
    view.take(name, layers, layer, head)
    view.title, view.ncols = title_of(title, item, batch), ncols
    view._into(ax)
    return view


def _pixels(name: str, image: Any) -> NDArray[np.uint8]:
    """Return an image as (height, width, 3) bytes."""
    found = np.asarray(image)
    if found.ndim != 3 or found.shape[-1] != 3 or 0 in found.shape:
        raise ValueError(f"{name}: image must be (height, width, 3), red, green and blue; got {found.shape}")
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
    side: int
    special: int
    query: int
    ncols: int

    def _sizes(self) -> str:
        return f"{self.side} x {self.side} patches{' and CLS' if self.special else ''}"

    def _data(self) -> dict[str, Any]:
        height, width = self.image.shape[:2]
        step = max(height, width) / min(max(height, width), LARGEST)
        rows, columns = ((np.arange(int(n / step)) * step).astype(int) for n in (height, width))
        small = self.image[rows][:, columns]
        return {
            **self._heads(-1, budget=1_700_000),
            "image": text_of(small),
            "size": small.shape[:2],
            "patches": (self.side, self.side),
            "special": self.special,
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
        for panel, head in zip(panels, heads, strict=False):
            row = np.nan_to_num(self.layers[self.layer][head, self.query, self.special :])
            panel.imshow(grey.astype(np.uint8), extent=(0, self.side, self.side, 0), aspect=height / width)
            strength = 0.8 * np.clip(row, 0.0, None) / (row.max() or 1.0)
            patches = np.empty((self.side, self.side, 4))
            patches[..., :3], patches[..., 3] = HOT, strength.reshape(self.side, self.side)
            panel.imshow(patches, extent=(0, self.side, self.side, 0), aspect=height / width)
            place = self.query - self.special
            if place >= 0:
                corner = place % self.side, place // self.side
                panel.add_patch(Rectangle(corner, 1, 1, fill=False, edgecolor="#00b4ff", linewidth=1.5))
            panel.set(xticks=[], yticks=[])
            panel.set_title(self._called(head), fontsize="small")
        return fig, panels[: len(heads)]
