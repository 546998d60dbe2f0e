"""Queries and keys feature by feature: which products make a score."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..._public import explained
from ..._words.errors import counted, shown
from ..figures.drawing import draw_matrix, given_axes, name_odd, numbers
from ..figures.labels import label_matrix, widest
from .heads import place_in, tokens_of
from .packing import BUDGET, coded, key_of, largest, odd_in, packed, rounding, steps_of, text_of
from .view import AttentionView

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ...look import Recording


@explained
def neuron_view(
    recording: Recording,
    tokens: Sequence[Any],
    key_tokens: Sequence[Any] | None = None,
    *,
    layer: int | None = None,
    head: int = 0,
    query: int = 0,
    item: int = 0,
    title: str | None = None,
    ax: Axes | Sequence[Axes] | None = None,
) -> AttentionView:
    """Show a query, the keys and their products feature by feature, beside scores and weights.

    ``q · k`` is the sum of the products; the score is what softmax takes: scaled, with biases.

    Parameters
    ----------
    recording : Recording
        Of ``qkv.look.record`` with ``keep=("queries", "keys", "scores", "weights")``; scores may be left out.
    tokens : sequence of Lq str
        The queries' tokens; or B such sequences, of which the shorter cut the padding off.
    key_tokens : sequence of Lk str, optional
        The keys' tokens, for cross-attention; the queries' unless given.
    layer : int, optional
        The recorded attention that is shown, in the order of its names, negative from the end. Unless given the page
        has as many of them as 4 MB hold, and the figure the first.
    head, query : int
        What is shown first, and what the figure draws.
    item : int
        Which sentence of a batch is shown.
    title : str, optional
    ax : sequence of 4 matplotlib.axes.Axes, optional
        Draws the figure there.

    Returns
    -------
    AttentionView
        ``save("name.svg")``, ``figure()``; unpacks to ``(fig, axes)``, axes (4,): query, keys, products, weights.

    Raises
    ------
    ValueError
        If the recording has no queries, keys and weights of one attention, there is no such layer, head, query or item,
        or tokens do not fit in number.
    ImportError
        If matplotlib is missing, for figures.

    Examples
    --------
    >>> mha = qkv.nn.MultiHeadAttention(8, 2)
    >>> r = qkv.look.record(mha, np.ones((1, 3, 8)), keep=("queries", "keys", "weights"))
    >>> qkv.plot.neuron_view(r, ["it", "is", "dry"])
    NeuronView(1 layer of 2 heads, 3 queries, 3 keys, 4 features)
    """
    name = "neuron_view"
    known = list(recording.names())
    starts = [each[: -len("queries")] for each in known if each.split(".")[-1] == "queries"]
    starts = [start for start in starts if {f"{start}keys", f"{start}weights"} <= set(known)]
    if not starts:
        raise ValueError(
            f"{name}: recording must hold queries, keys and weights because their products are shown; record with "
            f'keep=("queries", "keys", "scores", "weights"); got {shown(sorted({n.split(".")[-1] for n in known}))}'
        )
    if layer is not None:
        starts = [starts[place_in(name, "layer", layer, len(starts), "layer")]]
    view, size = NeuronView(), 0
    view.layers, view.names = [], []
    for start in starts:
        found = [_of_item(name, recording[start + word], item) for word in ("queries", "keys", "weights")]
        if f"{start}scores" in known:
            found.append(_of_item(name, recording[f"{start}scores"], item))
        size += 2 * (found[0].size + found[1].size) + min(2 * sum(x.size for x in found[2:]), BUDGET // 4)
        if view.layers and size > BUDGET:
            break
        view.layers.append(found)
        view.names.append(start.rstrip(".") or "attention")
    view.left_out = len(starts) - len(view.layers)
    _, Lq, Lk = view.layers[0][2].shape
    view.queries = tokens_of(name, "tokens", tokens, item, Lq)
    view.keys = tokens_of(name, "key_tokens", tokens if key_tokens is None else key_tokens, item, Lk)
    view.head = place_in(name, "head", head, len(view.layers[0][0]), "head")
    view.query = place_in(name, "query", query, len(view.queries), "query token")
    for parts in view.layers:
        if parts[2].shape[1:] != (Lq, Lk):
            raise ValueError(
                f"{name}: weights must have one size (Lq, Lk) in all layers because they are over the same tokens, or "
                f"layer must choose one; got {(Lq, Lk)} and {parts[2].shape[1:]}"
            )
        for place, (begin, end) in enumerate(zip((len(view.queries), len(view.keys)), (Lq, Lk), strict=True)):
            parts[place] = parts[place][:, : begin if begin < end else end]
        parts[2:] = [table[:, : len(view.queries), : len(view.keys)] for table in parts[2:]]
    view.title = title
    view._into(ax)
    return view


def _of_item(name: str, x: Any, item: int) -> NDArray[np.floating]:
    """Return (H, L, ...) of one sentence; of several calls the first counts."""
    table = numbers(x[0] if isinstance(x, list) else x)
    table = table.reshape(*(1,) * (4 - table.ndim), *table.shape)  # three axes count heads, as in head_view
    if not 0 <= item < len(table):
        raise ValueError(
            f"{name}: item must be from 0 to {len(table) - 1} because the recording holds "
            f"{counted(len(table), 'sentence')}; got {shown(item)}"
        )
    found: NDArray[np.floating] = table[item]
    return found


class NeuronView(AttentionView):
    """What :func:`neuron_view` returns."""

    script = "neuron_view"
    # Each: queries (H, Lq, D), keys (Hkv, Lk, D), weights, and scores.
    layers: list[list[NDArray[np.floating]]]
    names: list[str]
    queries: list[str]
    keys: list[str]
    head: int
    query: int
    left_out: int

    def __repr__(self) -> str:
        H, _, D = self.layers[0][0].shape
        return (
            f"NeuronView({counted(len(self.layers), 'layer')} of {counted(H, 'head')}, {len(self.queries)} queries, "
            f"{len(self.keys)} keys, {counted(D, 'feature')})"
        )

    def _is_quick(self) -> bool:
        return len(self.keys) <= 200

    def _data(self) -> dict[str, Any]:
        layers = []
        for name, (queries, keys, *tables) in zip(self.names, self.layers, strict=True):
            scales = [largest([x]) or 1.0 for x in (queries, keys)]
            whole = [coded(x, scale, "<i2") for x, scale in zip((queries, keys), scales, strict=True)]
            found = [packed([table], budget=BUDGET // 4) for table in tables]
            layers.append(
                {
                    "name": name,
                    "shapes": [queries.shape, keys.shape],
                    "queries": text_of(whole[0]),
                    "keys": text_of(whole[1]),
                    "scales": scales,
                    "odd": odd_in([queries, keys]),
                    "weights": found[0],
                    "scores": found[1] if len(found) > 1 else None,
                }
            )
        return {
            "layers": layers,
            "queries": self.queries,
            "keys": self.keys,
            "head": self.head,
            "query": self.query,
        }

    def _rounding(self, about: dict[str, Any]) -> str:
        scale = max(max(layer["scales"]) for layer in about["layers"])
        step = f"{scale / (2 * steps_of('<i2')):.1g}"
        text = f"{rounding(about['layers'][0]['weights'])} Queries and keys are rounded to {step}."
        if self.left_out:
            text += (
                f" {counted(self.left_out, 'layer')} left out for the size of the page: choose with layer=."
            )
        return text

    def _key(self, about: dict[str, Any]) -> list[tuple[str, str]]:
        tables: list[dict[str, Any]] = []
        for layer in about["layers"]:
            tables += [
                {"signed": True, "odd": layer["odd"]},
                layer["weights"],
                layer["scores"] or layer["weights"],
            ]
        more = "above 0, a product that raises the score"
        return key_of(tables, more, "below 0, a product that lowers it")

    def _plot(self, subplots: Callable[..., tuple[Figure, Any]], ax: Any = None) -> tuple[Figure, Any]:
        queries, keys, weights = self.layers[0][:3]
        asked = queries[self.head, self.query]
        own = keys[self.head * len(keys) // len(queries)]
        features = len(asked)
        tables = [asked[None], own, own * asked, weights[self.head, self.query][:, None]]
        if ax is None:
            cell, left = 0.2, widest(self.keys) + 0.15
            wide, high = min(max(0.08 * features, 1.2), 4.0), cell * len(own)
            size = left + 2 * wide + 1.2, high + cell + 1.35
            fig, grid = subplots(
                2, 3, figsize=size, width_ratios=(wide, wide, 0.3), height_ratios=(cell, high)
            )
            fig.subplots_adjust(
                left / size[0], 0.35 / size[1], 1 - 0.5 / size[0], 1 - 0.35 / size[1],
                wspace=0.2 * 3 / (2 * wide + 0.3), hspace=0.5 * 2 / (cell + high),
            )  # fmt: skip
            grid[0, 1].set_axis_off()
            grid[0, 2].set_axis_off()
            axes = np.array([grid[0, 0], *grid[1]], dtype=object)
        else:
            fig, axes = given_axes("neuron_view", ax, (4,))
        titles = "query", "keys", "query × key", "weight"
        for place, (panel, table, name) in enumerate(zip(axes, tables, titles, strict=True)):
            top = largest([table]) or 1.0
            draw_matrix(
                panel,
                table,
                "Reds" if place == 3 else "RdBu_r",
                0.0 if place == 3 else -top,
                top,
                aspect="auto",
            )
            panel.set(xticks=[], yticks=[])
            panel.set_title(name, fontsize="small")
        name_odd(fig, axes, *tables, is_new=ax is None, more="above 0", less="below 0")
        label_matrix(axes[1], self.keys, [])
        label_matrix(axes[0], [self.queries[self.query]], [])
        if self.title and ax is None:
            fig.suptitle(self.title, fontsize="medium")
        return fig, axes
