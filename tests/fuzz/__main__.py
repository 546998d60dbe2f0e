"""Runs the fuzzer by hand, as long as wanted, and prints each kind of failure once.

python -m fuzz --minutes 30 --seed 1        (in the folder tests)
"""

from __future__ import annotations

import argparse
import re
import time

from .process import Process
from .statements import RandomChooser, public, statement
from .torch_targets import public_torch


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="fuzz", description="Call the whole public interface with anything."
    )
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="only what has these letters in its name: torch.")
    given = parser.parse_args()
    choose = RandomChooser(given.seed)
    targets = [*public(), *public_torch()]
    chosen = [t for t in targets if given.only in f"{t.receiver}.{t.expression}"]
    kinds: dict[tuple[str, str], str] = {}
    end = time.monotonic() + 60 * given.minutes
    count = 0
    with Process() as process:
        while time.monotonic() < end:
            text = statement(choose, targets, chosen)
            count += 1
            wrong = process.run(text)
            if wrong is None:
                continue
            called = re.split(r"\((?!\()", text)[0]
            kind = (called, re.sub(r"[0-9]+", "0", wrong)[:60])
            if kind not in kinds:
                kinds[kind] = text
                print(f"{text}\n    -> {wrong}\n", flush=True)
    print(f"{count} statements, {len(kinds)} kinds of failures")
    return 1 if kinds else 0


if __name__ == "__main__":
    raise SystemExit(main())
