"""Reading a matplotlib figure back: what it shows, compared with its description and the arrays that it names."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..plot.figures.drawing import ODD
from . import arrays
from .artists import arrows_of, bars_of, connections_of, texts_of
from .compare import Comparison, compare_close
from .redrawing import compare_rendered, expected_image


def compare_figure(figure: Any, spec: dict[str, Any], *, nan_as: float | None = None) -> Comparison:
    """Compare a figure with an entry of ``figures.json``, or with panels; the differences are named, at most three."""
    bars = [ax for ax in figure.axes if ax.get_label() == "<colorbar>"]
    axes = [
        ax
        for ax in figure.axes
        if ax.get_label() != "<colorbar>" and (ax.axison or ax.has_data() or ax.texts)
    ]
    panels = spec["panels"]
    source = "golden" if "id" in spec else "computed"
    goal = f"{len(panels)} panel{'s' if len(panels) > 1 else ''} as described, drawn from the {source} arrays"
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
    yield from _differ("number of panels", len(axes), len(spec["panels"]))
    yield from (problem for bar in bars for problem in _colour_bar(bar, axes))
    if "figsize" not in spec:
        return  # what a notebook says of a figure of its own
    yield from _differ(
        "size in inches",
        [round(float(x), 4) for x in figure.get_size_inches()],
        [round(float(x), 4) for x in spec["figsize"]],
    )
    rows = {_row(ax) for ax in axes}
    yield from _differ("number of rows", len(rows), spec.get("rows", 1))
    if spec.get("sharey") and any(not axes[0].get_shared_y_axes().joined(axes[0], ax) for ax in axes[1:]):
        yield "the panels do not share their y axis"
    yield from _differ("number of colour bars", len(bars), 1 if spec.get("colorbar") else 0)
    for bar in bars if spec.get("colorbar") else ():
        shrink = getattr(bar, "_colorbar_info", {}).get("shrink", spec["colorbar"])
        yield from _differ("colour bar's shrink", shrink, spec["colorbar"])


def _colour_bar(bar: Any, axes: list[Any]) -> Iterator[str]:
    mappable = getattr(getattr(bar, "_colorbar", None), "mappable", None)
    if mappable is None or mappable not in [image for ax in axes for image in ax.get_images()]:
        yield "the colour bar does not belong to a panel's image"
    if mappable is not None:
        ends = mappable.get_clim()
        yield from _close("colour bar's ends", sorted(bar.get_ylim()), sorted(ends), ends[1] - ends[0])
    if not bar.get_visible() or not any(text.get_text() for text in bar.get_yticklabels()):
        yield "the colour bar is not seen with its numbers"


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
    if not shown or not axis.get_visible():
        if not any(_shows(getattr(other, f"{name}axis")) for other in _shared(ax, axis)):
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


def _shared(ax: Any, axis: Any) -> list[Any]:
    """Return the other panels that share an axis with this one."""
    group = getattr(ax, f"get_shared_{axis.axis_name}_axes")().get_siblings(ax)
    return [other for other in group if other is not ax]


def _shows(axis: Any) -> bool:
    return axis.get_visible() and any(text.get_text() and not _hidden(text) for text in axis.get_ticklabels())


def _row(ax: Any) -> int:
    place = ax.get_subplotspec()
    return place.get_topmost_subplotspec().rowspan.start if place else 0


def _panel(ax: Any, panel: dict[str, Any], nan_as: float | None) -> Iterator[str]:
    framed = panel.get("axis", True)
    if not ax.get_visible() or ax.axison != framed:
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
    for axis in (ax.xaxis, ax.yaxis) if framed else ():
        names = panel.get(f"{axis.axis_name}ticks")
        if names is None or len(names):
            yield from _ticks(ax, axis, numbered=not names)
        elif len(axis.get_ticklocs()):
            yield f"the {axis.axis_name} axis has ticks"
        if names and (any(text.get_text() for text in axis.get_ticklabels()) or not _shared(ax, axis)):
            yield from _differ(
                f"{axis.axis_name} tick labels",
                [text.get_text() for text in axis.get_ticklabels()],
                [str(name) for name in names],
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
    if "image" in panel:
        yield from _image(ax, panel, nan_as)
    else:
        yield from _differ("number of images", len(ax.get_images()), 0)
    if "arrows" in panel:
        yield from _differ("what the arrows join", arrows_of(ax), [tuple(ends) for ends in panel["arrows"]])
    else:
        yield from _lines(ax, panel, nan_as)
    yield from _differ("what is written", texts_of(ax), [str(text) for text in panel.get("texts", ())])
    for name, drawn, what in (
        ("bars", bars_of(ax, horizontal=panel.get("horizontal", False)), "bars (place, start, size)"),
        ("connections", connections_of(ax, np.shape(panel.get("connections", ()))), "strengths of the lines"),
    ):
        if name in panel:
            yield from _array(what, drawn, panel[name], None, nan_as)
        elif len(drawn):
            yield f"there are {what}"


def _image(ax: Any, panel: dict[str, Any], nan_as: float | None) -> Iterator[str]:
    images = [image for image in ax.get_images() if image.get_gid() != ODD]
    yield from _differ("number of images", len(images), 1)
    if len(images) != 1:
        return
    image = images[0]
    expected = expected_image(panel, None)
    if _hidden(image):
        yield "the image is invisible"
    if expected.ndim == 3:  # colours, not numbers
        yield from _array("image", image.get_array(), expected, None, nan_as)
        return
    yield from _differ("scale of the colours", type(image.norm).__name__, "Normalize")
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
    lines, described = list(ax.get_lines()), panel.get("lines", ())
    yield from _differ("number of lines", len(lines), len(described))
    if len(lines) != len(described):
        return
    for number, (line, spec) in enumerate(zip(lines, described, strict=True), 1):
        what = f"line {number}" if len(lines) > 1 else "line"
        y = arrays.value(spec["y"])
        x = arrays.value(spec["x"]) if "x" in spec else np.arange(len(y))
        yield from _array(f"{what} (x)", line.get_xdata(), x, spec.get("x"), nan_as)
        yield from _array(f"{what} (y)", line.get_ydata(), y, spec["y"], nan_as)
        yield from (f"{what}: {problem}" for problem in _style(line, spec))
    legend = ax.get_legend()
    handles = legend.legend_handles if legend else ()
    for place, (text, handle) in enumerate(zip(legend.get_texts() if legend else (), handles, strict=False)):
        named = [line for line in lines if line.get_label() == text.get_text()] or lines[place : place + 1]
        if len(handles) <= len(lines) and _look(handle) != _look(named[0]):
            yield f"the legend's {text.get_text()!r} looks like another line"


def _look(line: Any) -> Any:
    from matplotlib.colors import to_rgba

    return to_rgba(line.get_color()), line.get_linestyle(), line.get_marker()


def _style(line: Any, spec: dict[str, Any]) -> Iterator[str]:
    """Compare with a line drawn in the description's format on a figure of its own."""
    from matplotlib.colors import to_rgba
    from matplotlib.figure import Figure

    if _hidden(line) or line.get_linewidth() < 0.5:
        yield "it is invisible"
    form = spec.get("fmt", "-")
    if form is None:
        return
    (model,) = Figure().add_subplot().plot([0], [0], form)
    yield from _differ("line style", line.get_linestyle(), model.get_linestyle())
    yield from _differ("marker", line.get_marker(), model.get_marker())
    if any(letter in "bgrcmykw" for letter in form.replace("o", "")):
        yield from _differ("colour", to_rgba(line.get_color()), to_rgba(model.get_color()))
    yield from _differ("alpha", 1 if line.get_alpha() is None else line.get_alpha(), spec.get("alpha", 1))


def _array(what: str, got: Any, expected: np.ndarray, key: Any, nan_as: float | None) -> Iterator[str]:
    """Compare shapes and values only, since a mask is drawn as numbers."""
    got = np.asarray(got)
    name = key.split("[")[0] if isinstance(key, str) else None
    tolerance = arrays.tolerance(got.dtype if got.dtype.kind == "f" else np.dtype("float64"), name)
    expected = expected.astype(np.float64)
    if nan_as is not None:
        expected = np.nan_to_num(expected, nan=nan_as)
    result = compare_close(got.astype(np.float64), expected, tolerance, equal_nan=True)
    if not result.ok:
        yield f"{what}: {result.got} (expected {result.expected})"
