"""One forward pass of the reader's own model, step by step."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...._core import Module
from ...._public import explained
from ...._words.errors import counted
from ....functions.gradients import no_grad
from ....look.head_measures import measures
from ....look.names import Names, joined
from ....look.recording import Recording, record
from ..heads import place_in
from ..packing import steps_of
from ..view import AttentionView
from .call import Call, call_of
from .ends import after_steps, before_steps, rounded
from .parts import Stack, stack_of
from .picture import draw
from .recorded import Values, matrices
from .steps import Layer
from .words import head_says

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_NAME = "explain"
LIMIT = 4_000_000  # bytes of a page
_SURE = 0.97  # of it are filled by a text of the length that is said to fit: tokens differ
_BESIDE = 200_000  # bytes of script, style and picture
_BYTES = 8 / 3  # of a number: 16 bits in base64
DIGITS = 4


@explained
def explain(
    model: Module,
    tokens_or_ids: Any,
    *,
    layer: int = 0,
    head: int = 0,
    query: int = -1,
    layers: int | Sequence[int] | None = None,
    side: str | None = None,
    inputs: Any = None,
    tokenizer: Any = None,
    title: str | None = None,
    ax: Axes | Sequence[Axes] | None = None,
    **keywords: Any,
) -> AttentionView:
    """Walk through one forward pass: every step with its formula, its shapes, its numbers and a sentence.

    A notebook shows a page to scroll and to click through: tokens, embedding and positions, norm, queries, keys and
    values of a head, scores of the chosen token, mask, softmax, sum of values, output projection, residual,
    feed-forward network, all other layers, logits and probabilities, and six questions. All layers' weights are on it,
    and the other numbers of the layers that are stored. The model is called once; the numbers are those of this
    call's recording.

    Parameters
    ----------
    model : Module
        A model of text of `qkv.models`, a layer or stack of `qkv.nn`, or an attention layer.
    tokens_or_ids : sequence of int, array (L, M), str or sequence of str
        What the model reads: ids; rows of numbers; with a `tokenizer` a text or its tokens; with `inputs` the names of
        their rows. A tuple of two is what an encoder and a decoder read, or rows and their memory or keys; without the
        second a decoder reads its first id.
    layer, head, query : int
        What is shown first, and what the figure draws; negative ones count from the end. `query` is a token's place.
    layers : int or sequence of int, optional
        Which layers' queries, keys, values and rows the page stores; `layer` unless given. It stores all weights.
    side : "encoder" or "decoder", optional
        Of a model that has both: which one is walked through; the encoder unless given.
    inputs : array or tuple of arrays, optional
        What the model is called with instead, for modules that take no ids.
    tokenizer : Tokenizer, optional
        Names tokens and candidates.
    title : str, optional
    ax : sequence of 3 matplotlib.axes.Axes, optional
        Draws the figure there.
    **keywords
        Those of the model's call, such as masks.

    Returns
    -------
    AttentionView
        ``save("pass.html")``, ``figure()``; unpacks to ``(fig, axes)``, axes (3,): weights of the head, those of the
        token, its probabilities, or without logits the mean weights of all heads.

    Raises
    ------
    ValueError
        If there is no such layer, head, token or side, the model reads images or has no attention, what it reads is not
        one text, or the page would have more than 4 MB; then the message has the length that fits.
    ImportError
        If matplotlib is missing, for figures.

    Examples
    --------
    >>> model = qkv.models.CausalLM(vocab_size=11, d_model=8, nhead=2, num_layers=3)
    >>> explain(model, [1, 2, 3, 1], layer=1)
    ExplainView(layer 1 of 3, head 0 of 2, token 3 of 4)
    """
    names = Names(_NAME, model)
    call = call_of(model, tokens_or_ids, inputs, tokenizer)
    stack = stack_of(model, names, side)
    count = len(stack.blocks)
    view = ExplainView()
    view.layer = place_in(_NAME, "layer", layer, count, "layer")
    wanted = (
        [layer] if layers is None else [layers] if isinstance(layers, (int, np.integer)) else list(layers)
    )
    stored = sorted({view.layer, *(place_in(_NAME, "layers", each, count, "layer") for each in wanted)})
    with no_grad():
        recording = record(model, *call.inputs, keep=_kept(names, stack, stored), **keywords)
    _refuse_long(recording, stack, stored)
    view.fill(call, stack, Values(recording, 1 if stack.side == "decoder" else 0), stored, tokenizer)
    view.head = place_in(_NAME, "head", head, len(view.heads[view.layer][0]), "head")
    view.query = place_in(_NAME, "query", query, len(view.names[0]), "token")
    view.title = title
    view.check_size()
    view._into(ax)
    return view


def _kept(names: Names, stack: Stack, stored: list[int]) -> list[str]:
    """Return the names that are recorded: all weights, the stored layers, what is around the layers."""
    kept = [stack.blocks[0].named("input")] if stack.before else []
    for place, block in enumerate(stack.blocks):
        kept += [joined(path, "weights") for path, _ in block.attentions]
        kept += [] if block.path is None else [block.named("output")]
        kept += block.needed() if place in stored else []
    kept += [f"{path}.output" for path in (*stack.before, *([stack.norm] if stack.norm else []))]
    return [name for name in dict.fromkeys(kept) if name in names]


def _refuse_long(recording: Recording, stack: Stack, stored: list[int]) -> None:
    """Refuse a text of which the weights alone are too many, before they are computed."""
    paths = {path for number in stored for path, _ in stack.blocks[number].attentions}
    sizes = {path: sum(math.prod(call.shape) for call in calls) for path, _, calls in recording._attentions()}
    if _BYTES * sum(sizes.values()) <= LIMIT:
        return
    square = _BYTES * sum(size * (2 if path in paths else 1) for path, size in sizes.items())
    lengths = {block.named("output") for number, block in enumerate(stack.blocks) if number not in stored}
    twice = {joined(path, word) for path in paths for word in ("weights", "scores", "input", "output")}
    others = {*recording.names()} - lengths - twice - {joined(path, "weights") for path in sizes}
    rows = _BYTES * sum(np.size(recording[name]) for name in others)
    count = next(calls[0].shape[2] for _, _, calls in recording._attentions())
    raise _too_long(square, rows, _BESIDE, count)


def _too_long(square: float, rows: float, rest: float, count: int) -> ValueError:
    """Return the error of a text, of which some bytes grow with the square of its length, and some with its length."""
    shares = [(n, n / count) for n in range(count)]
    fits = [n for n, share in shares if square * share**2 + rows * share + rest <= _SURE * LIMIT]
    return ValueError(
        f"{_NAME}: tokens_or_ids must have at most {counted(max(fits, default=0), 'token')} here because a page has at "
        f"most 4 MB and leaves nothing out; got {count}"
    )


class ExplainView(AttentionView):
    """What :func:`explain` returns."""

    script = "explanation/numbers explanation/told explanation/page"
    style = "explanation/page"
    layer: int
    head: int
    query: int
    heads: list[list[Any]]  # of each layer and attention (H, Lq, Lk)
    names: list[list[str]]  # of rows, and of the keys of each attention
    about: dict[str, Any]

    def fill(self, call: Call, stack: Stack, values: Values, stored: list[int], tokenizer: Any) -> None:
        """Take what the page shows."""
        self.heads = [
            [values.by_heads(joined(path, "weights"), part) for path, part in block.attentions]
            for block in stack.blocks
        ]
        self.names = _names(call, stack, self.heads[0])
        rows = self.names[0]
        place = 1 if stack.side == "decoder" else 0
        ids = call.ids[min(place, len(call.ids) - 1)] if stack.before else None
        before, arrays = before_steps(stack, values, ids, len(rows))
        after, more, candidates = after_steps(stack, values, len(rows), tokenizer)
        layers = []
        for number, block in enumerate(stack.blocks):
            layer = Layer(block, values)
            if number in stored:
                layer.walk()
            lengths = []
            if block.path is not None:
                lengths = rounded(
                    np.linalg.norm(values.rows(block.named("output")).astype("float64"), axis=-1)
                )
            layers.append(
                {
                    "label": block.label,
                    "steps": layer.steps,
                    "arrays": layer.arrays,
                    "attentions": layer.attentions,
                    "weights": [matrices(table) for table in self.heads[number]],
                    "lengths": lengths,
                    "crosses": [part.crosses for _, part in block.attentions],
                }
            )
        self.about = {
            "tokens": rows,
            "keys": self.names[1:],
            "ids": ids,
            "before": before,
            "after": after,
            "arrays": arrays | more,
            "layers": layers,
            "candidates": candidates,
            "says": self._says(values.recording, stack),
        }

    def _says(self, recording: Recording, stack: Stack) -> list[list[list[str]]]:
        """Return what each head does by its measures, of each attention and layer."""
        found = []
        for number, keys in enumerate(self.names[1:]):
            paths = [block.attentions[number][0] for block in stack.blocks]
            of_heads = measures(recording._part(paths), tokens=keys)
            shapes = [layer[number].shape for layer in self.heads]
            found.append(
                [[head_says(of_heads, i, h, Lk) for h in range(H)] for i, (H, _, Lk) in enumerate(shapes)]
            )
        return found

    def check_size(self) -> None:
        """Refuse a page of more than 4 MB."""
        total = len(json.dumps(self._data(), ensure_ascii=True).encode()) + _BESIDE
        if total <= LIMIT:
            return
        layers = self.about["layers"]
        arrays = [self.about["arrays"], *(layer["arrays"] for layer in layers)]
        scores = [one["all"] for array in arrays for key, one in array.items() if key.startswith("scores")]
        pairs = [one["all"] for layer in layers for one in layer["weights"]] + scores
        pairs += [about["excluded"] for layer in layers for about in layer["attentions"]]
        square = sum(map(len, pairs))
        rows = sum(len(one["all"]) + len(one["scales"]) for array in arrays for one in array.values())
        rows -= sum(map(len, scores))
        rows += len(json.dumps([self.about["tokens"], self.about["keys"], self.about["candidates"]]))
        rows += len(json.dumps([layer["lengths"] for layer in layers]))
        raise _too_long(square, rows, total - square - rows, len(self.about["tokens"]))

    def _data(self) -> dict[str, Any]:
        return {**self.about, "layer": self.layer, "head": self.head, "query": self.query}

    def _rounding(self, about: dict[str, Any]) -> str:
        steps = 2 * steps_of("<i2")
        return (
            f"Numbers of the recorded pass: weights are rounded to {1 / (2 * steps_of('<u2')):.1g}, all others to "
            f"1/{steps} of the greatest of their row; {DIGITS} digits are shown."
        )

    def _key(self, about: dict[str, Any]) -> list[tuple[str, str]]:
        return [("more", "above 0"), ("less", "below 0")]

    def _drawing(self) -> str:
        """Return the steps in words, for readers without scripts."""
        data, layer = self.about, self.about["layers"][self.layer]
        items = "".join(
            f"<li><b>{html.escape(step['title'])}</b> <code>{html.escape(step['formula'])}</code> "
            f"{html.escape(step['shapes'])}: {html.escape(step['says'])}</li>"
            for step in (*data["before"], *layer["steps"], *data["after"])
        )
        told = html.escape(self._told())
        return f'<div class="stage walk"><div>{told}</div><ol>{items}</ol></div>'

    def _told(self) -> str:
        """Say where the chosen head and token look."""
        row, says = (
            self.heads[self.layer][0][self.head][self.query],
            self.about["says"][0][self.layer][self.head],
        )
        best = int(np.nanargmax(row)) if np.isfinite(row).any() else 0
        return (
            f"Layer {self.layer}, head {self.head} {says}. {self.names[0][self.query]} gives {row[best]:.2f} of its "
            f"weight to {self.names[1][best]}."
        )

    def _is_quick(self) -> bool:
        return True

    def _plot(self, subplots: Callable[..., tuple[Figure, Any]], ax: Any = None) -> tuple[Figure, Any]:
        return draw(self, subplots, ax)

    def __repr__(self) -> str:
        H = len(self.heads[self.layer][0])
        return (
            f"ExplainView(layer {self.layer} of {len(self.heads)}, head {self.head} of {H}, "
            f"token {self.query} of {len(self.names[0])})"
        )


def _names(call: Call, stack: Stack, heads: list[Any]) -> list[list[str]]:
    """Return the names of rows, and of the keys of each attention."""
    own, other = (1, 0) if stack.side == "decoder" else (0, -1)
    rows = call.names[min(own, len(call.names) - 1)]
    found = [rows]
    for (_, part), table in zip(stack.blocks[0].attentions, heads, strict=True):
        far = part.crosses or stack.blocks[0].path is None
        found.append(call.names[other] if far else rows)
        for name, words, count in (("rows", rows, table.shape[1]), ("keys", found[-1], table.shape[2])):
            if len(words) != count:
                raise ValueError(
                    f"{_NAME}: tokens_or_ids must name {count} {name} because the model computes so many; got "
                    f"{len(words)}"
                )
    return found
