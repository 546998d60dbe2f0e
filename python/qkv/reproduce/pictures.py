"""Reading a matplotlib figure back: what it shows, compared with its description and the golden arrays."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from . import arrays
from .compare import Comparison, compare_close
from .redrawing import compare_rendered, expected_image


def compare_figure(figure: Any, spec: dict[str, Any], *, nan_as: float | None = None) -> Comparison:
    """Compare a figure with an entry of ``figures.json``; the differences are named, at most three."""
    bars = [ax for ax in figure.axes if ax.get_label() == "<colorbar>"]
    axes = [ax for ax in figure.axes if ax.get_label() != "<colorbar>"]
    panels = spec["panels"]
    goal = f"{len(panels)} panel{'s' if len(panels) > 1 else ''} as described, drawn from the golden arrays"
    problems = list(_whole(figure, axes, bars, spec))
    if len(axes) == len(panels):
        for number, (ax, panel) in enumerate(zip(axes, panels, strict=True), 1):
            where = f"panel {number}: " if len(panels) > 1 else ""
            problems += [where + problem for problem in _panel(ax, panel, nan_as)]
        if not problems:
            problems += compare_rendered(figure, axes, spec, nan_as)
    if problems:
        rest = f" and {len(problems) - 3} more" if len(problems) > 3 else ""
        return Comparison(False, goal, "; ".join(problems[:3]) + rest)
    return Comparison(
        True, goal, "panels, axes, labels, legends, colours, plotted arrays and what is seen agree"
    )


def _differ(what: str, got: Any, expected: Any) -> Iterator[str]:
    if got != expected:
        yield f"{what} is {got!r} instead of {expected!r}"


def _whole(figure: Any, axes: list[Any], bars: list[Any], spec: dict[str, Any]) -> Iterator[str]:
    yield from _differ(
        "size in inches",
        [round(float(x), 4) for x in figure.get_size_inches()],
        [round(float(x), 4) for x in spec["figsize"]],
    )
    yield from _differ("number of panels", len(axes), len(spec["panels"]))
    rows = {_row(ax) for ax in axes}
    yield from _differ("number of rows", len(rows), spec.get("rows", 1))
    if spec.get("sharey") and any(not axes[0].get_shared_y_axes().joined(axes[0], ax) for ax in axes[1:]):
        yield "the panels do not share their y axis"
    yield from _differ("number of colour bars", len(bars), 1 if spec.get("colorbar") else 0)
    for bar in bars if spec.get("colorbar") else ():
        mappable = getattr(getattr(bar, "_colorbar", None), "mappable", None)
        if mappable is None or mappable not in [image for ax in axes for image in ax.get_images()]:
            yield "the colour bar does not belong to a panel's image"
        if mappable is not None:
            ends = mappable.get_clim()
            yield from _close("colour bar's ends", sorted(bar.get_ylim()), sorted(ends), ends[1] - ends[0])
        if not bar.get_visible() or not any(text.get_text() for text in bar.get_yticklabels()):
            yield "the colour bar is not seen with its numbers"
        shrink = getattr(bar, "_colorbar_info", {}).get("shrink", spec["colorbar"])
        yield from _differ("colour bar's shrink", shrink, spec["colorbar"])


def _close(what: str, got: Any, expected: Any, size: float) -> Iterator[str]:
    """Compare places on a scale of some size, which rounding may have moved."""
    if not np.allclose(got, expected, rtol=0, atol=1e-6 * abs(size)):
        yield f"{what} is {got!s} instead of {expected!s}"


def _hidden(artist: Any) -> bool:
    """Say whether an artist is switched off, or so pale that it cannot be seen."""
    alpha = artist.get_alpha()
    return not artist.get_visible() or (alpha is not None and np.ndim(alpha) == 0 and alpha < 0.2)


def _named(artist: Any) -> str:
    return repr(artist.get_text()) if hasattr(artist, "get_text") else ""


def _ticks(ax: Any, axis: Any, *, numbered: bool) -> Iterator[str]:
    """Find ticks that are missing or say another number than their place; panels in a row may share an axis."""
    name = axis.axis_name
    labels = [(place, text) for place, text in zip(axis.get_ticklocs(), axis.get_ticklabels(), strict=False)]
    low, high = sorted(axis.get_view_interval())
    inside = [(place, text) for place, text in labels if low <= place <= high]
    shown = [(place, text.get_text()) for place, text in inside if text.get_text() and not _hidden(text)]
    shared = getattr(ax, f"get_shared_{name}_axes")().get_siblings(ax)
    if not shown or not axis.get_visible():
        if len(shared) == 1 or not any(_shows(getattr(other, f"{name}axis")) for other in shared):
            yield f"the {name} axis has no tick labels"
        return
    if not numbered or axis.get_scale() != "linear" or axis.get_offset_text().get_text():
        return
    for place, text in shown:
        try:
            wrong = abs(float(text.replace("\N{MINUS SIGN}", "-")) - place) > 0.01 * (high - low)
        except ValueError:
            wrong = True  # words have to be described
        if wrong:
            yield f"the {name} tick at {place:g} says {text!r}"
            return


def _shows(axis: Any) -> bool:
    return axis.get_visible() and any(text.get_text() and not _hidden(text) for text in axis.get_ticklabels())


def _row(ax: Any) -> int:
    place = ax.get_subplotspec()
    return place.get_topmost_subplotspec().rowspan.start if place else 0


def _panel(ax: Any, panel: dict[str, Any], nan_as: float | None) -> Iterator[str]:
    if not ax.get_visible() or not ax.axison:
        yield "the panel, or its frame, is invisible"
    for name in ("xlabel", "ylabel", "title"):
        yield from _differ(name, getattr(ax, f"get_{name}")(), panel.get(name, ""))
    for name in ("xscale", "yscale"):
        yield from _differ(name, getattr(ax, f"get_{name}")(), panel.get(name, "linear"))
    legend = ax.get_legend()
    texts = [*(legend.get_texts() if legend else ()), ax.title, ax.xaxis.label, ax.yaxis.label]
    shown = [artist for artist in (legend, *texts) if artist is not None]
    yield from (
        f"{type(artist).__name__} {_named(artist)} is invisible" for artist in shown if _hidden(artist)
    )
    for axis in (ax.xaxis, ax.yaxis):
        names = panel.get(f"{axis.axis_name}ticks")
        yield from _ticks(ax, axis, numbered=not names)
        if names:
            yield from _differ(
                f"{axis.axis_name} tick labels", [text.get_text() for text in axis.get_ticklabels()], names
            )
            yield from _differ(
                f"{axis.axis_name} tick places",
                [float(x) for x in axis.get_ticklocs()],
                [float(i) for i in range(len(names))],
            )
    yield from _differ(
        "legend", [text.get_text() for text in legend.get_texts()] if legend else None, panel.get("legend")
    )
    if panel.get("grid") and not any(text.get_visible() for text in ax.get_xgridlines()):
        yield "there is no grid"
    yield from (_image if panel["kind"] == "image" else _lines)(ax, panel, nan_as)


def _image(ax: Any, panel: dict[str, Any], nan_as: float | None) -> Iterator[str]:
    images = ax.get_images()
    yield from _differ("number of images", len(images), 1)
    if len(images) != 1:
        return
    image = images[0]
    expected = expected_image(panel, None)
    if _hidden(image):
        yield "the image is invisible"
    yield from _array("image", np.ma.getdata(image.get_array()), expected, panel["image"], nan_as)
    yield from _differ("colour map", image.get_cmap().name, panel.get("cmap", "Reds"))
    low, high = image.get_clim()
    drawn = np.nan_to_num(expected, nan=np.nanmin(expected) if nan_as is None else nan_as)
    start, end = panel.get("vmin", drawn.min()), panel.get("vmax", drawn.max())
    yield from _close("colour scale's start", low, start, high - low)
    yield from _close("colour scale's end", high, end, high - low)
    aspect = ax.get_aspect()
    yield from _differ("aspect", "equal" if aspect == 1 else aspect, panel.get("aspect", "equal"))
    rows, columns = expected.shape
    yield from _differ(
        "place of the image", [float(x) for x in image.get_extent()], [-0.5, columns - 0.5, rows - 0.5, -0.5]
    )


def _lines(ax: Any, panel: dict[str, Any], nan_as: float | None) -> Iterator[str]:
    lines = list(ax.get_lines())
    yield from _differ("number of lines", len(lines), len(panel["lines"]))
    if len(lines) != len(panel["lines"]):
        return
    for number, (line, spec) in enumerate(zip(lines, panel["lines"], strict=True), 1):
        what = f"line {number}" if len(lines) > 1 else "line"
        y = arrays.load(spec["y"])
        x = arrays.load(spec["x"]) if "x" in spec else np.arange(len(y))
        yield from _array(f"{what} (x)", line.get_xdata(), x, spec.get("x"), nan_as)
        yield from _array(f"{what} (y)", line.get_ydata(), y, spec["y"], nan_as)
        yield from (f"{what}: {problem}" for problem in _style(line, spec))


def _style(line: Any, spec: dict[str, Any]) -> Iterator[str]:
    """Compare with a line drawn in the description's format on a figure of its own."""
    from matplotlib.colors import to_rgba
    from matplotlib.figure import Figure

    if _hidden(line) or line.get_linewidth() < 0.5:
        yield "it is invisible"
    form = spec.get("fmt", "-")
    (model,) = Figure().add_subplot().plot([0], [0], form)
    yield from _differ("line style", line.get_linestyle(), model.get_linestyle())
    yield from _differ("marker", line.get_marker(), model.get_marker())
    if any(letter in "bgrcmykw" for letter in form.replace("o", "")):
        yield from _differ("colour", to_rgba(line.get_color()), to_rgba(model.get_color()))
    yield from _differ("alpha", 1 if line.get_alpha() is None else line.get_alpha(), spec.get("alpha", 1))


def _array(what: str, got: Any, expected: np.ndarray, key: str | None, nan_as: float | None) -> Iterator[str]:
    """Compare shapes and values only, since a mask is drawn as numbers."""
    got = np.asarray(got)
    tolerance = arrays.tolerance(
        got.dtype if got.dtype.kind == "f" else np.dtype("float64"), key.split("[")[0] if key else None
    )
    expected = expected.astype(np.float64)
    if nan_as is not None:
        expected = np.nan_to_num(expected, nan=nan_as)
    result = compare_close(got.astype(np.float64), expected, tolerance, equal_nan=True)
    if not result.ok:
        yield f"{what}: {result.got} (expected {result.expected})"
