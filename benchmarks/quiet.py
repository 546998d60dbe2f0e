"""Which turns of a measurement count: those during which the machine ran at its own pace.

Machines are shared. Before and after each turn the product that rates are compared with is timed; a turn counts if both
are within 10 % of the best quarter of all such products of the run. Other turns are repeated, and a row that never gets
a quiet turn is reported as such instead of with a figure.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

TOLERANCE = 1.1
FIRST = 8  # products at the start, so that the first turns have something to be compared with


@dataclass
class Turn:
    """Seconds per call of each side, by the wall clock and of this thread's CPU time."""

    before: float  # seconds of the product, measured right before
    after: float
    wall: dict[str, float] = field(default_factory=dict)
    cpu: dict[str, float] = field(default_factory=dict)

    @property
    def sgemm(self) -> float:
        return (self.before + self.after) / 2


class Pace:
    """The machine's pace with one number of threads: the times of one product over the whole run."""

    def __init__(self, product: Callable[[], Any], settle: Callable[[], None]) -> None:
        self._product, self._settle = product, settle
        self.seconds: list[float] = []

    def probe(self) -> float:
        """Time the product once."""
        self._settle()
        start = time.perf_counter()
        self._product()
        self.seconds.append(time.perf_counter() - start)
        return self.seconds[-1]

    def start(self) -> None:
        """Time the product some times, unless that was done."""
        if not self.seconds:
            self._product()
            for _ in range(FIRST):
                self.probe()

    def best(self) -> float:
        """Return the time that ends the best quarter."""
        if len(self.seconds) < 2:
            return self.seconds[0]
        return statistics.quantiles(self.seconds, n=4, method="inclusive")[0]

    def is_quiet(self, turn: Turn) -> bool:
        return max(turn.before, turn.after) <= TOLERANCE * self.best()
