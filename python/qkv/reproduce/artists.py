"""What axes hold besides images and lines: bars, words, arrows between them, connections as strong as weights."""

from collections.abc import Iterator
from typing import Any

import numpy as np

NEAR = 0.35  # of a diagram's unit: how far from a box an arrow may end


def texts_of(ax: Any) -> list[str]:
    """Return what is written into the axes, in the order of drawing."""
    return [text.get_text() for text in ax.texts if text.get_text() and text.get_visible()]


def bars_of(ax: Any, *, horizontal: bool) -> np.ndarray:
    """Return place, start and size of each bar (bars, 3)."""
    found = []
    for container in ax.containers:
        for bar in container.patches if type(container).__name__ == "BarContainer" else ():
            x, y, width, height = bar.get_x(), bar.get_y(), bar.get_width(), bar.get_height()
            found.append((y + height / 2, x, width) if horizontal else (x + width / 2, y, height))
    return np.array(found)


def connections_of(ax: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Return the strengths (queries, keys) of lines from the left to the right, by how opaque they are."""
    drawn = [lines for lines in ax.collections if type(lines).__name__ == "LineCollection"]
    if not drawn:
        return np.array([])
    strengths = np.zeros(shape)
    for lines in drawn:
        for (start, end), color in zip(lines.get_segments(), lines.get_colors(), strict=True):
            strengths[round(start[1]), round(end[1])] = color[3]
    return strengths


def arrows_of(ax: Any) -> list[tuple[str, str]]:
    """Return the words that each arrow leads from and to, in the order of drawing."""
    arrows, way = [], None
    for artist in ax.get_children():  # the way of an arrow is drawn before its head
        if type(artist).__name__ == "Line2D":
            way = np.stack(artist.get_data(), 1)
        elif getattr(artist, "arrow_patch", None) is not None:
            start, end = np.array(artist.xyann, float), np.array(artist.xy, float)
            bent = way is not None and np.allclose(way[-1], start)
            arrows.append((_word_at(ax, way[0] if bent else start), _word_at(ax, end)))  # type: ignore[index]
            way = None
    return arrows


def _word_at(ax: Any, point: np.ndarray) -> str:
    """Return the words of the smallest box, or the label, beside which a point lies; else where it lies."""
    _, text = min(_words_at(ax, point), default=(0.0, f"({point[0]:g}, {point[1]:g})"))
    return " ".join(text.split())


def _words_at(ax: Any, point: np.ndarray) -> Iterator[tuple[float, str]]:
    labels = [(np.array(text.get_position()), text.get_text()) for text in ax.texts if text.get_text()]
    for box in ax.patches:
        (left, low), (right, high) = (
            box.get_path().transformed(box.get_patch_transform()).get_extents().get_points()
        )
        if left - 0.05 <= point[0] <= right + 0.05 and low - 0.05 <= point[1] <= high + 0.05:
            inside = [text for place, text in labels if left < place[0] < right and low < place[1] < high]
            yield (right - left) * (high - low), inside[0] if len(inside) == 1 else ""
    for place, text in labels:
        if np.abs(place - point).max() <= NEAR:
            yield 1e6, text
