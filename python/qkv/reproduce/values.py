"""Both sides of a check in numbers, for a reader: small arrays whole, of large ones the first corner."""

from collections.abc import Callable
from typing import Any

import numpy as np

from .arrays import Tolerance

WHOLE = 24  # entries; arrays with more show a corner
ROWS, COLUMNS = 4, 5
LINE = 48  # characters of a line of numbers, which fits beside another one
LINES, WIDTH = 12, 100  # of a text


def sides(got: object, expected: object, tolerance: Tolerance | None = None) -> dict[str, Any]:
    """Return what a record keeps of a comparison: both sides as text with their form, and the largest difference.

    The result is empty for objects that are neither arrays of numbers nor texts.
    """
    if _texts(got) and _texts(expected):
        return {"values": {"got": {"text": text(got)}, "expected": {"text": text(expected)}}}
    try:
        g, e = np.asarray(got), np.asarray(expected)
    except (ValueError, TypeError):
        return {}
    if any(array.dtype.kind not in "biuf" for array in (g, e)):
        return {}
    number = notation(e)
    result: dict[str, Any] = {"values": {"got": shown(g, number), "expected": shown(e, number)}}
    if g.shape == e.shape and "f" in (g.dtype.kind, e.dtype.kind):
        result["difference"] = {"largest": largest_difference(g, e)}
        if tolerance is not None:
            result["difference"].update(rtol=tolerance.rtol, atol=tolerance.atol)
    return result


def shown(array: np.ndarray, number: Callable[[Any], str] | None = None) -> dict[str, str]:
    """Return an array's ``form`` (type and shape), its ``text``, and its ``part`` if it is not the whole array."""
    number = number or notation(array)
    result = {"form": f"{array.dtype} {array.shape}" if array.ndim else str(array.dtype)}
    if array.ndim > 1 and array.shape[-1] == 1:
        array = array[..., 0]  # a column is easier to read as a row
    if array.size == 0:
        return {**result, "text": "(empty)"}
    if array.ndim < 2:
        cells = [number(value) for value in np.atleast_1d(array)[:WHOLE]]
        length = _columns(cells, len(cells))
        if array.size > WHOLE:
            return {
                **result,
                "text": grid([cells[:length]], cut=True),
                "part": f"the first {length} of {array.size}",
            }
        rows = [cells[start : start + length] for start in range(0, len(cells), length)]
        return {**result, "text": grid(rows)}
    if array.size > WHOLE:
        leading = (0,) * (array.ndim - 2)
        corner = array[leading]
        rows = [[number(value) for value in row[:COLUMNS]] for row in corner[:ROWS]]
        length = _columns([cell for row in rows for cell in row], len(rows[0]))
        rows = [row[:length] for row in rows]
        whole = (len(rows), length) == corner.shape
        place = f"[{', '.join(map(str, leading))}], " if leading else ""
        result["part"] = f"{place}{'all' if whole else 'the first'} {len(rows)} × {length}"
        return {**result, "text": grid(rows, cut=not whole)}
    blocks = array.reshape(-1, *array.shape[-2:])
    texts = [grid([[number(value) for value in row] for row in block]) for block in blocks]
    return {**result, "text": "\n\n".join(texts)}


def grid(rows: list[list[str]], *, cut: bool = False) -> str:
    """Print rows of numbers in columns, with dots at the ends if there are more."""
    size = max(len(cell) for row in rows for cell in row)
    lines = ("  ".join(cell.rjust(size) for cell in row) for row in rows)
    return "\n".join(line + ("  …" if cut else "") for line in lines)


def _columns(cells: list[str], most: int) -> int:
    """Say how many columns of these numbers fit in a line, at least two."""
    size = max(map(len, cells)) + 2
    return max(min(LINE // size, most), min(most, 2))


def notation(array: np.ndarray) -> Callable[[Any], str]:
    """Choose how to print an array's numbers: four decimals if that shows them, else with an exponent."""
    if array.dtype.kind == "b":
        return lambda value: str(bool(value))
    if array.dtype.kind in "iu":
        return lambda value: str(value)
    if array.ndim == 0:
        return lambda value: f"{value:.9g}"
    finite = np.abs(array[np.isfinite(array)].astype(np.float64))
    top = float(finite.max(initial=0.0))
    if top < 1e6 and bool((finite == np.floor(finite)).all()):
        return lambda value: f"{value:.0f}." if float(value).is_integer() else f"{value:.6g}"
    if 1e-2 <= top < 1e5:
        return lambda value: f"{value:.4f}"
    return lambda value: f"{value:.3e}"


def largest_difference(got: np.ndarray, expected: np.ndarray) -> float:
    """Return the largest difference between finite entries."""
    g, e = got.astype(np.float64), expected.astype(np.float64)
    both = np.isfinite(g) & np.isfinite(e)
    return float(np.abs(g[both] - e[both]).max(initial=0.0))


def text(value: Any) -> str:
    """Return a text, or several ones, with their lines; long ones are cut."""
    whole = value if isinstance(value, str) else "\n".join(map(str, value))
    lines = [
        line if len(line) <= WIDTH else line[: WIDTH - 1] + "…" for line in whole.strip("\n").split("\n")
    ]
    return "\n".join([*lines[:LINES], "…"] if len(lines) > LINES else lines)


def _texts(value: object) -> bool:
    if isinstance(value, list | tuple):
        return bool(value) and all(isinstance(item, str) for item in value)
    return isinstance(value, str)
