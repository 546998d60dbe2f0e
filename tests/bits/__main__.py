"""Writes the hashes of all computations, or those of a process held to a level: ``python -m bits`` in the folder tests.

A change of a hash is a change of results for users: it needs a line in CHANGELOG.md.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import qkv

from . import attention, models, numbers
from .record import Hashes

FILE = Path(__file__).with_name("hashes.txt")


def computed() -> Hashes:
    """Hash all computations, in one order, since each takes its inputs from one stream of numbers."""
    h = Hashes()
    for part in (
        *(numbers.functions, numbers.reductions, numbers.softmaxes, numbers.normalisers, numbers.products),
        *(attention.shapes, attention.options, attention.formulas, attention.relatives),
        *(numbers.training, models.layers, models.trainings),
    ):
        part(h)
    return h


def stored() -> dict[str, str]:
    """Read the hashes that every level must give."""
    lines = FILE.read_text(encoding="utf-8").splitlines()
    return dict(reversed(line.split("  ", 1)) for line in lines if not line.startswith("#"))


def main() -> None:
    """Write them to the file, or print them."""
    parser = argparse.ArgumentParser(prog="bits", description="Hash what public functions compute.")
    parser.add_argument(
        "--print", action="store_true", help="print them, and leave the file and the mode as they are"
    )
    given = parser.parse_args()
    if not given.print:
        qkv.set_reproducible(True)
    text = "".join(f"{digest}  {name}\n" for name, digest in computed().items())
    if given.print:
        print(text, end="")
    else:
        about = "# Written by `python -m bits` in the folder tests. A change needs a line in CHANGELOG.md.\n"
        FILE.write_text(about + text, encoding="utf-8")


if __name__ == "__main__":
    main()
