"""Compare every operation that NumPy has too, at sizes from 1 to 10^7: ``python benchmarks/sweep.py [--only PATTERN]``.

Prints the calls that are slower than NumPy's on the same numbers, with one thread each, and ends with status 1 if there
are any; ``--all`` prints every call. Both sides are timed in turns in one process, and the least time of each counts.
What seems slower is measured once more, with more turns, before it is reported. A Tensor is contiguous, so what gives a
view in NumPy (a transpose, a slice) is compared with the copy of that view.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

import machine
import numpy as np
from sweep_cases import Call, calls

SIZES = [1, 10, 1_000, 100_000, 10_000_000]
BATCH = 2e-4  # seconds that a side runs at a time at least


@dataclass
class Result:
    call: Call
    size: int
    dtype: str
    ours: float  # seconds, the least of all turns
    theirs: float

    @property
    def ratio(self) -> float:
        return self.theirs / self.ours

    def __str__(self) -> str:
        where = f"{self.call.name:44s} {self.size:>9d} {self.dtype}"
        return f"{where}  {_time(self.ours)} {_time(self.theirs)}  {self.ratio:7.2f}"


def _time(seconds: float) -> str:
    return f"{1e6 * seconds:10.2f} us"


def compare(call: Call, seconds: float) -> tuple[float, float]:
    """Return the least time of each side, from turns that take so many seconds together."""
    sides = (call.ours, call.theirs)
    counts = []
    for side in sides:
        side()
        start = time.perf_counter()
        side()
        counts.append(max(1, min(2_000, round(BATCH / max(time.perf_counter() - start, 1e-9)))))
    least = [np.inf, np.inf]
    end, turns = time.perf_counter() + seconds, 0
    while turns < 3 or time.perf_counter() < end:
        for i, side in enumerate(sides):
            repeats = range(counts[i])
            start = time.perf_counter()
            for _ in repeats:
                side()
            least[i] = min(least[i], (time.perf_counter() - start) / counts[i])
        turns += 1
    return least[0], least[1]


def sweep(
    pattern: str, sizes: list[int], dtypes: list[str], seconds: float, limit: float
) -> Iterator[Result]:
    """Measure the calls whose names match; those below the limit again, for four times as long."""
    chosen = re.compile(pattern, re.IGNORECASE)
    for size in sizes:
        for dtype in dtypes:
            for call in calls(size, np.dtype(dtype), lambda name: chosen.search(name) is not None):
                result = Result(call, size, dtype, *compare(call, seconds))
                if result.ratio < limit:
                    again = compare(call, 4 * seconds)
                    result = Result(
                        call, size, dtype, min(result.ours, again[0]), min(result.theirs, again[1])
                    )
                yield result


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python benchmarks/sweep.py", description=__doc__)
    parser.add_argument("--only", metavar="PATTERN", default="", help="calls whose names match")
    parser.add_argument("--sizes", type=int, nargs="+", metavar="N", default=SIZES)
    parser.add_argument("--dtypes", nargs="+", default=["float32", "float64"])
    parser.add_argument("--threads", type=int, default=1, help="of qkv; NumPy gets as many for its products")
    parser.add_argument("--seconds", type=float, default=0.05, help="of the turns of a call")
    parser.add_argument("--below", type=float, default=1.0, metavar="RATIO", help="what is reported")
    parser.add_argument("--all", action="store_true", help="print every call")
    options = parser.parse_args(arguments)
    machine.set_threads(options.threads)
    print(f"{'call':44s} {'numbers':>9s} {'dtype':7s} {'qkv':>13s} {'NumPy':>13s}  times as fast")
    measured = below = 0
    for result in sweep(options.only, options.sizes, options.dtypes, options.seconds, options.below):
        measured += 1
        below += result.ratio < options.below
        if options.all or result.ratio < options.below:
            print(result, flush=True)
    print(f"{below} of {measured} below {options.below:g} times NumPy's speed")
    return 1 if below else 0


if __name__ == "__main__":
    sys.exit(main())
