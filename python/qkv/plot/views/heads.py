"""Weights of heads and their tokens, out of what users have."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..._types import Numbers
from ..._words.errors import counted, shown
from ..figures.drawing import check_number, draw_matrix, name_odd, numbers, pyplot, signed_colors
from ..figures.labels import readable
from .packing import ends_of, key_of, packed, rounding, shrunk
from .view import AttentionView

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ...look import Recording

Layers = list[NDArray[np.floating]]
Weights: TypeAlias = "Recording | Numbers | Sequence[Numbers | None]"
READABLE = 2**30  # weights of a recording: 4 GB


def heads_of(operation: str, weights: Any, item: int = 0) -> tuple[NDArray[np.floating], int]:
    """Return the weights of one sentence as (H, Lq, Lk), and the number of sentences."""
    table = numbers(weights)
    if table.ndim == 2:
        table = table[None]
    if table.ndim == 3:
        table = table[None]
    if table.ndim != 4 or 0 in table.shape:
        raise ValueError(
            f"{operation}: weights must be (Lq, Lk), (H, Lq, Lk) or (B, H, Lq, Lk), none of them 0, because the "
            f"heads of one sentence are drawn; got {numbers(weights).shape}"
        )
    if not 0 <= item < len(table):
        raise ValueError(
            f"{operation}: item must be from 0 to {len(table) - 1} because weights hold "
            f"{counted(len(table), 'sentence')}; got {item}"
        )
    return table[item], len(table)


def layers_of(operation: str, weights: Any, item: int = 0, *, four: str = "item") -> tuple[Layers, int]:
    """Return the weights of one sentence as layers (H, Lq, Lk) of one shape, and the number of sentences.

    `weights` are an array, a list of arrays (layers), or a recording. With ``four="layer"`` the first of four or
    five axes counts layers; else four axes are (B, H, Lq, Lk).
    """
    if hasattr(weights, "layers"):
        weights = weights.layers()
        count = sum(math.prod(layer.shape) for layer in weights)
        if count > READABLE:
            raise ValueError(
                f"{operation}: weights must be at most {READABLE} numbers because all of a recording are read; got "
                f"{count}; layer_view draws longer texts, and layers= of look.record keeps fewer layers"
            )
    elif hasattr(weights, "all") and hasattr(weights, "names"):
        found_in = weights.all("*weights")  # a list of those of a module that was called more than once
        weights = [call for each in found_in for call in (each if isinstance(each, list) else [each])]
    if isinstance(weights, (list, tuple)) and len(weights) == 0:
        raise ValueError(f"{operation}: weights must hold at least one layer; got none")
    if isinstance(weights, (list, tuple)) and all(_is_layer(layer) for layer in weights):
        found = [heads_of(operation, layer, item) for layer in weights]
    else:
        table = numbers(weights)
        many = four == "layer" and table.ndim in (4, 5) and 0 not in table.shape
        found = [heads_of(operation, layer, item) for layer in (table if many else [table])]
    layers = [layer for layer, _ in found]
    if len({layer.shape for layer in layers}) != 1:
        raise ValueError(
            f"{operation}: weights must have one shape (H, Lq, Lk) in all layers because they are over the same "
            f"tokens; got {[layer.shape for layer in layers]}"
        )
    return layers, found[0][1]


def _is_layer(x: Any) -> bool:
    return not isinstance(x, (list, tuple)) and np.ndim(x) >= 3


def tokens_of(operation: str, name: str, tokens: Any, item: int, wanted: int) -> list[str]:
    """Return the tokens of one sentence, out of one list or a list for each sentence, which may be shorter."""
    if not np.iterable(tokens):
        raise TypeError(f"{operation}: {name} must be a sequence of strings; got {shown(tokens)}")
    given = list(tokens)
    ragged = bool(given) and not isinstance(given[0], str) and np.ndim(given[0]) > 0
    chosen = [readable(token) for token in (given[item] if ragged and item < len(given) else given)]
    if len(chosen) != wanted and not (ragged and 0 < len(chosen) < wanted):
        check_number(operation, name, chosen, wanted, "query" if name == "tokens" else "key")
    return chosen


def sentence_of(
    operation: str, layers: Layers, tokens: Any, key_tokens: Any, item: int
) -> tuple[Layers, list[str], list[str]]:
    """Return the weights between the tokens of one sentence, without its padding, and the tokens."""
    _, Lq, Lk = layers[0].shape
    queries = tokens_of(operation, "tokens", tokens, item, Lq)
    keys = tokens_of(operation, "key_tokens", tokens if key_tokens is None else key_tokens, item, Lk)
    return [layer[:, : len(queries), : len(keys)] for layer in layers], queries, keys


def with_mean(layers: Layers) -> tuple[Layers, list[str]]:
    """Return the heads of each layer with their mean after them, and what they are called; one head has none."""
    heads = len(layers[0])
    names = [str(head) for head in range(heads)]
    if heads == 1:
        return layers, names
    with np.errstate(invalid="ignore"):  # inf and -inf
        return [np.concatenate([layer, layer.mean(0, keepdims=True)]) for layer in layers], [*names, "mean"]


def place_in(operation: str, name: str, place: Any, count: int, what: str) -> int:
    """Return the number of a layer, a head or a token; negative ones count from the end."""
    if isinstance(place, (int, np.integer)) and not isinstance(place, bool) and -count <= place < count:
        return int(place) % count
    raise ValueError(
        f"{operation}: {name} must be from 0 to {count - 1}, or negative from the end, because there "
        f"{'are' if count > 1 else 'is'} {counted(count, what)}; got {shown(place)}"
    )


def title_of(title: str | None, item: int, batch: int) -> str | None:
    """Return a view's title, which says unless told otherwise which sentence of a batch it shows."""
    return f"item {item} of {batch}" if batch > 1 and title is None else title


class HeadsView(AttentionView):
    """A view of the heads of a layer, of which its page lets any be chosen."""

    layers: Layers
    queries: list[str]
    keys: list[str]
    layer: int
    head: int | None

    def take(self, name: str, layers: Layers, layer: Any, head: Any) -> None:
        """Take layers, and which layer and head of them are shown first."""
        self.layers = layers
        self.layer = place_in(name, "layer", layer, len(layers), "layer")
        self.head = None if head is None else place_in(name, "head", head, len(layers[0]), "head")

    def _called(self, head: int) -> str:
        """Return what a panel of the figure is called: its head, and of several layers which."""
        return f"layer {self.layer}, head {head}" if len(self.layers) > 1 else f"head {head}"

    def _still(self) -> Figure | None:
        return super()._still() or self._mosaic()

    def _mosaic(self) -> Figure:
        """Draw all heads small, as one picture."""
        pyplot()
        from matplotlib.figure import Figure

        layers = self.layers
        heads = [shrunk(layer, max(4, min(48, 400 // max(len(layers), len(layers[0]))))) for layer in layers]
        height, width = heads[0].shape[1] + 1, heads[0].shape[2] + 1
        table = np.zeros((len(layers) * height, len(layers[0]) * width))
        for (i, j), _ in np.ndenumerate(np.empty((len(layers), len(layers[0])))):
            table[i * height : (i + 1) * height - 1, j * width : (j + 1) * width - 1] = heads[i][j]
        low, high = ends_of(heads)
        size = [0.6 + max(2.0, min(n / 80, 8.0)) for n in table.shape[::-1]]
        figure = Figure(figsize=(size[0], size[1]), layout="constrained")
        panel = figure.add_subplot()
        low, high = min(low, 0.0), max(high, 0.0) or 1.0
        image = draw_matrix(panel, table, signed_colors(None, low, high), low, high, aspect="auto")
        for axis, count, step in ((panel.yaxis, len(layers), height), (panel.xaxis, len(layers[0]), width)):
            axis.set_ticks([step * (n + 0.5) - 1 for n in range(count)], [str(n) for n in range(count)])
        panel.set(xlabel="head", ylabel="layer", title=self.title or "")
        figure.colorbar(image, ax=panel, shrink=0.6)
        name_odd(figure, panel, table)
        return figure

    def _sizes(self) -> str:
        """Say how many tokens, or patches."""
        return f"{len(self.queries)} queries, {len(self.keys)} keys"

    def __repr__(self) -> str:
        counts = counted(len(self.layers), "layer"), counted(len(self.layers[0]), "head")
        return f"{type(self).__name__}({counts[0]} of {counts[1]}, {self._sizes()})"

    def _heads(self, unless_given: int, **options: Any) -> dict[str, Any]:
        """Return what the scripts read of heads, and the one that is shown first: the mean is the last of them."""
        tables, names = with_mean(self.layers)
        head = range(len(names))[unless_given] if self.head is None else self.head
        return {"weights": packed(tables, **options), "heads": names, "layer": self.layer, "head": head}

    def _rounding(self, about: dict[str, Any]) -> str:
        return rounding(about["weights"])

    def _key(self, about: dict[str, Any]) -> list[tuple[str, str]]:
        return key_of([about["weights"]])
