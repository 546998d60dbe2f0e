"""Drawings of the architectures: boxes and arrows, no data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..._public import explained
from .drawing import Drawn, figure_of, pyplot

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLORS = {
    "data": "#f2f2f2",
    "attention": "#f9d5c9",
    "layer": "#cfe2f3",
    "norm": "#fff2cc",
    "output": "#d9ead3",
    "frame": "#fafafa",
}


class Sketch:
    """Boxes, labels and arrows on axes without ticks, in units of about a third of an inch."""

    def __init__(self, ax: Axes, width: float, height: float) -> None:
        self.ax = ax
        ax.set(xlim=(0.0, width), ylim=(0.0, height), aspect="equal")
        ax.set_axis_off()

    def box(self, x: float, y: float, text: str, kind: str = "layer", w: float = 2.6, h: float = 0.8) -> None:
        """Draw a rounded box with text; x, y is its centre."""
        from matplotlib.patches import FancyBboxPatch

        style = "round,pad=0,rounding_size=0.12"
        patch = FancyBboxPatch(
            (x - w / 2, y - h / 2),
            w,
            h,
            boxstyle=style,
            facecolor=COLORS[kind],
            edgecolor="#444444",
            linewidth=0.9,
        )
        if kind == "frame":
            patch.set(linestyle="--", zorder=0)
        self.ax.add_patch(patch)
        if text:
            self.label(x, y, text)

    def label(self, x: float, y: float, text: str, size: float = 8.5, **options: Any) -> None:
        """Write text centred at x, y."""
        self.ax.text(x, y, text, **{"ha": "center", "va": "center", "fontsize": size, **options})

    def arrow(self, *points: tuple[float, float], color: str = "#333333", bend: float = 0.0) -> None:
        """Draw a line through points with a head at the last; with `bend` the last piece is an arc."""
        *way, start, end = points
        path = [*way, start]
        if len(path) > 1:
            self.ax.plot(*zip(*path, strict=True), color=color, linewidth=1.0, solid_capstyle="butt")
        arrow = {"arrowstyle": "-|>", "color": color, "linewidth": 1.0, "shrinkA": 0, "shrinkB": 0}
        arrow["connectionstyle"] = f"arc3,rad={bend}"
        self.ax.annotate("", end, start, arrowprops=arrow)


def attention_schematic(ax: Axes) -> None:
    """Draw a query that is compared with keys, and the weighted sum of their values."""
    s = Sketch(ax, 14.6, 7.6)
    rows = (("1", 5.4), ("2", 3.9), ("m", 1.5))
    s.box(4.7, 7.0, "query  q", "data", w=2.3)
    s.box(8.0, 3.45, "softmax", "norm", w=1.5, h=4.9)
    s.box(13.3, 3.45, "output\n" + r"$\Sigma_i\ \alpha_i v_i$", "output", w=1.9, h=1.2)
    for name, y in rows:
        s.box(1.3, y, f"key  $k_{name}$", "data", w=1.9)
        s.box(4.7, y, f"score  $a(q, k_{name})$", "attention", w=2.3)
        s.box(10.8, y, rf"$\alpha_{name}$ x value  $v_{name}$", "data", w=2.2)
        s.arrow((2.25, y - 0.15), (3.55, y - 0.15))
        s.arrow((3.55, 7.0), (2.85, 7.0), (2.85, y + 0.15), (3.55, y + 0.15), color="#1f6fb4")
        s.arrow((5.85, y), (7.25, y))
        s.arrow((8.75, y), (9.7, y))
        s.arrow((11.9, y), (12.12, y), (12.12, 3.45), (12.35, 3.45))
    for x in (1.3, 4.7, 10.8):
        s.label(x, 2.7, "...", 12)


def multi_head_schematic(ax: Axes) -> None:
    """Draw heads that attend side by side, each through projections of its own, and what joins them."""
    s = Sketch(ax, 12.6, 9.6)
    inputs = (("queries  Q", 2.5), ("keys  K", 6.0), ("values  V", 9.5))
    for depth in (2, 1, 0):  # the last head in front
        shift = 0.32 * depth
        for _, x in inputs:
            s.box(x + shift, 2.7 + shift, "linear" if depth == 0 else "", "layer", w=2.2)
            if depth == 0:
                s.arrow((x, 3.1), (x, 4.75))
        s.box(
            6.0 + shift,
            5.2 + shift,
            "scaled dot-product attention" if depth == 0 else "",
            "attention",
            w=9.2,
            h=0.9,
        )
    for name, x in inputs:
        s.label(x, 0.6, name)
        s.arrow((x, 0.95), (x, 2.3))
    s.box(6.0, 7.2, "concatenate", "norm", w=4.2, h=0.7)
    s.box(6.0, 8.4, "linear", "layer", w=4.2, h=0.7)
    s.arrow((6.0, 6.29), (6.0, 6.85))
    s.arrow((6.0, 7.55), (6.0, 8.05))
    s.arrow((6.0, 8.75), (6.0, 9.4))
    s.label(11.9, 5.5, "h heads", ha="center", style="italic", rotation=90)
    s.label(7.6, 9.2, "output")


def seq2seq_schematic(ax: Axes) -> None:
    """Draw an encoder that leaves one state, and a decoder that writes the target from it."""
    s = Sketch(ax, 15.2, 5.6)
    source, target = ["they", "are", "watching", "."], ["<start>", "ils", "regardent", "."]
    result = ["ils", "regardent", ".", "<end>"]
    s.box(3.6, 3.0, "", "frame", w=6.7, h=2.2)
    s.box(11.5, 3.0, "", "frame", w=6.9, h=2.2)
    s.label(3.6, 0.3, "encoder", style="italic")
    s.label(11.5, 0.3, "decoder", style="italic")
    for i in range(4):
        x, z = 1.2 + 1.6 * i, 9.1 + 1.6 * i
        s.box(x, 3.0, f"$h_{i + 1}$", w=0.9, h=0.9)
        s.label(x, 1.0, source[i])
        s.arrow((x, 1.3), (x, 2.55))
        s.box(z, 3.0, f"$s_{i + 1}$", "output", w=0.9, h=0.9)
        s.label(z, 1.0, target[i])
        s.arrow((z, 1.3), (z, 2.55))
        s.arrow((z, 3.45), (z, 4.7))
        s.label(z, 5.0, result[i])
        if i < 3:
            s.arrow((x + 0.45, 3.0), (x + 1.15, 3.0))
            s.arrow((z + 0.45, 3.0), (z + 1.15, 3.0))
    s.arrow((6.45, 3.0), (8.65, 3.0))
    s.label(7.5, 3.35, "state", style="italic")


def bahdanau_schematic(ax: Axes) -> None:
    """Draw a decoder that looks at all encoder states at each step and weighs them again."""
    s = Sketch(ax, 13.2, 8.4)
    words = ["they", "are", "watching", "."]
    s.box(3.6, 2.2, "", "frame", w=6.7, h=1.7)
    s.label(3.6, 0.25, "encoder", style="italic")
    for i, word in enumerate(words):
        x = 1.2 + 1.6 * i
        s.box(x, 2.2, f"$h_{i + 1}$", w=0.9, h=0.9)
        s.label(x, 0.85, word)
        s.arrow((x, 1.1), (x, 1.75))
        s.arrow((x, 2.65), (x, 4.5))
        if i < 3:
            s.arrow((x + 0.45, 2.2), (x + 1.15, 2.2))
    s.box(3.6, 5.0, "additive attention\n$w_v^T\\,\\tanh(W_q s_{t-1} + W_k h_i)$", "attention", w=6.0, h=1.0)
    s.box(3.6, 6.9, r"context  $c_t = \Sigma_i\ \alpha_{t,i}\, h_i$", "output", w=4.6)
    s.arrow((3.6, 5.5), (3.6, 6.5))
    s.label(4.25, 6.0, r"$\alpha_t$")
    s.box(9.0, 5.0, "$s_{t-1}$", w=1.2, h=0.9)
    s.box(11.6, 5.0, "$s_t$", w=1.2, h=0.9)
    s.arrow((8.4, 5.0), (6.6, 5.0))
    s.label(7.5, 5.25, "query")
    s.arrow((9.6, 5.0), (11.0, 5.0))
    s.arrow((5.9, 6.9), (10.2, 6.9), (11.3, 5.45))
    s.arrow((11.6, 3.2), (11.6, 4.55))
    s.label(11.6, 2.9, "previous word $y_{t-1}$")
    s.arrow((11.9, 5.45), (11.9, 7.5))
    s.label(11.9, 7.8, "next word $y_t$")
    s.label(9.0, 4.2, "decoder", style="italic")


def transformer_schematic(ax: Axes) -> None:
    """Draw the encoder and the decoder of the Transformer, block by block."""
    s = Sketch(ax, 12.6, 14.4)
    left, right = 3.4, 8.9
    s.box(left, 5.7, "", "frame", w=4.3, h=5.0)
    s.box(right, 6.85, "", "frame", w=4.3, h=7.3)
    s.label(0.85, 5.7, "N x", 10)
    s.label(11.5, 6.85, "N x", 10)

    def block(x: float, y: float, text: str, kind: str) -> None:
        """Draw a layer with the connection around it, and the norm above."""
        s.box(x, y, text, kind, w=3.3)
        s.box(x, y + 1.15, "add & norm", "norm", w=3.3, h=0.6)
        s.arrow((x, y - 0.85), (x, y - 0.4))
        s.arrow((x, y + 0.4), (x, y + 0.85))
        s.arrow((x, y - 0.75), (x - 1.85, y - 0.75), (x - 1.85, y + 1.15), (x - 1.65, y + 1.15))

    for x, name in ((left, "source"), (right, "target so far")):
        s.label(x, 0.3, name)
        s.box(x, 1.2, "embedding", "data", w=2.9, h=0.7)
        s.box(x, 2.3, "+ positions", "data", w=2.9, h=0.6)
        s.arrow((x, 0.5), (x, 0.85))
        s.arrow((x, 1.55), (x, 2.0))
        s.arrow((x, 2.6), (x, 3.45))
    block(left, 4.2, "self-attention", "attention")
    block(left, 6.5, "feed-forward", "layer")
    block(right, 4.2, "causal self-attention", "attention")
    block(right, 6.5, "cross-attention", "attention")
    block(right, 8.8, "feed-forward", "layer")
    s.arrow((left, 7.95), (left, 8.7), (6.15, 8.7), (6.15, 6.5), (7.25, 6.5))
    s.label(4.75, 8.95, "keys, values", 8)
    s.box(right, 11.4, "linear", "layer", w=2.9, h=0.7)
    s.box(right, 12.6, "softmax", "output", w=2.9, h=0.7)
    s.arrow((right, 10.25), (right, 11.05))
    s.arrow((right, 11.75), (right, 12.25))
    s.arrow((right, 12.95), (right, 13.5))
    s.label(right, 13.8, "probabilities of the next token")


DRAWINGS = {
    "attention": (attention_schematic, (7.0, 3.65)),
    "multi-head": (multi_head_schematic, (6.3, 4.8)),
    "seq2seq": (seq2seq_schematic, (7.6, 2.8)),
    "bahdanau": (bahdanau_schematic, (6.6, 4.2)),
    "transformer": (transformer_schematic, (6.3, 7.2)),
}


@explained
def schematic(
    name: str, *, ax: Axes | None = None, figsize: tuple[float, float] | None = None
) -> tuple[Figure, Axes]:
    """Draw an architecture: attention, its heads, an encoder-decoder, that with Bahdanau's attention, the Transformer.

    Parameters
    ----------
    name : "attention", "multi-head", "seq2seq", "bahdanau" or "transformer"
    ax : matplotlib.axes.Axes, optional
    figsize : (width, height), optional
        Of the new figure, in inches.

    Returns
    -------
    fig : matplotlib.figure.Figure
    ax : matplotlib.axes.Axes

    Raises
    ------
    ValueError
        If there is no such drawing.
    ImportError
        If matplotlib is missing.

    References
    ----------
    Sutskever, Vinyals, Le, "Sequence to sequence learning with neural networks", 2014; Bahdanau, Cho, Bengio, "Neural
    machine translation by jointly learning to align and translate", 2014; Vaswani et al., "Attention is all you
    need", 2017.

    Examples
    --------
    >>> fig, ax = schematic("attention")
    >>> len(ax.texts) > 10
    True
    """
    if name not in DRAWINGS:
        raise ValueError(f"schematic: name must be one of {', '.join(DRAWINGS)}; got {name!r}")
    draw, size = DRAWINGS[name]
    if ax is None:
        ax = pyplot().figure(figsize=figsize or size).add_axes((0.01, 0.01, 0.98, 0.98))
    draw(ax)
    return Drawn((figure_of(ax), ax))
