"""What the runner's kernels add to each figure: a larger picture for the page, and words that say what is seen."""

import base64
import io
import itertools
import sys
import weakref
from typing import Any

import numpy as np

MIME = "application/vnd.qkv.figure+json"
DPI = 200
_counter = itertools.count(1)
_numbers: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
_shown: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()  # what was seen on it
_COUNTS = "no one two three four five six seven eight nine ten eleven twelve"


def register() -> None:
    """Let each figure that this kernel shows carry its larger picture and its description."""
    from IPython import get_ipython
    from IPython.core.formatters import JSONFormatter, catch_format_error

    base: Any = JSONFormatter

    class Enlarged(base):  # type: ignore[misc]
        """Not a printer registered for figures: matplotlib removes those when it sets its own."""

        @catch_format_error  # type: ignore[untyped-decorator]
        def __call__(self, shown: Any) -> dict[str, str] | None:
            module = sys.modules.get("matplotlib.figure")
            return enlarged(shown) if module and isinstance(shown, module.Figure) else None

    formatter: Any = Enlarged()
    formatter.format_type = MIME
    get_ipython().display_formatter.formatters[MIME] = formatter


def enlarged(figure: Any) -> dict[str, str]:
    """Return the figure as PNG of the page's resolution, in base64, and its description."""
    png = io.BytesIO()
    figure.savefig(png, format="png", dpi=DPI, bbox_inches="tight")
    picture = base64.b64encode(png.getvalue()).decode()
    _shown[figure] = describe(figure)
    return {"png": picture, "caption": _shown[figure], "number": str(number_of(figure))}


def changed(figure: Any) -> bool:
    """Say whether this kernel has shown the figure and something was drawn on it later, which nobody sees."""
    return figure in _shown and _shown[figure] != describe(figure)


def number_of(figure: Any) -> int:
    """Number the figures of this process, so that a check names the one that it compared."""
    return _numbers.setdefault(figure, next(_counter))


def describe(figure: Any) -> str:
    """Say what a figure shows: its own label, or kinds of panels, titles, axes, legends and colour scales."""
    if figure.get_label():
        return str(figure.get_label())
    panels = [ax for ax in figure.axes if ax.get_label() != "<colorbar>" and ax.get_visible()]
    # Axes that share a place are one panel.
    places = {ax.get_position().bounds: ax for ax in reversed(panels)}
    kinds = [kind for kind in map(_kind, reversed(places.values())) if kind]
    parts = [_counted(kinds)] if kinds else []
    above = getattr(figure, "get_suptitle", str)()  # matplotlib 3.8 and newer
    titles = _unique([above, *(ax.get_title() for ax in panels)])
    across = _unique(ax.get_xlabel() for ax in panels)
    down = _unique(ax.get_ylabel() for ax in panels)
    if not titles and not down and len(across) == len(panels) > 1:  # the label below a panel is its name
        titles, across = across, []
    if titles:
        parts[-1:] = [f"{parts[-1] if parts else 'panels'}: {', '.join(titles)}"]
    if across:
        parts.append(f"horizontally {', '.join(across)}")
    if down:
        parts.append(f"vertically {', '.join(down)}")
    legends = [ax.get_legend() for ax in panels] + list(figure.legends)
    names = _unique(text.get_text() for legend in legends if legend for text in legend.get_texts())
    if names:
        parts.append(f"legend {', '.join(names)}")
    parts += _colours(figure, panels)
    sentence = "; ".join(parts)
    return sentence[:1].upper() + sentence[1:]


def _colours(figure: Any, panels: list[Any]) -> list[str]:
    """Say what the colours of heatmaps mean: their one scale, or that of each."""
    scales = [image.get_clim() for ax in panels for image in _maps(ax) if np.ndim(image.get_array()) < 3]
    if not scales or (None, None) in scales:
        return []
    told = [f"from {low if abs(low) > high / 1e4 else 0:.3g} to {high:.3g}" for low, high in scales]
    if len(set(told)) == 1:
        return [f"colours {told[0]}"]
    bars = sum(ax.get_label() == "<colorbar>" for ax in figure.axes)
    bar = ["the one colour bar is that of the last"] if bars == 1 else []
    return [
        f"colours of each to a scale of its own: {', '.join(told)}"
        if len(told) < 7
        else "colours to several scales",
        *bar,
    ]


def _kind(ax: Any) -> str:
    if _maps(ax):
        return "heatmap"
    if any(type(container).__name__ == "BarContainer" for container in ax.containers):
        return "bar chart"
    if not ax.axison or (ax.patches and not ax.get_lines()):
        return "diagram" if ax.patches or ax.texts else ""
    lines = [line for line in ax.get_lines() if line.get_visible()]
    if any(line.get_linestyle() not in ("None", "", " ") for line in lines):
        return "line plot"
    if lines or any(type(points).__name__ == "PathCollection" for points in ax.collections):
        return "scatter plot"
    return ""


def _maps(ax: Any) -> list[Any]:
    return [*ax.get_images(), *(mesh for mesh in ax.collections if type(mesh).__name__ == "QuadMesh")]


def _counted(kinds: list[str]) -> str:
    words, names = [], _COUNTS.split()
    for kind in dict.fromkeys(kinds):
        count = kinds.count(kind)
        number = names[count] if count < len(names) else str(count)
        words.append(f"{number} {kind}{'s' if count > 1 else ''}")
    return " and ".join(words)


def _unique(texts: Any) -> list[str]:
    return list(dict.fromkeys(" ".join(text.split()) for text in texts if text and text.strip()))
