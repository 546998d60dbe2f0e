"""The difference of the weights of two models, or of one on two inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..._public import explained
from .heads import Layers, Weights, layers_of, title_of
from .layer_view import LayerView
from .packing import largest
from .view import AttentionView

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@explained
def compare_view(
    a: Weights,
    b: Weights,
    tokens: Sequence[Any],
    key_tokens: Sequence[Any] | None = None,
    *,
    layer: int | None = None,
    head: int | None = None,
    item: int = 0,
    title: str | None = None,
    cmap: str | None = None,
    figsize: tuple[float, float] | None = None,
    ax: Axes | Sequence[Axes] | None = None,
) -> AttentionView:
    """Draw the difference ``b - a`` of the weights of two models, or of one model before and after a change.

    The page shows both beside their difference; the figure is of :func:`layer_view`'s form.

    Parameters
    ----------
    a, b : array or Tensor (Lq, Lk), (H, Lq, Lk) or (B, H, Lq, Lk), a list of such arrays, or a recording
        A list holds the layers. Of a recording all weights are taken.
    tokens : sequence of Lq str
        The queries' tokens; or B such sequences, of which the shorter cut the padding off.
    key_tokens : sequence of Lk str, optional
        The keys' tokens; the queries' unless given.
    layer, head : int, optional
        The head that is enlarged at first.
    item : int
        Which sentence of a batch is drawn; the title says so.
    title : str, optional
    cmap : str, optional
        Of the figure; its middle is 0. Red, where `b` has more, and blue unless given.
    figsize : (width, height), optional
        Of the whole figure, in inches.
    ax : array or sequence of matplotlib.axes.Axes, optional
        One for each head, layer by layer: draws the figure there.

    Returns
    -------
    AttentionView
        ``save("name.svg")``, ``figure()``; unpacks to ``(fig, axes)``, axes (layers, H).

    Raises
    ------
    ValueError
        If the weights of both have different shapes, or there is no such item, layer or head, or tokens do not fit in
        number.
    ImportError
        If matplotlib is missing, for figures.

    Examples
    --------
    >>> compare_view(np.full((3, 2, 2), 0.5), np.stack([np.eye(2)] * 3), ["good", "morning"])
    CompareView(1 layer of 3 heads, 2 queries, 2 keys)
    """
    name = "compare_view"
    both = [layers_of(name, weights, item) for weights in (a, b)]
    shapes = [(len(layers), *layers[0].shape) for layers, _ in both]
    if shapes[0] != shapes[1]:
        raise ValueError(
            f"{name}: a and b must have the same layers, heads and tokens because their difference is drawn; got a "
            f"{shapes[0]} and b {shapes[1]}"
        )
    view = CompareView()
    view.fill(name, both[1][0], tokens, key_tokens, layer, head, item)
    seen, before = view.layers, [table[:, : len(view.queries), : len(view.keys)] for table in both[0][0]]
    view.sides = before, seen
    view.layers = [_difference(first, after) for first, after in zip(before, seen, strict=True)]
    greatest = largest(view.layers) or 1.0
    view.title, view.cmap, view.figsize = title_of(title, item, both[0][1]), cmap, figsize
    view.ends, view.signs = (-greatest, greatest), ("b has more", "b has less")
    view._into(ax)
    return view


def _difference(a: NDArray[np.floating], b: NDArray[np.floating]) -> NDArray[np.floating]:
    """b - a; -inf where both exclude a key."""
    with np.errstate(invalid="ignore"):
        return np.where(np.isneginf(a) & np.isneginf(b), -np.inf, b - a)


class CompareView(LayerView):
    """What :func:`compare_view` returns."""

    sides: tuple[Layers, Layers]

    def _tables(self) -> list[tuple[str, Layers, float, bool | None]]:
        top = max(largest(side) for side in self.sides) or 1.0
        sides = [(name, side, top, None) for name, side in zip("ab", self.sides, strict=True)]
        return [("b - a", self.layers, self.ends[1], True), *sides]
