"""Comparison of arrays: shape, kind of number, then values, with the worst error in words."""

from typing import Any, NamedTuple

import numpy as np

from .arrays import Tolerance

FIELDS = ("id", "what", "how", "expected", "got", "state")  # of a check's record, beside its place


def record(*values: str, **more: Any) -> dict[str, Any]:
    """Return a check's record, of the values of its fields."""
    return dict(zip(FIELDS, values, strict=True)) | more


class Comparison(NamedTuple):
    """Whether two things agree, and both sides in words."""

    ok: bool
    expected: str
    got: str


_KINDS = {
    "f": "real numbers",
    "i": "integers",
    "u": "integers",
    "b": "booleans",
    "c": "complex numbers",
    "U": "texts",
    "S": "bytes",
    "O": "objects",
}


def describe(array: np.ndarray) -> str:
    """Say the values of a small array and the shape of a large one."""
    if array.ndim == 0:
        return repr(array.item())
    if array.size <= 8:
        text = np.array2string(array, separator=", ", precision=4, max_line_width=10**6)
        return " ".join(text.split())
    return f"{array.dtype} {array.shape}"


def compare_form(got: np.ndarray, expected: np.ndarray) -> Comparison | None:
    """Return the disagreement in shape or kind of number; None if there is none."""
    if got.shape != expected.shape:
        return Comparison(False, f"shape {expected.shape}", f"shape {got.shape}")
    kinds = [_KINDS.get(a.dtype.kind, a.dtype.name) for a in (expected, got)]
    if kinds[0] != kinds[1]:
        return Comparison(False, f"{kinds[0]} ({expected.dtype})", f"{kinds[1]} ({got.dtype})")
    if kinds[0] == "objects":
        return Comparison(False, "an array of numbers", "an array of objects")
    if not expected.size:
        return Comparison(False, "something to compare", f"nothing, shape {got.shape}")
    return None


def compare_close(
    got: object, expected: object, tolerance: Tolerance, *, equal_nan: bool = False
) -> Comparison:
    """Compare within a tolerance.

    NaN agrees with NaN only if `equal_nan`; infinities agree with the same infinity only.
    """
    got, expected = np.asarray(got), np.asarray(expected)
    form = compare_form(got, expected)
    if form:
        return form
    if expected.dtype.kind not in "fc":
        return compare_equal(got, expected)
    wide = np.complex128 if expected.dtype.kind == "c" else np.float64
    g, e = got.astype(wide), expected.astype(wide)
    goal = f"{describe(expected)} within {tolerance.rtol:g} relative, {tolerance.atol:g} absolute"
    finite = np.isfinite(e)
    same_special = (g == e) | (np.isnan(g) & np.isnan(e) & equal_nan)
    wrong_special = ~finite & ~same_special | (finite & ~np.isfinite(g))
    if wrong_special.any():
        where = tuple(int(i) for i in np.argwhere(wrong_special)[0])
        count = int(wrong_special.sum())
        return Comparison(
            False, f"{goal}; {e[where]} at {list(where)}", f"{g[where]} there; {count} such entries"
        )
    error = np.zeros(e.shape)
    error[finite] = np.abs(g[finite] - e[finite])
    bound = tolerance.atol + tolerance.rtol * np.abs(np.where(finite, e, 0))
    bad = error > bound
    if bad.any():
        where = tuple(int(i) for i in np.argwhere(bad)[np.argmax((error - bound)[bad])])
        text = f"{g[where]:.9g}" if wide is np.float64 else str(g[where])
        return Comparison(
            False,
            f"{goal}; {e[where]:.9g} at {list(where)}",
            f"{text} there, error {error[where]:.2g}; {int(bad.sum())} of {bad.size} entries are off",
        )
    worst = float(error.max(initial=0.0))
    return Comparison(
        True, goal, f"{describe(got)}, worst error {worst:.2g}" if worst else f"{describe(got)}, no error"
    )


def compare_equal(got: object, expected: object, *, equal_nan: bool = False) -> Comparison:
    """Compare exactly: same kind of thing, same shape, same values."""
    if _is_plain(expected) or _is_plain(got):
        return _compare_plain(got, expected)
    got, expected = np.asarray(got), np.asarray(expected)
    form = compare_form(got, expected)
    if form:
        return form
    same = got == expected
    if equal_nan and expected.dtype.kind in "fc":
        same |= np.isnan(got) & np.isnan(expected)
    if same.all():
        return Comparison(
            True, describe(expected), f"{describe(got)}, equal" if got.size > 8 else describe(got)
        )
    if not expected.ndim:
        return Comparison(False, describe(expected), describe(got))
    where = tuple(int(i) for i in np.argwhere(~same)[0])
    return Comparison(
        False,
        f"{describe(expected)}; {expected[where]!s} at {list(where)}",
        f"{got[where]!s} there; {int((~same).sum())} of {same.size} entries differ",
    )


def _is_plain(value: object) -> bool:
    """Texts, None and nested containers that hold such are compared as Python objects."""
    if isinstance(value, list | tuple):
        return any(_is_plain(item) for item in value)
    return value is None or isinstance(value, str | bytes | dict | set | type)


def _compare_plain(got: object, expected: object) -> Comparison:
    sequences = (list, tuple)
    if _is_empty(expected) and _is_empty(got):
        return Comparison(False, "something to compare", f"nothing, {got!r}")
    alike = type(got) is type(expected) or (isinstance(got, sequences) and isinstance(expected, sequences))
    same = got == expected
    if isinstance(got, sequences) and isinstance(expected, sequences):
        same = list(got) == list(expected)
    return Comparison(alike and bool(same), _short(expected), _short(got))


def _is_empty(value: object) -> bool:
    return isinstance(value, list | tuple | str | bytes | dict | set) and not value


def _short(value: object) -> str:
    return shortened(" ".join(value.split()) if isinstance(value, str) else repr(value))


def shortened(text: str, most: int = 200) -> str:
    """Return a text, or its beginning if it is long."""
    return text if len(text) <= most else text[: most - 3] + "..."
