"""Both sides of a check in numbers, for a reader: small arrays whole, of large ones the first corner."""

from collections.abc import Callable
from typing import Any

import numpy as np

from .arrays import Tolerance

WHOLE = 24  # entries; arrays with more show a corner
ROWS, COLUMNS = 4, 5
LINES, WIDTH = 12, 100  # of a text


def sides(got: object, expected: object, tolerance: Tolerance | None = None) -> dict[str, Any]:
    """Give what a record keeps of a comparison: both sides as text with their form, and the largest difference.

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
    """Give an array's ``form`` (type and shape), its ``text``, and as ``part`` which part of it that is, if not all."""
    number = number or notation(array)
    result = {"form": f"{array.dtype} {array.shape}" if array.ndim else str(array.dtype)}
    if array.ndim > 1 and array.shape[-1] == 1:
        array = array[..., 0]  # a column is easier to read as a row
    if array.size > WHOLE:
        leading = (0,) * (array.ndim - 2)
        corner = np.atleast_2d(array)[leading] if array.ndim < 3 else array[leading]
        rows, columns = min(ROWS, corner.shape[0]), min(COLUMNS, corner.shape[1])
        result["text"] = grid(corner[:rows, :columns], number, cut=(rows, columns) != corner.shape)
        place = f"[{', '.join(map(str, leading))}], " if leading else ""
        size = f"the first {columns} of {array.size}" if array.ndim == 1 else f"the first {rows} × {columns}"
        result["part"] = place + (size if (rows, columns) != corner.shape else f"all {rows} × {columns}")
    elif array.ndim < 2:
        result["text"] = grid(np.atleast_2d(array), number) if array.size else "(empty)"
    else:
        blocks = array.reshape(-1, *array.shape[-2:]) if array.size else ()
        result["text"] = "\n\n".join(grid(block, number) for block in blocks) or "(empty)"
    return result


def grid(matrix: np.ndarray, number: Callable[[Any], str], *, cut: bool = False) -> str:
    """Print the rows of a matrix in columns, with dots at the ends if it goes on."""
    cells = [[number(value) for value in row] for row in matrix]
    size = max(len(cell) for row in cells for cell in row)
    rows = ["  ".join(cell.rjust(size) for cell in row) + ("  …" if cut else "") for row in cells]
    return "\n".join(rows)


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
    """Give the largest difference between finite entries."""
    g, e = got.astype(np.float64), expected.astype(np.float64)
    both = np.isfinite(g) & np.isfinite(e)
    return float(np.abs(g[both] - e[both]).max(initial=0.0))


def text(value: Any) -> str:
    """Give a text, or several ones, with their lines; long ones are cut."""
    whole = value if isinstance(value, str) else "\n".join(map(str, value))
    lines = [
        line if len(line) <= WIDTH else line[: WIDTH - 1] + "…" for line in whole.strip("\n").split("\n")
    ]
    return "\n".join([*lines[:LINES], "…"] if len(lines) > LINES else lines)


def _texts(value: object) -> bool:
    if isinstance(value, list | tuple):
        return bool(value) and all(isinstance(item, str) for item in value)
    return isinstance(value, str)
