"""All heads of all layers, one of them enlarged."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..._public import explained
from ..._words.errors import shown
from ..figures.drawing import draw_matrix, given_axes, has_odd, name_odd, signed_colors
from ..figures.labels import label_matrix, widest
from .heads import (
    HeadsView,
    Layers,
    Weights,
    layers_of,
    place_in,
    sentence_of,
    title_of,
    tokens_of,
    with_mean,
)
from .packing import BUDGET, ends_of, key_of, packed, rounding, shrunk
from .view import AttentionView

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANEL = 1.1  # inches
MOST = 2**26  # weights of a recording, of which more are drawn as pictures
PIXELS = 256  # of a panel of the figure, and
ENLARGED = 1024  # of an enlarged one, on a side
LARGEST = 512  # pixels of a picture of a recording, on a side
LABELLED = 96  # tokens, at most


@explained
def layer_view(
    weights: Weights,
    tokens: Sequence[Any] | None = None,
    key_tokens: Sequence[Any] | None = None,
    *,
    rows: tuple[int, int] | None = None,
    columns: tuple[int, int] | None = None,
    reduce: str = "max",
    layer: int | None = None,
    head: int | None = None,
    item: int = 0,
    title: str | None = None,
    cmap: str | None = None,
    vmax: float | None = None,
    figsize: tuple[float, float] | None = None,
    ax: Axes | Sequence[Axes] | None = None,
) -> AttentionView:
    """Draw all heads of all layers: one row per layer, one column per head, one colour scale.

    A notebook shows a page with the chosen head enlarged, whose weights it shows as numbers. The figure adds an
    enlarged head where `layer` or `head` is given.

    Parameters
    ----------
    weights : array or Tensor (layers, H, Lq, Lk), a list of (H, Lq, Lk) or (B, H, Lq, Lk), or a recording
        Such as ``model.attention_weights`` after a call. Four axes are layers, also of one layer's
        ``attention_weights`` (B, H, Lq, Lk): write ``[weights]`` there. Five axes are (layers, B, H, Lq, Lk). Of a
        recording all weights are taken.
    tokens : sequence of Lq str, optional
        The queries' tokens; their places unless given. Or B such sequences, of which the shorter cut the padding off.
    key_tokens : sequence of Lk str, optional
        The keys' tokens; the queries' unless given.
    rows, columns : (int, int), optional
        For texts of any length: the queries from ``rows[0]`` to ``rows[1]`` and the keys of `columns` are drawn in at
        most 512 x 512 pixels, without tokens. A recording computes these pictures in O(L) memory, also if neither is
        given and it has more than 2^26 weights; arrays must be such pictures, of ``qkv.attention_image``. Where the
        reader zooms, the page shows the `rows` and `columns` that compute this part in full.
    reduce : "max" or "mean"
        What a pixel shows of the weights that a recording has there.
    layer, head : int, optional
        The head that is enlarged at first.
    item : int
        Which sentence of a batch is drawn; the title says so.
    title : str, optional
    cmap : str, optional
        Of the figure; "Reds", or of signed numbers red and blue, unless given.
    vmax : float, optional
        The weight that gets the darkest colour; the greatest unless given. The lightest is 0; negative numbers get
        another colour.
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
        If the layers have different shapes, or there are none, or there is no such item, layer or head, or tokens do
        not fit in number.
    ImportError
        If matplotlib is missing, for figures.

    Examples
    --------
    >>> view = layer_view(np.full((2, 3, 5, 5), 0.2), list("abcde"))
    >>> view
    LayerView(2 layers of 3 heads, 5 queries, 5 keys)
    >>> fig, axes = view
    >>> axes.shape, axes[1, 0].get_ylabel(), axes[0, 2].get_title()
    ((2, 3), 'layer 1', 'head 2')
    """
    name = "layer_view"
    if hasattr(weights, "layers"):
        asked = rows is not None or columns is not None
        weights, rows, columns = _pictures(weights.layers(), rows, columns, reduce)
        if rows is not None and tokens is not None and not asked:  # a pixel shows many tokens
            tokens_of(name, "tokens", tokens, item, rows[1])
            tokens_of(name, "key_tokens", tokens if key_tokens is None else key_tokens, item, columns[1])
            tokens = key_tokens = None
    layers, batch = layers_of(name, weights, item, four="layer")
    view = LayerView()
    view.spans = _spans(layers[0].shape[1:], tokens, rows, columns)
    view.fill(name, layers, tokens, key_tokens, layer, head, item)
    view.title, view.cmap, view.figsize = title_of(title, item, batch), cmap, figsize
    low, high = ends_of(view.layers)
    view.ends = min(low, 0.0), (max(high, 0.0) if vmax is None else vmax) or (1.0 if low >= 0 else 0.0)
    view._into(ax)
    return view


def _pictures(calls: list[Any], rows: Any, columns: Any, reduce: str) -> tuple[list[Any], Any, Any]:
    """Return a recording's weights where they are few and all are asked for, else pictures (B, H, Hpx, Wpx) of them."""
    all_weights = sum(math.prod(call.shape) for call in calls)
    if rows is None and columns is None and all_weights <= MOST:
        return calls, None, None
    *_, Lq, Lk = calls[0].shape
    rows, columns = rows or (0, Lq), columns or (0, Lk)
    most = min(LARGEST, math.isqrt(MOST // max(1, sum(math.prod(call.shape[:2]) for call in calls))))
    size = tuple(max(min(end - begin, most), 1) for begin, end in (rows, columns))
    return [call.image(size=size, reduce=reduce, rows=rows, columns=columns) for call in calls], rows, columns


Spans = tuple[tuple[int, int], tuple[int, int]]


def _spans(sizes: tuple[int, ...], tokens: Any, rows: Any, columns: Any) -> Spans | None:
    """Return the queries and keys that the pixels of pictures show."""
    if rows is None and columns is None:
        return None
    if tokens is not None:
        raise ValueError(
            "layer_view: tokens must be left out where rows or columns are given because a pixel stands for many; got "
            f"{shown(tokens)}"
        )
    found = []
    for name, span, size in (("rows", rows, sizes[0]), ("columns", columns, sizes[1])):
        begin, end = (0, size) if span is None else span
        if not begin >= 0 or end - begin < size:
            raise ValueError(
                f"layer_view: {name} must be (from, to) of at least {size} tokens, one for each pixel; "
                f"got {shown(span)}"
            )
        found.append((int(begin), int(end)))
    return found[0], found[1]


class Enlarged(NamedTuple):
    """What the enlarged head takes in the figure, in inches: with its labels, and without."""

    width: float
    height: float
    inner_width: float
    inner_height: float
    above: float
    labels: bool


class LayerView(HeadsView):
    """What :func:`layer_view` returns."""

    script = "layer_view"
    named: bool
    chosen: tuple[int, int] | None
    spans: Spans | None = None
    ends: tuple[float, float]
    cmap: str | None
    signs: tuple[str, str] = "above 0", "below 0"
    figsize: tuple[float, float] | None

    def fill(
        self, name: str, layers: Layers, tokens: Any, key_tokens: Any, layer: Any, head: Any, item: int
    ) -> None:
        """Take layers and tokens, cut to a sentence, and the head that is enlarged."""
        H, Lq, Lk = layers[0].shape
        self.named = tokens is not None
        if tokens is None:
            tokens, key_tokens = range(Lq), range(Lk)
        self.layers, self.queries, self.keys = sentence_of(name, layers, tokens, key_tokens, item)
        place = (
            place_in(name, "layer", layer or 0, len(layers), "layer"),
            place_in(name, "head", head or 0, H, "head"),
        )
        self.chosen = None if layer is None and head is None else place

    def _is_quick(self) -> bool:
        return len(self.layers) * len(self.layers[0]) <= 30

    def _tables(self) -> list[tuple[str, Layers, float, bool | None]]:
        """Return what can be shown: name, weights, the one of the strongest colour, whether they are signed."""
        return [("weights", self.layers, max(self.ends[1], -self.ends[0]), None)]

    def _data(self) -> dict[str, Any]:
        tables = self._tables()
        queries, keys = (self.queries, self.keys) if self.named else (None, None)
        words = sum(len(token.encode()) + 8 for token in self.queries + self.keys) if self.named else 0
        rows, columns = self.spans or ((0, len(self.queries)), (0, len(self.keys)))
        budget = max(BUDGET - words, BUDGET // 4) // len(tables)
        found = []
        for name, layers, top, signed in tables:
            weights = packed(with_mean(layers)[0], signed=signed, budget=budget)
            found.append({"name": name, "weights": weights, "top": top})
        layer, head = self.chosen or (0, 0)
        return {
            "tables": found,
            "heads": with_mean([self.layers[0][:, :1, :1]])[1],
            "queries": queries,
            "keys": keys,
            "rows": rows,
            "columns": columns,
            "layer": layer,
            "head": head,
        }

    def _rounding(self, about: dict[str, Any]) -> str:
        top, pixels = about["tables"][0]["top"], ""
        if self.spans:
            sizes = zip(self.spans, self.layers[0].shape[1:], strict=True)
            each = [-(-(end - begin) // size) for (begin, end), size in sizes]
            pixels = f"A pixel stands for up to {each[0]} x {each[1]} weights. " if max(each) > 1 else ""
        rounded = rounding(about["tables"][0]["weights"], "pixel" if pixels else "weight")
        return f"{pixels}{rounded} Colours grow with the square root of the weight, up to {top:.3g}."

    def _key(self, about: dict[str, Any]) -> list[tuple[str, str]]:
        return key_of([table["weights"] for table in about["tables"]], *self.signs)

    def _plot(
        self, subplots: Callable[..., tuple[Figure, Any]], ax: Any = None
    ) -> tuple[Figure, NDArray[Any]]:
        layers = [shrunk(layer, PIXELS) for layer in self.layers]
        colors = signed_colors(self.cmap, *self.ends)
        words = ("", "") if self.signs is LayerView.signs or self.cmap else self.signs
        rows, cols, (Lq, Lk) = len(layers), len(layers[0]), layers[0].shape[1:]
        if ax is None:
            panel = PANEL, PANEL * max(0.5, min(Lq / Lk, 2.0))
            below = 0.3 if has_odd(*layers) or any(words) else 0.05
            wide, high = self.figsize or (panel[0] * cols + 1.1, panel[1] * rows + 0.45 + below)
            beside = self._enlarged(high) if self.chosen else None
            whole = wide + (beside.width if beside else 0.0), max(high, beside.height if beside else 0.0)
            fig, axes = subplots(rows, cols, figsize=whole)
            above = 0.35 + (0.3 if self.title else 0.0)
            fig.subplots_adjust(
                left=0.45 / whole[0],
                right=(wide - 0.75) / whole[0],
                bottom=(whole[1] - high + below) / whole[1],
                top=1 - above / whole[1],
                wspace=0.08,
                hspace=0.08,
            )
            if self.title:
                fig.suptitle(self.title, fontsize="medium", y=1 - 0.05 / whole[1])
        else:
            fig, axes = given_axes("layer_view", ax, (rows, cols))
        for i, j in np.ndindex(rows, cols):
            image = draw_matrix(axes[i, j], layers[i][j], colors, *self.ends, aspect="auto")
            axes[i, j].set(xticks=[], yticks=[])
            if i == 0:
                axes[i, j].set_title(f"head {j}", fontsize="small")
            if j == 0:
                axes[i, j].set_ylabel(f"layer {i}", fontsize="small")
        if ax is not None:
            fig.colorbar(image, ax=list(axes.ravel()), shrink=0.7, label="weight")
            name_odd(fig, axes, *layers, is_new=False)
            return fig, axes
        place = axes[0, -1].get_position(), axes[-1, -1].get_position()
        bar = fig.add_axes(
            (place[0].x1 + 0.1 / whole[0], place[1].y0, 0.12 / whole[0], place[0].y1 - place[1].y0)
        )
        fig.colorbar(image, cax=bar).ax.tick_params(labelsize="x-small")
        bar.set_label("<colorbar>")
        if beside:
            self._enlarge(fig, beside, whole)
        name_odd(fig, axes, *layers, more=words[0], less=words[1])
        return fig, axes

    def _enlarged(self, least: float) -> Enlarged:
        """Return what the enlarged head takes, in inches."""
        labels = self.named and max(len(self.queries), len(self.keys)) <= LABELLED
        left, above = (widest(self.queries) + 0.2, widest(self.keys) + 0.3) if labels else (0.6, 0.3)
        _, Lq, Lk = self.layers[0].shape
        cell = max(0.16 if labels else 0.0, max(least - above - 0.4, 2.0) / max(Lq, Lk))
        return Enlarged(left + cell * Lk + 0.1, above + cell * Lq + 0.5, cell * Lk, cell * Lq, above, labels)

    def _enlarge(self, fig: Figure, place: Enlarged, whole: tuple[float, float]) -> None:
        """Draw the chosen head on the right, with its tokens."""
        layer, head = self.chosen or (0, 0)
        box = (
            1 - (place.inner_width + 0.1) / whole[0],
            1 - (place.above + place.inner_height) / whole[1],
            place.inner_width / whole[0],
            place.inner_height / whole[1],
        )
        panel = fig.add_axes(box)
        table = shrunk(self.layers[layer][head], ENLARGED)
        draw_matrix(panel, table, signed_colors(self.cmap, *self.ends), *self.ends, aspect="auto")
        panel.set_xlabel(f"layer {layer}, head {head}", fontsize="small")
        if place.labels:
            label_matrix(panel, self.queries, self.keys)
            return
        (q0, q1), (k0, k1) = self.spans or ((0, len(self.queries)), (0, len(self.keys)))
        panel.images[0].set_extent((k0 - 0.5, k1 - 0.5, q1 - 0.5, q0 - 0.5))
        panel.tick_params(labelsize="x-small")
