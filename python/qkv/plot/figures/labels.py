"""Tokens as labels of figures: never formulas, in fonts that have their characters, right to left where they are."""

from __future__ import annotations

import functools
import itertools
import unicodedata
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from .drawing import figure_of, pyplot, whole
from .texts import readable as readable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Text

SIZE = 9.0  # points
LEAST = 6.6  # points of a label in a heatmap that chooses its size
INCH = 72.0


def add_label(ax: Axes, x: float, y: float, token: str, **options: Any) -> Text:
    """Write a token into axes; it may be outside of them."""
    label: Text = _label_class()(x, y, token, **{"clip_on": False, "fontsize": SIZE, **options})
    ax.add_artist(label)
    return label


def label_matrix(ax: Axes, queries: Sequence[str], keys: Sequence[str]) -> None:
    """Write the queries' tokens beside the rows of a matrix and the keys' above its columns."""
    ax.set(xticks=[], yticks=[])
    for place, token in enumerate(queries):
        add_label(
            ax, -0.01, place, token, transform=ax.get_yaxis_transform(), ha="right", va="center_baseline"
        )
    for place, token in enumerate(keys):
        add_label(
            ax, place, 1.01, token, transform=ax.get_xaxis_transform(), ha="center", va="bottom", rotation=90
        )


def label_ticks(ax: Axes, keys: Sequence[Any] | None, queries: Sequence[Any] | None) -> None:
    """Write tokens, where given, below the columns and beside the rows of a matrix."""
    for axis, tokens in ((ax.xaxis, keys), (ax.yaxis, queries)):
        if tokens is None:
            continue
        words = [named(str(token)) for token in tokens]
        slanted = axis is ax.xaxis and max(map(len, words)) > 2
        axis.set_ticks(range(len(words)), words)
        for tick, word in zip(axis.get_major_ticks(), words, strict=True):
            tick.label1.set(parse_math=False, fontfamily=families(word))
            if slanted:
                tick.label1.set(rotation=60, ha="right")


def fit_ticks(
    fig: Figure,
    below: Iterable[Axes],
    keys: Sequence[Any] | None,
    beside: Iterable[Axes],
    queries: Sequence[Any] | None,
    *,
    grows: bool,
) -> None:
    """Let a figure grow until the labels that `label_ticks` wrote can be read, and keep these apart."""
    labelled = [(ax, "x", keys) for ax in below if keys is not None]
    labelled += [(ax, "y", queries) for ax in beside if queries is not None]
    for _ in range(6):
        whole(fig)
        least = min((_room(*each) for each in labelled), default=LEAST)
        if not grows or least >= LEAST:
            break
        fig.set_size_inches(*(min(1.05 * LEAST / least, 2.0) * fig.get_size_inches()))
    for ax, name, tokens in labelled:
        for tick in getattr(ax, f"{name}axis").get_major_ticks():
            tick.label1.set_fontsize(min(tick.label1.get_fontsize(), _room(ax, name, tokens)))


def _room(ax: Axes, name: str, tokens: Sequence[Any]) -> float:
    """Return the points that a label has along an axis."""
    ax.apply_aspect()
    box = ax.get_window_extent()
    return 0.8 * (box.width if name == "x" else box.height) / figure_of(ax).dpi * INCH / len(tokens)


def widest(tokens: Sequence[str], size: float = SIZE) -> float:
    """Return the width in inches that the longest of tokens takes."""
    return max((width_of(token, size) for token in tokens), default=0.0)


def width_of(token: str, size: float = SIZE) -> float:
    """Return the width in inches of a token."""
    from matplotlib.font_manager import FontProperties

    font = FontProperties(family=families(token), size=size)
    width, _, _ = _canvas().get_text_width_height_descent(drawn(token), font, False)
    return float(width) / INCH


@functools.cache
def _canvas() -> Any:
    pyplot()  # says how to install matplotlib
    from matplotlib.backends.backend_agg import RendererAgg

    agg: Any = RendererAgg
    return agg(8, 8, INCH)


@functools.cache
def _label_class() -> type[Text]:
    pyplot()
    from matplotlib.text import Text

    class Label(Text):
        """A token. SVG gets it as it is; where glyphs are drawn, `drawn` says which."""

        def __init__(self, x: float, y: float, token: str, **options: Any) -> None:
            super().__init__(x, y, token, parse_math=False, fontfamily=families(token), **options)

        def draw(self, renderer: Any) -> None:
            self._with_glyphs(renderer, lambda: super(Label, self).draw(renderer))

        def get_window_extent(self, renderer: Any = None, dpi: float | None = None) -> Any:
            return self._with_glyphs(renderer, lambda: super(Label, self).get_window_extent(renderer, dpi))

        def _with_glyphs(self, renderer: Any, act: Any) -> Any:
            token = self._text  # type: ignore[has-type]  # set_text would ask for another drawing
            if _writes_text(renderer):
                with warnings.catch_warnings():  # the reader's fonts draw it, even if those here lack it
                    warnings.filterwarnings("ignore", "Glyph .* missing")
                    return act()
            self._text = drawn(token)
            try:
                return act()
            finally:
                self._text = token

    return Label


def _writes_text(renderer: Any) -> bool:
    from matplotlib import rcParams
    from matplotlib.backends.backend_svg import RendererSVG

    inner = getattr(renderer, "_vector_renderer", renderer)  # of one that mixes in pictures
    return isinstance(inner, RendererSVG) and rcParams["svg.fonttype"] == "none"


@functools.lru_cache(maxsize=4096)
def families(token: str) -> list[str]:
    """Return the user's font families, and after them those that have the characters which these lack."""
    from matplotlib import rcParams

    chosen = list(rcParams["font.family"])
    for sign in dict.fromkeys(token):
        font = None if _is_drawn_by(tuple(chosen), sign) else _font_with(sign)
        if font is not None and font not in chosen:
            chosen.append(font)
    return chosen


@functools.lru_cache(maxsize=4096)
def drawn(token: str) -> str:
    """Return what fonts draw for a token: characters that none has by their numbers, in visual order."""
    text = named(token)
    return text if _shapes() else visual(text)


@functools.lru_cache(maxsize=4096)
def named(token: str) -> str:
    """Return a token with characters that no font has by their numbers."""
    fonts, text = tuple(families(token)), ""
    for is_drawn, signs in itertools.groupby(token, lambda sign: _is_drawn_by(fonts, sign)):
        missing = [f"{ord(sign):04X}" for sign in (signs if not is_drawn else ()) if not _is_invisible(sign)]
        text += "".join(signs) + (f"[U+{' '.join(missing)}]" if missing else "")
    return text


def _is_invisible(sign: str) -> bool:
    return unicodedata.category(sign) == "Cf" or "\ufe00" <= sign <= "\ufe0f"


def _shapes() -> bool:
    """Return whether matplotlib orders and joins letters itself."""
    import matplotlib

    return tuple(map(int, matplotlib.__version__.split(".")[:2])) >= (3, 11)


@functools.lru_cache(maxsize=4096)
def _is_drawn_by(chosen: tuple[str, ...], sign: str) -> bool:
    return any(ord(sign) in _signs_of(path) for path in _paths_of(chosen))


@functools.cache
def _paths_of(chosen: tuple[str, ...]) -> list[str]:
    from matplotlib.font_manager import FontProperties, fontManager

    paths = []
    for name in chosen:
        try:
            paths.append(str(fontManager.findfont(FontProperties(family=[name]), fallback_to_default=False)))
        except ValueError:  # a family that is not installed, which matplotlib leaves out too
            continue
    return paths


@functools.cache
def _signs_of(path: str) -> frozenset[int]:
    from matplotlib.ft2font import FT2Font

    try:
        font = FT2Font(path)
        return frozenset(font.get_charmap()) if font.scalable else frozenset()
    except (RuntimeError, OSError, ValueError):  # fonts of coloured pictures
        return frozenset()


@functools.cache
def _font_with(sign: str) -> str | None:
    """Return the family of an installed font that has a character."""
    from matplotlib.font_manager import fontManager

    plain = (
        font
        for font in fontManager.ttflist
        if font.style == "normal" and font.weight in (400, "normal", "regular") and "Resort" not in font.name
    )
    return next((font.name for font in plain if ord(sign) in _signs_of(str(font.fname))), None)


def visual(text: str) -> str:
    """Return a line in the order in which it is seen from left to right, Arabic letters joined.

    The rules of Unicode's bidirectional algorithm for a line without explicit directions.
    """
    if not any(unicodedata.bidirectional(sign) in ("R", "AL") for sign in text):
        return text
    clusters: list[str] = []  # a letter and the marks on it
    for sign in _joined(text):
        if clusters and unicodedata.bidirectional(sign) == "NSM":
            clusters[-1] += sign
        else:
            clusters.append(sign)
    levels = _levels([unicodedata.bidirectional(cluster[0]) for cluster in clusters])
    for level in range(max(levels), 0, -1):
        for begin, end in _runs([at >= level for at in levels]):
            clusters[begin:end] = clusters[begin:end][::-1]
            levels[begin:end] = levels[begin:end][::-1]
    return "".join(
        _MIRROR.get(cluster, cluster) if level % 2 else cluster
        for cluster, level in zip(clusters, levels, strict=True)
    )


_MIRROR = dict(zip("()[]{}<>«»", ")(][}{><»«", strict=True))


def _levels(kinds: list[str]) -> list[int]:
    """Return the embedding level of each character: odd ones run from right to left."""
    strong = ["R" if kind in ("R", "AL") else kind if kind == "L" else "" for kind in kinds]
    base = next(kind for kind in strong if kind)
    before = base
    for place, kind in enumerate(kinds):
        if kind in ("EN", "AN"):
            strong[place] = "L" if kind == "EN" and before == "L" else "number"
        elif strong[place]:
            before = strong[place]
    # Neutral ones take the level of both sides, or of the line.
    for begin, end in _runs([not kind for kind in strong]):
        sides = {
            "R" if kind == "number" else kind
            for kind in (strong[begin - 1] if begin else base, strong[end] if end < len(strong) else base)
        }
        strong[begin:end] = [sides.pop() if len(sides) == 1 else base] * (end - begin)
    even = 2 if base == "R" else 0
    return [{"R": 1, "L": even, "number": 2}[kind] for kind in strong]


def _runs(which: list[bool]) -> Iterator[tuple[int, int]]:
    """Return begin and end of each run of True."""
    begin = None
    for place, one in enumerate([*which, False]):
        if one and begin is None:
            begin = place
        elif not one and begin is not None:
            yield begin, place
            begin = None


@functools.cache
def _forms() -> dict[str, dict[str, str]]:
    """Return the isolated, initial, medial and final form of Arabic letters, as Unicode has them."""
    forms: dict[str, dict[str, str]] = {}
    for number in range(0xFE80, 0xFEF5):
        kind, letter = unicodedata.decomposition(chr(number)).split()[:2]
        forms.setdefault(chr(int(letter, 16)), {})[kind.strip("<>")] = chr(number)
    return forms


def _joined(text: str) -> str:
    """Write Arabic letters in the forms that they have beside their neighbours."""
    forms, letters = _forms(), [i for i, s in enumerate(text) if unicodedata.bidirectional(s) != "NSM"]
    result = list(text)
    for at, place in enumerate(letters):
        own = forms.get(text[place], {})
        before = forms.get(text[letters[at - 1]], {}) if at else {}
        after = forms.get(text[letters[at + 1]], {}) if at + 1 < len(letters) else {}
        left, right = "initial" in before and "final" in own, "initial" in own and "final" in after
        kind = "medial" if left and right else "final" if left else "initial" if right else "isolated"
        result[place] = own.get(kind, text[place])
    return "".join(result)
