"""Which token attends to which, head by head, as lines between them."""

from __future__ import annotations

import copy
import html
import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..._public import explained
from ..._words.errors import shown
from ..figures.drawing import LESS, MORE, NAN, check_number, given_axes, has_odd, name_odd
from ..figures.labels import add_label, widest
from ..figures.texts import readable_title
from .heads import HeadsView, Weights, layers_of, sentence_of, title_of
from .packing import has_negative, largest
from .view import PAGE, AttentionView

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Pixels of head_view.js: height of a token, ends of the lines, top.
LINE, LEFT, RIGHT, MARGIN = (22, 150, 350, 12)
LEAST = 0.005  # weights below are not drawn
INCHES = 0.24, 1.1, 0.1  # of the figure: height of a token, width of the lines, gap
PARTS = ("first → first", "first → second", "second → first", "second → second")


@explained
def head_view(
    weights: Weights,
    tokens: Sequence[Any],
    key_tokens: Sequence[Any] | None = None,
    *,
    second: int | None = None,
    part: str | None = None,
    layer: int = 0,
    head: int | None = None,
    item: int = 0,
    title: str | None = None,
    titles: Sequence[str] | None = None,
    ncols: int = 4,
    color: str = "C0",
    figsize: tuple[float, float] | None = None,
    ax: Sequence[Axes] | Axes | None = None,
) -> AttentionView:
    """Write the queries on the left and the keys on the right, and join them by lines as strong as the weights.

    A notebook shows a page: choose layer and head, point at a token (or reach it with the keyboard) to see its lines
    alone and its weights as numbers. The figure has a panel for each head of one layer.

    Parameters
    ----------
    weights : array or Tensor, (Lq, Lk), (H, Lq, Lk) or (B, H, Lq, Lk), a list of such arrays, or a recording
        A list holds the layers, such as ``model.attention_weights``, each (H, Lq, Lk) or (B, H, Lq, Lk). Of a recording
        all weights are taken.
    tokens : sequence of Lq str
        The queries' tokens; or B such sequences, where what is after the last token of a sentence is not drawn.
    key_tokens : sequence of Lk str, or B of them, optional
        The keys' tokens, for cross-attention; the queries' unless given.
    second : int, optional
        The place at which a second sentence begins. From which sentence to which can then be chosen.
    part : "first → first", "first → second", "second → first" or "second → second", optional
        Which of the four parts is drawn first ("->" for the arrow will do); all unless given.
    layer, head : int
        What the page shows first, and the figure draws; all heads of the layer unless `head` is given.
    item : int
        Which sentence of a batch is drawn; the title says so.
    title : str, optional
    titles : sequence of str, optional
        One for each panel of the figure; "head 0" and so on unless given, of several layers "layer 0, head 0".
    ncols : int
        Number of panels beside each other.
    color : str
        Of the figure's lines.
    figsize : (width, height), optional
        Of the whole figure, in inches; by the tokens unless given.
    ax : matplotlib.axes.Axes, or a sequence of them, optional
        One for each head: draws the figure there.

    Returns
    -------
    AttentionView
        ``save("name.svg")``, ``figure()``; unpacks to ``(fig, axes)``, axes (H,).

    Raises
    ------
    ValueError
        If `weights` have another rank, there is no such item, layer, head or part, or tokens, titles or axes do not fit
        them in number.
    ImportError
        If matplotlib is missing, for figures.

    Examples
    --------
    >>> view = head_view([[[0.9, 0.1], [0.2, 0.8]]] * 3, ["Guten", "Morgen"], ["good", "morning"])
    >>> view
    HeadView(1 layer of 3 heads, 2 queries, 2 keys)
    >>> [ax.get_title() for ax in view[1]]
    ['head 0', 'head 1', 'head 2']
    """
    name = "head_view"
    layers, batch = layers_of(name, weights, item)
    layers, queries, keys = sentence_of(name, layers, tokens, key_tokens, item)
    view = HeadView()
    view.queries, view.keys = queries, keys
    view.take(name, layers, layer, head)
    view.parts = _parts(second, part, queries, None if key_tokens is None else keys)
    view.title, view.titles = title_of(title, item, batch), titles
    check_number(name, "titles", titles, len(layers[0]) if head is None else 1)
    view.ncols, view.color, view.figsize = ncols, color, figsize
    view._into(ax)
    return view


# Its name, from which query to which, from which key to which.
Part = tuple[str, tuple[int, int], tuple[int, int]]


def _parts(second: Any, part: str | None, queries: list[str], keys: list[str] | None) -> list[Part]:
    """Return the parts that can be chosen, the first of them chosen."""
    name, count = "head_view", len(queries)
    whole: Part = ("all", (0, count), (0, count if keys is None else len(keys)))
    if second is None:
        if part is not None:
            raise ValueError(
                f"{name}: part must go with second, the place where the other sentence begins; got {shown(part)}"
            )
        return [whole]
    if keys is not None:
        raise ValueError(
            f"{name}: second must be left out where key_tokens are given because only self-attention has four "
            f"parts; got {shown(second)}"
        )
    if not isinstance(second, (int, np.integer)) or isinstance(second, bool) or not 0 < second < count:
        raise ValueError(
            f"{name}: second must be from 1 to {count - 1} because it is the place where a second sentence "
            f"begins; got {shown(second)}"
        )
    spans = (0, int(second)), (int(second), count)
    parts = [whole, *((PARTS[2 * a + b], spans[a], spans[b]) for a in (0, 1) for b in (0, 1))]
    wanted = "all" if part is None else str(part).replace("->", "→")
    chosen = [each for each in parts if each[0] == wanted]
    if not chosen:
        raise ValueError(f"{name}: part must be one of {', '.join(PARTS)}; got {shown(part)}")
    return chosen + [each for each in parts if each[0] != wanted]


class HeadView(HeadsView):
    """What :func:`head_view` returns."""

    script = "head_view"
    parts: list[Part]
    titles: Sequence[str] | None
    ncols: int
    color: str
    figsize: tuple[float, float] | None
    some: list[int] | None = None  # heads of a sheet

    def _is_quick(self) -> bool:
        layer = self.layers[self.layer]
        return len(layer) * max(layer.shape[1:]) <= 200 and int(np.count_nonzero(layer > LEAST)) <= 2000

    def _data(self) -> dict[str, Any]:
        parts = [{"name": name, "queries": queries, "keys": keys} for name, queries, keys in self.parts]
        sides = {"queries": self.queries, "keys": self.keys, "parts": parts, "part": 0}
        return {**self._heads(0, blocks=False), **sides}

    def _rounding(self, about: dict[str, Any]) -> str:
        return f"{super()._rounding(about)} Weights up to {LEAST} are not drawn."

    def _drawing(self) -> str:
        _, queries, keys = self.parts[0]
        matrix = self.layers[self.layer][self.head or 0][slice(*queries), slice(*keys)]
        lines = "".join(
            f'<line x1="{LEFT}" y1="{_height(q)}" x2="{RIGHT}" y2="{_height(k)}" class="{kind}" '
            f'stroke-opacity="{strength:.3f}"/>'
            for q, k, strength, kind in _lines(matrix, largest(self.layers), 1500)
        )
        texts = "".join(
            f'<text class="{side}" text-anchor="{anchor}" x="{x}" y="{_height(place)}" dy="0.35em">'
            f"{html.escape(token)}</text>"
            for side, anchor, x, tokens in (
                ("query", "end", LEFT - 8, self.queries[slice(*queries)]),
                ("key", "start", RIGHT + 8, self.keys[slice(*keys)]),
            )
            for place, token in enumerate(tokens)
        )
        size = f"0 0 {LEFT + RIGHT} {max(matrix.shape) * LINE + 2 * MARGIN}"
        return (
            f'<div class="stage"><svg viewBox="{size}" width="{LEFT + RIGHT}" role="group" font-size="13">'
            f'<g class="lines">{lines}</g>{texts}</svg></div>'
        )

    def _drawn_heads(self) -> list[int]:
        return list(range(len(self.layers[0]))) if self.head is None else [self.head]

    def _on_sheets(self) -> list[HeadView]:
        name, *spans = self.parts[0]
        high, wide, gap = INCHES
        many = int((PAGE[1] - 1.0) / high)
        length = max(end - begin for begin, end in spans)
        if (
            self.figsize
            or math.ceil(len(self._drawn_heads()) / self.ncols) * (high * length + 0.4) + 0.6 <= PAGE[1]
        ):
            return [self]
        if length <= many:
            chunks = [(spans[0], spans[1])]
        else:
            parts = [[(at, min(at + many, end)) for at in range(begin, end, many)] for begin, end in spans]
            chunks = [(q, k) for q in parts[0] for k in parts[1]]
        width = (1 + sum((widest(tokens) + gap) / wide for tokens in (self.queries, self.keys))) * wide + gap
        heads, found = self._drawn_heads(), []
        for queries, keys in chunks:
            matrix = self.layers[self.layer][heads][:, slice(*queries), slice(*keys)]
            if len(chunks) > 1 and not (~(np.abs(matrix) <= LEAST) & ~np.isneginf(matrix)).any():
                continue  # nothing to draw
            columns = max(1, min(self.ncols, int(PAGE[0] / width)))
            rows = max(
                1, int((PAGE[1] - 0.6) / (high * max(queries[1] - queries[0], keys[1] - keys[0]) + 0.4))
            )
            for at in range(0, len(heads), rows * columns):
                sheet = copy.copy(self)
                sheet.some, sheet.ncols, sheet.figsize = heads[at : at + rows * columns], columns, None
                sheet.parts = [(name, queries, keys)]
                if len(chunks) > 1:
                    places = f"queries {queries[0]} to {queries[1] - 1}, keys {keys[0]} to {keys[1] - 1}"
                    sheet.title = f"{self.title}: {places}" if self.title else places
                found.append(sheet)
        return found

    def _plot(
        self, subplots: Callable[..., tuple[Figure, Any]], ax: Any = None
    ) -> tuple[Figure, NDArray[Any]]:
        _, (q0, q1), (k0, k1) = self.parts[0]
        table = self.layers[self.layer][:, q0:q1, k0:k1]
        heads = self._drawn_heads() if self.some is None else self.some
        queries, keys = self.queries[q0:q1], self.keys[k0:k1]
        given = None if self.titles is None else dict(zip(self._drawn_heads(), self.titles, strict=True))
        names = [self._called(head) if given is None else given[head] for head in heads]
        names = [readable_title(name) for name in names]
        high, wide, gap = INCHES
        ends = [(widest(tokens) + gap) / wide for tokens in (queries, keys)]
        top, is_signed = largest([table]), has_negative([table])
        below = 0.3 if is_signed or has_odd(table) else 0.0
        if ax is None:
            columns = min(self.ncols, len(heads))
            rows = math.ceil(len(heads) / columns)
            width, height = (1 + sum(ends)) * wide + gap, high * max(len(queries), len(keys)) + 0.4
            above = 0.3 if self.title else 0.0
            size = self.figsize or (columns * width, rows * height + above + below)
            fig, grid = subplots(rows, columns, figsize=size)
            fig.subplots_adjust(
                0,
                below / size[1],
                1,
                1 - (above + 0.3) / size[1],
                wspace=gap / width,
                hspace=0.4 / (height - 0.4),
            )
            panels = grid.ravel()
            for unused in panels[len(heads) :]:
                unused.set_axis_off()
            if self.title:
                fig.suptitle(self.title, fontsize="medium", y=1 - 0.05 / size[1])
        else:
            fig, panels = given_axes("head_view", ax, (len(heads),))
        for panel, head, name in zip(panels, heads, names, strict=False):
            _draw_head(panel, table[head], queries, keys, (self.color, top))
            panel.set(xlim=(-ends[0], 1 + ends[1]))
            panel.set_title(name, fontsize="small")
        signs = {"more": "above 0", "less": "below 0"} if is_signed else {}
        name_odd(fig, panels, table, is_new=ax is None, **signs)
        return fig, panels[: len(heads)]


def _draw_head(
    ax: Axes,
    matrix: NDArray[np.floating],
    queries: list[str],
    keys: list[str],
    color_and_top: tuple[str, float],
) -> None:
    from matplotlib.collections import LineCollection
    from matplotlib.colors import to_rgba

    (color, top), is_signed = color_and_top, has_negative([matrix])
    hues = {"more": MORE if is_signed else color, "less": LESS, "nan": NAN}
    found = list(_lines(matrix, top))
    lines = [[(0.0, float(q)), (1.0, float(k))] for q, k, _, _ in found]
    colors = [(*to_rgba(hues[kind])[:3], strength) for _, _, strength, kind in found]
    widths = [0.5 + 2.0 * strength if kind != "nan" else 0.8 for _, _, strength, kind in found]
    styles = ["dotted" if kind == "nan" else "solid" for _, _, _, kind in found]
    ax.add_collection(LineCollection(lines, colors=colors, linewidths=widths, linestyles=styles))
    for x, side, tokens in ((-0.04, "right", queries), (1.04, "left", keys)):
        for place, token in enumerate(tokens):
            add_label(ax, x, place, token, ha=side, va="center")
    ax.set(ylim=(max(len(queries), len(keys)) - 0.5, -0.5))
    ax.set_axis_off()


def _lines(
    matrix: NDArray[np.floating], top: float, most: int | None = None
) -> Iterator[tuple[int, int, float, str]]:
    """Yield query, key, strength and kind ("more", "less" than 0, "nan") of the lines of a head."""
    seen = ~(np.abs(matrix) <= LEAST) & ~np.isneginf(matrix)
    for q, k in np.argwhere(seen)[:most].tolist():
        weight = float(matrix[q, k])
        if math.isnan(weight):
            yield q, k, 1.0, "nan"
        else:
            yield q, k, min(abs(weight) / max(top, 1.0), 1.0), "less" if weight < 0 else "more"


def _height(place: int) -> int:
    return MARGIN + place * LINE + LINE // 2
