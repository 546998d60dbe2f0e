"""Bandwidths that are found in the data: rules of thumb, and the least leave-one-out error."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .functions import Kernel
from .local import left_out_error, product

RULES = ("loo", "scott", "silverman")
SWEEPS = 4  # over all features


def by_rule(rule: str, table: NDArray[Any], s: NDArray[np.float64] | None) -> NDArray[np.float64]:
    """Return Scott's or Silverman's bandwidths (D,), 1 where a feature is constant."""
    s = np.ones(len(table)) if s is None else s
    share = s / s.sum()
    n = 1 / (share**2).sum()  # the points that count, equal to their number if all weights are equal
    d = table.shape[1]
    away = table.astype(np.float64) - product(share, table)
    deviation = np.sqrt(product(share, away**2) / max(1 - 1 / n, np.finfo(float).tiny))
    factor = n if rule == "scott" else n * (d + 2) / 4
    return np.where(np.ptp(table, 0) > 0, deviation * factor ** (-1 / (d + 4)), 1.0)


class LeaveOneOut:
    """Leave-one-out errors of some points for any bandwidths, and the search for the least."""

    def __init__(
        self,
        table: NDArray[Any],
        values: NDArray[Any],
        s: NDArray[np.float64] | None,
        kernel: Kernel,
        degree: int,
    ) -> None:
        self.table, self.s, self.kernel, self.degree = table, s, kernel, degree
        self.values = values if values.ndim == 2 else values[:, None]

    def errors(self, h: Any, factors: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the error of each of the bandwidths ``factor * h``; infinity where there is none."""
        table = (self.table / h).astype(self.table.dtype)
        if callable(self.kernel) or self.degree:
            found = [
                left_out_error(table / f, self.values, self.s, self.kernel, self.degree)
                for f in factors.tolist()
            ]
        else:
            even = None if self.s is None else self.s / self.s.mean()
            found = _core.leave_one_out_errors(table, self.values, self.kernel, factors.tolist(), even)
        return np.asarray(np.nan_to_num(np.array(found), nan=np.inf))

    def along(self, h: Any, grid: NDArray[np.float64]) -> tuple[float, float]:
        """Return the best factor of a grid, which is refined twice around it, and its error."""
        for steps in (11, 11, 0):
            found = self.errors(h, grid)
            best = int(np.argmin(found))
            if steps:
                grid = np.geomspace(grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)], steps)
        return float(grid[best]), float(found[best])

    def search(self) -> tuple[float | NDArray[np.float64], float]:
        """Return the bandwidth, one for each feature where there are several, and its error."""
        grid, scales = np.geomspace(1e-3, 10, 41), self.table.astype(np.float64).std(0)
        spread = float(np.sqrt((scales**2).sum())) or 1.0
        if len(scales) == 1:
            return self.along(1.0, spread * grid)
        scales = np.where(np.ptp(self.table, 0) > 0, scales, 1.0)
        starts = [(np.ones_like(scales), spread * grid), (scales, np.sqrt(len(scales)) * grid)]
        found = [(self.along(h, steps), h) for h, steps in starts]
        (factor, error), base = min(found, key=lambda entry: entry[0][1])
        h = factor * base
        for _ in range(SWEEPS):
            before = error
            for feature in range(len(scales)):
                for factor in (16, 1 / 16, 4, 1 / 4, 2, 1 / 2, 2**0.5, 0.5**0.5):
                    h, error = self._better(h * np.where(np.arange(len(h)) == feature, factor, 1.0), h, error)
            factor, _ = self.along(h, np.geomspace(0.1, 10, 21))
            h, error = self._better(factor * h, h, error)
            if error >= before * (1 - 1e-3):
                break
        return h, error

    def _better(self, new: Any, h: Any, error: float) -> tuple[Any, float]:
        found = float(self.errors(new, np.ones(1))[0])
        return (new, found) if found < error else (h, error)
