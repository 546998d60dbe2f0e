"""A text as it was written: where each token looked, what could have followed, what each layer would have written."""

from __future__ import annotations

import html
import json
from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..._public import explained
from ..._words.errors import counted, shown
from ..figures.drawing import check_number, given_axes
from ..figures.labels import add_label
from ..figures.texts import readable
from .heads import place_in, title_of
from .packing import coded, steps_of, text_of
from .token_view import LINE, TokenView
from .view import AttentionView

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ...look import Writing

LARGEST = 3_600_000  # bytes of what the script reads; with style, script and picture a page stays below 4 MB
KINDS = ("<u2", "|u1")  # of a weight: the finer one, if all of them fit
# Whether a step reads one token more than that before it, or a source, and the weights of layers (H, n, K).
Side = tuple[int, list[NDArray[Any]]]
BAR = 0.17  # inches of the figure: height of a bar


@explained
def writing_view(
    writing: Writing,
    tokens: Any,
    *,
    token: int = 0,
    layer: int | None = None,
    head: int | None = None,
    layers: Sequence[int] | None = None,
    item: int = 0,
    title: str | None = None,
    color: str = "#1f6fb4",
    width: float = 6.0,
    ax: Any = None,
) -> AttentionView:
    """Write a text with the tokens coloured that a written one looked at when it was chosen.

    A notebook shows a page: point at a written token, click it or reach it with the keyboard, and choose layer and
    head. Beside the text are the candidates of this step with their probabilities, and the likeliest token of each
    layer's logit lens. After an encoder the source is coloured by the cross-attention of the same layer and head.

    Parameters
    ----------
    writing : Writing
        Of :func:`qkv.look.generate`, with weights.
    tokens : Tokenizer, function or sequence of str
        What names tokens: a :class:`qkv.models.Tokenizer`, a function from a list of ids to strings, or the tokens of
        this text, prompt or source first; then candidates that are not in the text are shown as ids, ``#123``.
    token : int
        Which written token is looked at first, and in the figure; negative ones count from the end.
    layer, head : int, optional
        What is shown first: the first layer, and the mean of its heads, if they are not given.
    layers : sequence of int, optional
        The layers whose weights the page holds; all if not given.
    item : int
        Which text of a batch is shown; the title says so.
    title : str, optional
    color : str
        Of the figure.
    width : float
        Of the figure's text, in inches; lines break there.
    ax : sequence of matplotlib.axes.Axes, optional
        Draw into these instead of into a new figure.

    Returns
    -------
    AttentionView
        ``save("name.svg")``, ``figure()``; unpacks to ``(fig, axes)``, axes of the source, if there is one, the text,
        the candidates, the logit lens.

    Raises
    ------
    ValueError
        If there is no such item, token, layer or head, tokens do not fit in number, or the page would be larger than
        4 MB; the message has the length that fits.

    Examples
    --------
    >>> model = qkv.models.CausalLM(vocab_size=11, d_model=8, nhead=2, num_layers=3)
    >>> writing = qkv.look.generate(model, [[1, 2, 3, 4]], max_new_tokens=5)
    >>> writing_view(writing, lambda ids: [f"t{i}" for i in ids])
    WritingView(3 layers of 2 heads, 5 tokens after 4)
    """
    name = "writing_view"
    if not hasattr(writing, "looks"):
        raise TypeError(f"{name}: writing must be what look.generate returns; got {shown(writing)}")
    item = place_in(name, "item", item, len(writing.ids), "text")
    view = WritingView()
    view.sides = [side for side in zip((1, 0), writing.looks(item), strict=True) if side[1]]
    if not view.sides:
        raise ValueError(
            f'{name}: writing must hold weights, as by generate(..., keep=("weights",)); got none'
        )
    held = {len(side) for _, side in view.sides}
    if held != {writing.lens_layers or max(held)}:
        raise ValueError(
            f"{name}: writing must hold the weights of all {writing.lens_layers} layers because layers are counted; "
            f"got {min(held)}; layers= holds some of them in the page"
        )
    view.ids, view.chosen = writing.ids[item], writing.chosen[item]
    view.candidates, view.prompt = writing.candidates[item], writing.prompts[item].tolist()
    view.start = writing.start_id
    view.lens = _lens(writing, item)
    view.names, view.labels = _names(name, tokens, view)
    count, heads = len(view.sides[0][1]), len(view.sides[0][1][0])
    view.numbers = list(range(count))
    if layers is not None:
        view.numbers = [place_in(name, "layers", number, count, "layer") for number in layers]
    view.layer = place_in(name, "layer", view.numbers[0] if layer is None else layer, count, "layer")
    if view.layer not in view.numbers:
        raise ValueError(f"{name}: layer must be one of layers = {view.numbers}; got {view.layer}")
    view.head = None if head is None else place_in(name, "head", head, heads, "head")
    view.token = place_in(name, "token", token, len(view.ids), "written token")
    view.title, view.color, view.width = title_of(title, item, len(writing.ids)), color, width
    sides = [(side[0], view._first(side)) for side in view.sides]
    others = len(json.dumps(view._about()))
    view.kind = kind_that_fits(
        name, sides, len(view.numbers) * heads, len(view.ids), others, "; layers= holds those of some layers"
    )
    view._into(ax)
    return view


def kind_that_fits(
    operation: str, sides: list[tuple[int, int]], heads: int, count: int, others: int = 0, rest: str = ""
) -> str:
    """Return how fine a page holds the weights of `count` steps beside so many other bytes; refuse what it cannot hold.

    `sides` are whether steps read one token more than those before them, and how many the first reads; `heads` are
    those of all layers.
    """

    def fits(steps: int, kind: str = KINDS[-1], firsts: int = sum(first for _, first in sides)) -> bool:
        numbers = firsts * steps + sum(grows for grows, _ in sides) * steps * (steps - 1) // 2
        return others + 4 / 3 * np.dtype(kind).itemsize * heads * numbers <= LARGEST

    for kind in KINDS:
        if fits(count, kind):
            return kind
    prompt = max(first for _, first in sides)
    fewer = largest_that(fits, count)
    most = f"{fewer} new tokens after these {prompt}"
    if not fewer:
        most = f"1 new token after {largest_that(lambda length: fits(1, firsts=length), prompt)}"
    raise ValueError(
        f"{operation}: writing must have at most {most} because the page holds all weights in 4 MB; got {count} after "
        f"{prompt}{rest}"
    )


def largest_that(holds: Callable[[int], bool], end: int) -> int:
    """Return the largest number below `end` for which something holds that holds for all smaller ones, or 0."""
    return bisect_left(range(1, end), True, key=lambda number: not holds(number))


def _lens(writing: Writing, item: int) -> list[list[tuple[int, float]]]:
    """Return for each layer the likeliest token of each step and its probability; nothing of other models."""
    found = []
    for layer in range(writing.lens_layers):
        logits = writing.logit_lens(layer)[item, : len(writing.ids[item])].astype(np.float64)
        best = logits.argmax(-1)
        p = 1 / np.exp(logits - logits.max(-1, keepdims=True)).sum(-1)
        found.append(list(zip(best.tolist(), p.tolist(), strict=True)))
    return found


def _names(name: str, tokens: Any, view: WritingView) -> tuple[dict[int, str], list[str]]:
    """Return what ids are called, and the tokens of the text."""
    text = [*view.prompt, *view.ids]
    ids = {*text, *([] if view.start is None else [view.start])}
    ids |= {one.id for step in view.candidates for one in step} | {
        best for layer in view.lens for best, _ in layer
    }
    of_text = not callable(tokens) and not hasattr(tokens, "tokens")
    if of_text:
        if isinstance(tokens, str) or not np.iterable(tokens):
            raise TypeError(
                f"{name}: tokens must be a Tokenizer, a function or a sequence of strings; got {shown(tokens)}"
            )
        tokens = list(tokens)
        check_number(name, "tokens", tokens, len(text))
        known = dict(zip(text, tokens, strict=True))
    else:
        known = _told(getattr(tokens, "tokens", tokens), sorted(ids))
    names = {one: readable(known.get(one, f"#{one}")) for one in sorted(ids)}
    return names, [readable(token) for token in tokens] if of_text else [names[one] for one in text]


def _told(words_of: Callable[[list[int]], Sequence[str]], ids: list[int]) -> dict[int, str]:
    """Return what a function calls tokens; a model may have more than its tokenizer."""
    try:
        return dict(zip(ids, words_of(ids), strict=True))
    except (ValueError, KeyError, IndexError):
        if len(ids) == 1:
            return {}
        return {
            one: word
            for half in (ids[: len(ids) // 2], ids[len(ids) // 2 :])
            for one, word in _told(words_of, half).items()
        }


class WritingView(AttentionView):
    """What :func:`writing_view` returns."""

    script = "writing_view"
    sides: list[Side]
    ids: list[int]
    prompt: list[int]
    start: int | None
    chosen: list[Any]
    candidates: list[list[Any]]
    lens: list[list[tuple[int, float]]]
    names: dict[int, str]
    labels: list[str]
    numbers: list[int]  # of the layers that are held
    layer: int
    head: int | None
    token: int
    color: str
    width: float
    kind = KINDS[0]

    def __repr__(self) -> str:
        counts = counted(len(self.numbers), "layer"), counted(self.heads, "head")
        read = len(self.prompt)
        return f"WritingView({counts[0]} of {counts[1]}, {counted(len(self.ids), 'token')} after {read})"

    @property
    def heads(self) -> int:
        return len(self.sides[0][1][0])

    def _first(self, side: Side) -> int:
        """Return how many tokens the first step reads."""
        return int(side[1][0].shape[2]) - side[0] * (len(self.ids) - 1)

    def _held(self, side: Side) -> str:
        """Return weights in base64: of each layer and head the rows of all steps, one after the other."""
        grows, layers = side
        n, longest = layers[0].shape[1:]
        read = np.tri(n, longest, longest - n, dtype=bool) if grows else np.ones((n, longest), bool)
        return text_of(*(coded(layers[number][:, read], 1.0, self.kind) for number in self.numbers))

    def _about(self) -> dict[str, Any]:
        places = {one: place for place, one in enumerate(self.names)}
        every = [one for step in (self.chosen, *self.candidates) for one in step]
        sampled = any(abs(one.drawn - one.probability) > 1e-9 for one in every)  # else both are one
        told = [
            [
                [places.get(one.id), _rounded(one.probability), *([_rounded(one.drawn)] if sampled else [])]
                for one in step
            ]
            for step in ([(chosen, *step) for chosen, step in zip(self.chosen, self.candidates, strict=True)])
        ]
        lens = [[[places[best], _rounded(p)] for best, p in layer] for layer in self.lens]
        return {"words": list(self.names.values()), "steps": told, "lens": lens, "sampled": sampled}

    def _data(self) -> dict[str, Any]:
        sides = [
            {"first": self._first(side), "grows": side[0], "weights": self._held(side)} for side in self.sides
        ]
        return {
            **self._about(),
            "sides": sides,
            "bytes": np.dtype(self.kind).itemsize,
            "codes": steps_of(self.kind),
            "layers": self.numbers,
            "layer": self.numbers.index(self.layer),
            "heads": [*map(str, range(self.heads)), *(["mean"] if self.heads > 1 else [])],
            "head": self.heads - (self.heads == 1) if self.head is None else self.head,
            "before": len(self._texts()[0][1]) - len(self.ids),
            "token": self.token,
        }

    def _texts(self) -> list[tuple[str, list[str]]]:
        """Return what the sides are over: a name and tokens, of which those that were written are the last."""
        count = len(self.prompt)
        if self.start is None:
            return [("text", self.labels)]
        return [("written", [self.names[self.start], *self.labels[count:]]), ("source", self.labels[:count])]

    def _drawing(self) -> str:
        parts = []
        for place, (name, tokens) in reversed([*enumerate(self._texts())]):
            begin = len(tokens) - (len(self.ids) if place == 0 else 0)
            kinds = ["token"] * begin + ["token written"] * (len(tokens) - begin)
            spans = "".join(
                f'<span class="{kind}">{html.escape(token)}</span>'
                for kind, token in zip(kinds, tokens, strict=True)
            )
            label = f'<p class="which">{name}</p>' if self.start is not None else ""
            parts.append(f'{label}<div class="text" data-side="{place}">{spans}</div>')
        return f'<div class="stage writing"><div class="texts">{"".join(parts)}</div><div class="beside"></div></div>'

    def _rounding(self, about: dict[str, Any]) -> str:
        return f"Weights are rounded to {0.5 / about['codes']:.1g}, probabilities to six digits."

    def _row(self, layers: list[NDArray[Any]]) -> NDArray[Any]:
        """Return the weights that are shown first."""
        table = layers[self.layer][:, self.token]
        found: NDArray[Any] = table.mean(0) if self.head is None else table[self.head]
        return found

    def _plot(self, subplots: Callable[..., tuple[Figure, Any]], ax: Any = None) -> tuple[Figure, Any]:
        texts, rows = [], {1 - grows: self._row(layers) for grows, layers in self.sides}
        for place, (_, tokens) in reversed([*enumerate(self._texts())]):
            text = _Text()
            text.tokens, text.color, text.width = tokens, self.color, self.width
            text.token = len(tokens) - len(self.ids) + self.token if place == 0 else None
            text.weights = np.zeros(len(tokens))
            if place in rows:
                text.weights[: len(rows[place])] = rows[place]
            texts.append(text)
        candidates = [(self.names[one.id], one.probability) for one in self.candidates[self.token]]
        lens = [(self.names[best], p) for best, p in (layer[self.token] for layer in self.lens)]
        bars = [("what could follow", candidates), *([("by layer, from 0", lens)] if lens else [])]
        heights = [LINE * (text._places()[-1][1] + 1) + 0.3 for text in texts]
        heights += [BAR * len(rows) + 0.3 for _, rows in bars]
        above = 0.3 if self.title else 0.0
        whole = sum(heights) + above + 0.1
        if ax is None:
            fig, axes = subplots(
                len(heights), 1, figsize=(self.width + 0.1, whole), gridspec_kw={"height_ratios": heights}
            )
            fig.subplots_adjust(
                0.02, 0.1 / whole, 0.98, 1 - (above + 0.25) / whole, hspace=0.3 * len(heights) / whole
            )
            panels = axes[:, 0]
        else:
            fig, panels = given_axes("writing_view", ax, (len(heights),))
        for text, panel in zip(texts, panels, strict=False):
            text._plot(subplots, panel)
        head = "the mean of its heads" if self.head is None else f"head {self.head}"
        panels[0].set_title(f"where the outlined token looked: layer {self.layer}, {head}", fontsize="small")
        for (name, bar), panel in zip(bars, panels[len(texts) :], strict=True):
            _draw_bars(panel, name, bar, self.color)
        if self.title and ax is None:
            fig.suptitle(self.title, fontsize="medium", y=1 - 0.05 / whole)
        return fig, panels


class _Text(TokenView):
    """A text in the figure, coloured by one row of weights."""

    weights: NDArray[Any]

    def row(self) -> Any:
        return self.weights


def _draw_bars(ax: Axes, name: str, rows: list[tuple[str, float]], color: str) -> None:
    """Draw probabilities as bars with a token on the left and the number on the right of each."""
    ax.barh(range(len(rows)), [p for _, p in rows], color=color, alpha=0.6, height=0.8)
    for place, (word, p) in enumerate(rows):
        add_label(ax, -0.01, place, word, ha="right", va="center_baseline")
        add_label(ax, p + 0.01, place, f"{p:.3f}", va="center_baseline")
    ax.set(xlim=(-0.5, 1.2), ylim=(len(rows) - 0.4, -0.6))
    ax.set_axis_off()
    ax.set_title(name, fontsize="small", loc="left")


def _rounded(p: float) -> float:
    return float(f"{p:.6g}")
