"""Comparison of printed numbers: the same digits, in the same brackets, as the document shows."""

import re

import numpy as np

from .compare import Comparison, shortened

_TOKEN = re.compile(r"[\[\]]|[^\s,\[\]()]+")
_ATTRIBUTE = re.compile(r",?\s*(dtype|grad_fn|requires_grad|device)\s*=\s*(<[^>]*>|[\w.]+)")
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?")


def tokens(text: str) -> list[str]:
    """Split printed text into brackets, numbers and words; names of types around them are dropped."""
    text = _ATTRIBUTE.sub("", text)
    return [token for token in _TOKEN.findall(text) if token not in ("tensor", "array", "torch.Size")]


def like(array: np.ndarray, pattern: str) -> str:
    """Print an array with the digits of `pattern`, a number as the document prints it, such as 1.2345e-06."""
    digits = re.search(r"\.(\d*)", pattern)
    places = len(digits[1]) if digits else 0

    def number(value: np.ndarray) -> str:
        if array.dtype.kind == "b":
            return str(bool(value))
        if array.dtype.kind in "iu":
            return str(int(value))
        if not np.isfinite(value):
            return str(float(value))
        if "e" in pattern:
            return f"{value:.{places}e}"
        if not places:
            return f"{value:.0f}." if digits and float(value).is_integer() else f"{value:.4f}"
        return f"{value:.{places}f}"

    def nested(part: np.ndarray) -> str:
        return number(part) if part.ndim == 0 else "[" + ", ".join(nested(p) for p in part) + "]"

    return nested(array)


def as_text(got: object, expected: str) -> str:
    """Return `got` itself if it is text, and numbers printed with the digits of `expected`."""
    if isinstance(got, str):
        return got
    pattern = next((token for token in tokens(expected) if _NUMBER.fullmatch(token)), "0.0000")
    return like(np.asarray(got), pattern)


def compare_printed(got: object, expected: str, *, cut: bool = False, last: bool = False) -> Comparison:
    """Compare printed digits with `expected`; `got` is text, or an array which is printed in the same manner.

    `cut` says that the document's text stops early, so that only its own length is compared. `last` allows a number
    to differ by one unit of its last digit and what float32 rounds off a product and a sum as large as the largest
    number of the text: sums in another order, as other processors make them, differ by that.
    """
    wanted = tokens(expected)
    text = as_text(got, expected)
    found = tokens(text)
    if cut:
        found = found[: len(wanted)]
    count = sum(token not in "[]" for token in wanted)
    if found == wanted and wanted:
        return Comparison(
            True, _short(expected), f"the same {count} printed values" if count > 1 else _short(text)
        )
    if last and len(found) == len(wanted) > 0:
        largest = max((abs(float(token)) for token in wanted if _NUMBER.fullmatch(token)), default=0.0)
        pairs = [(a, b) for a, b in zip(found, wanted, strict=True) if a != b]
        if all(_near(a, b, largest) for a, b in pairs):
            return Comparison(
                True, _short(expected), f"the same {count} printed values but {len(pairs)} last digits"
            )
    place = next(
        (i for i, (a, b) in enumerate(zip(found, wanted, strict=False)) if a != b),
        min(len(found), len(wanted)),
    )
    here = [" ".join(side[place : place + 4]) or "(end)" for side in (wanted, found)]
    return Comparison(False, f"{_short(expected)}; '{here[0]}' at item {place}", f"'{here[1]}' there")


def _near(got: str, expected: str, largest: float) -> bool:
    """Whether two printed numbers, in one notation, differ by no more than rounding."""
    if not (_NUMBER.fullmatch(got) and _NUMBER.fullmatch(expected)):
        return False
    digits, _, exponent = expected.partition("e")
    unit = 10.0 ** (int(exponent or 0) - len(digits.partition(".")[2]))
    same_notation = len(got.partition("e")[0].partition(".")[2]) == len(digits.partition(".")[2])
    return same_notation and abs(float(got) - float(expected)) <= 1.5 * unit + 2.0**-22 * largest


def _short(text: str) -> str:
    return shortened(" ".join(text.split()), 120)
