"""Runs a program that imports torch, with qkv.torch in its place or with PyTorch, and compares what is printed."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

FOLDER = Path(__file__).parent
PROGRAMS = sorted((FOLDER / "programs").glob("*.py"))
VERSION = "2.13"  # of PyTorch, whose text is recorded

_NUMBER = re.compile(r"-?\d+\.\d*(?:e[+-]\d+)?|-?\d+e[+-]\d+")


def translated(source: str) -> str:
    """Change the import lines, and nothing else."""
    source = re.sub(r"^(\s*)import torch$", r"\1import qkv.torch as torch", source, flags=re.M)
    source = re.sub(r"^(\s*)import torch\.", r"\1import qkv.torch.", source, flags=re.M)
    source = re.sub(r"^(\s*)from torch\b", r"\1from qkv.torch", source, flags=re.M)
    return re.sub(r"^(\s*)import utils$", r"\1from qkv.torch import d2l as utils", source, flags=re.M)


def printed(source: str, name: str = "program") -> str:
    """Return what a program prints."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(source, name, "exec"), {"__name__": "__main__"})
    return output.getvalue()


def recorded(program: Path) -> Path:
    """Return the file with PyTorch's text."""
    return FOLDER / "expected" / f"{program.stem}.txt"


def _unit(number: str) -> float:
    """One and a half units of the last digit that is shown; rounding may fall to either side."""
    digits, _, exponent = number.partition("e")
    decimals = len(digits.partition(".")[2])
    return max(1.5 * 10.0 ** (int(exponent or 0) - decimals), 1e-9 * abs(float(number)))


def _shape(number: re.Match[str]) -> str:
    """A number without its digits, but with their count after the point."""
    digits, e, _ = number[0].partition("e")
    return "#." + "0" * len(digits.partition(".")[2]) + e


def differences(text: str, expected: str) -> list[str]:
    """Return the lines that differ in more than the last digit of a number."""
    found = []
    lines, wanted = text.splitlines(), expected.splitlines()
    for line, other in zip(lines, wanted, strict=False):
        same = _NUMBER.sub(_shape, line) == _NUMBER.sub(_shape, other)
        pairs = zip(_NUMBER.findall(line), _NUMBER.findall(other), strict=False)
        if not same or any(abs(float(a) - float(b)) > _unit(b) for a, b in pairs):
            found.append(f"{line!r} instead of {other!r}")
    if len(lines) != len(wanted):
        found.append(f"{len(lines)} lines instead of {len(wanted)}")
    return found
