"""Drawing a figure's panels again from their description, and comparing what is seen on both."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..plot.figures.drawing import ODD
from . import arrays

CELLS = 16  # on each side of a panel: what is compared is the mean colour of a cell
MOST = 20  # panels; more are compared by their arrays alone
ACCEPTED = 0.04  # largest difference of such a mean, of 1 for black and white


def expected_image(panel: dict[str, Any], nan_as: float | None) -> np.ndarray:
    """Return the matrix of an image panel."""
    matrix = np.atleast_2d(arrays.value(panel["image"])).astype(np.float64)
    if nan_as is not None:
        matrix = np.nan_to_num(matrix, nan=nan_as)
    return matrix.reshape(panel["reshape"]) if "reshape" in panel else matrix


def _redrawn(panel: dict[str, Any]) -> bool:
    """Say whether a description tells all that is seen: a matrix, or lines with their formats."""
    if panel.keys() & {"bars", "connections", "arrows", "texts"}:
        return False
    return "image" in panel or all(line.get("fmt", "-") for line in panel.get("lines", [{"fmt": None}]))


def redraw(
    figure: Any, axes: Sequence[Any], spec: dict[str, Any], nan_as: float | None
) -> tuple[Any, list[Any]]:
    """Draw a description's panels on a figure of their own, each at the place that it has on `figure`."""
    from matplotlib.figure import Figure

    model = Figure(figsize=figure.get_size_inches(), dpi=figure.dpi, facecolor=figure.get_facecolor())
    panels: list[Any] = []
    for ax, panel in zip(axes, spec["panels"], strict=True):
        shared = panels[0] if spec.get("sharey") and panels else None
        place = ax.get_position()
        new = model.add_axes(place, sharey=shared)
        if _redrawn(panel):
            (_draw_image if "image" in panel else _draw_lines)(new, panel, nan_as)
        # Where both have the same shape, exactly the same place: what an aspect leaves of it is rounded.
        new.apply_aspect()
        moved = np.abs(new.get_position().get_points() - place.get_points()) * model.bbox.size
        if moved.max() < 1:
            new.set_aspect("auto")
            new.set_position(place)
        panels.append(new)
    return model, panels


def _draw_image(ax: Any, panel: dict[str, Any], nan_as: float | None) -> None:
    ax.imshow(
        expected_image(panel, nan_as),
        cmap=panel.get("cmap", "Reds"),
        vmin=panel.get("vmin"),
        vmax=panel.get("vmax"),
        aspect=panel.get("aspect", "equal"),
    )
    for name in ("x", "y"):
        if panel.get(f"{name}ticks"):
            getattr(ax, f"set_{name}ticks")(range(len(panel[f"{name}ticks"])), panel[f"{name}ticks"])


def _draw_lines(ax: Any, panel: dict[str, Any], nan_as: float | None) -> None:
    for line in panel["lines"]:
        y = arrays.value(line["y"])
        x = arrays.value(line["x"]) if "x" in line else np.arange(len(y))
        ax.plot(
            x,
            y if nan_as is None else np.nan_to_num(y, nan=nan_as),
            line.get("fmt", "-"),
            alpha=line.get("alpha"),
        )
    ax.set(xscale=panel.get("xscale", "linear"), yscale=panel.get("yscale", "linear"))


def compare_rendered(
    figure: Any, axes: Sequence[Any], spec: dict[str, Any], nan_as: float | None
) -> Iterator[str]:
    """Name the panels whose limits, or whose rendered colours at a coarse scale, are not those of the description.

    Legends, titles and axes are left out there: their size and place are free.
    """
    if len(axes) > MOST or not any(map(_redrawn, spec["panels"])):
        return
    pixels = rendered(figure)
    model, panels = redraw(figure, axes, spec, nan_as)
    expected = rendered(model)
    for number, (ax, new, panel) in enumerate(zip(axes, panels, spec["panels"], strict=True), 1):
        if not _redrawn(panel):
            continue
        where = f"panel {number}: " if len(panels) > 1 else ""
        for name in ("x", "y"):
            got, wanted = (np.array(getattr(each, f"get_{name}lim")()) for each in (ax, new))
            if np.abs(got - wanted).max() > 1e-6 * np.ptp(wanted):
                ends = "instead of".join(f" from {low:.6g} to {high:.6g} " for low, high in (got, wanted))
                yield f"{where}the {name} axis goes{ends}".rstrip()
        difference = np.abs(cells(pixels, ax) - cells(expected, new)).max(axis=-1)
        if difference.max() > ACCEPTED:
            row, column = (int(i) for i in np.unravel_index(difference.argmax(), difference.shape))
            yield (
                f"{where}what is seen differs in {int((difference > ACCEPTED).sum())} of {CELLS * CELLS} parts, "
                f"by up to {difference.max():.2f}, in row {row + 1} and column {column + 1} of {CELLS}"
            )


def rendered(figure: Any) -> np.ndarray:
    """Return the figure's pixels (rows, columns, 3), 0 to 1, without what may cover a panel: legends, titles, axes.

    Nor are there the colours of numbers that are not finite, which a redrawn matrix leaves white.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    around = [
        artist
        for ax in figure.axes
        for artist in (ax.get_legend(), ax.title, ax.xaxis, ax.yaxis)
        if artist is not None and artist.get_visible()
    ]
    around += [image for ax in figure.axes for image in ax.get_images() if image.get_gid() == ODD]
    canvas = figure.canvas
    try:
        for artist in around:
            artist.set_visible(False)
        agg: Any = FigureCanvasAgg(figure)
        agg.draw()
        return np.asarray(agg.buffer_rgba())[..., :3] / 255.0
    finally:
        figure.set_canvas(canvas)
        for artist in around:
            artist.set_visible(True)


def cells(pixels: np.ndarray, ax: Any) -> np.ndarray:
    """Return the mean colours of the parts of an axes' inside, (CELLS, CELLS, 3)."""
    box = ax.get_window_extent()
    height = pixels.shape[0]
    rows = np.linspace(height - box.y1, height - box.y0, CELLS + 1).round().astype(int)
    columns = np.linspace(box.x0, box.x1, CELLS + 1).round().astype(int)
    sums = np.zeros((pixels.shape[0] + 1, pixels.shape[1] + 1, 3))
    sums[1:, 1:] = pixels.cumsum(axis=0).cumsum(axis=1)
    rows, columns = rows.clip(0, pixels.shape[0]), columns.clip(0, pixels.shape[1])
    corners = sums[rows[:, None], columns[None]]
    areas = np.diff(rows)[:, None] * np.diff(columns)[None]
    total = corners[1:, 1:] - corners[:-1, 1:] - corners[1:, :-1] + corners[:-1, :-1]
    means: np.ndarray = total / np.maximum(areas, 1)[..., None]
    return means
