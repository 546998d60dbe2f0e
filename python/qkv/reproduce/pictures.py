"""Reading a matplotlib figure back: what it shows, compared with its description and the golden arrays."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from . import arrays
from .compare import Comparison, compare_close


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
    if problems:
        rest = f" and {len(problems) - 3} more" if len(problems) > 3 else ""
        return Comparison(False, goal, "; ".join(problems[:3]) + rest)
    return Comparison(True, goal, "panels, labels, legends, colours and plotted arrays agree")


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
        shrink = getattr(bar, "_colorbar_info", {}).get("shrink", spec["colorbar"])
        yield from _differ("colour bar's shrink", shrink, spec["colorbar"])


def _row(ax: Any) -> int:
    place = ax.get_subplotspec()
    return place.get_topmost_subplotspec().rowspan.start if place else 0


def _panel(ax: Any, panel: dict[str, Any], nan_as: float | None) -> Iterator[str]:
    for name in ("xlabel", "ylabel", "title"):
        yield from _differ(name, getattr(ax, f"get_{name}")(), panel.get(name, ""))
    for name in ("xscale", "yscale"):
        yield from _differ(name, getattr(ax, f"get_{name}")(), panel.get(name, "linear"))
    for axis in (ax.xaxis, ax.yaxis):
        names = panel.get(f"{axis.axis_name}ticks")
        if names:
            yield from _differ(
                f"{axis.axis_name} tick labels", [text.get_text() for text in axis.get_ticklabels()], names
            )
            yield from _differ(
                f"{axis.axis_name} tick places",
                [float(x) for x in axis.get_ticklocs()],
                [float(i) for i in range(len(names))],
            )
    legend = ax.get_legend()
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
    expected = np.atleast_2d(arrays.load(panel["image"]))
    if "reshape" in panel:
        expected = expected.reshape(panel["reshape"])
    yield from _array("image", np.ma.getdata(image.get_array()), expected, panel["image"], nan_as)
    yield from _differ("colour map", image.get_cmap().name, panel.get("cmap", "Reds"))
    low, high = image.get_clim()
    yield from _differ("colour scale's start", low, panel.get("vmin", low))
    yield from _differ("colour scale's end", high, panel.get("vmax", high))
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
