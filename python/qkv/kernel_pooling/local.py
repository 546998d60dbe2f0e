"""Local averages and local lines from the weights of each query, a few queries at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .functions import Kernel

NUMBERS = 1 << 22  # that a block of queries may hold
TINY = 1e-250  # variances that have few digits left, as squares of weights have
SINGULAR = 1e-10  # share of the largest variance below which points lie on a plane


def power_above(numbers: NDArray[np.float64]) -> int:
    """The power of two that the largest size is below."""
    return int(np.frexp(np.abs(numbers).max(initial=0.0))[1])


def product(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    """Return ``a @ b``, not by NumPy's BLAS, whose sums depend on the CPU."""
    return np.asarray(_core.matmul(a, b))


def local_fit(
    weights: NDArray[Any], queries: NDArray[Any], keys: NDArray[Any], values: NDArray[Any], degree: int
) -> NDArray[Any]:
    """Return the weighted mean, or the value of the weighted least-squares plane, at each query.

    weights (Lq, L) with sums of 1 or 0, queries (Lq, D), keys (L, D), values (L, Dv); gives (Lq, Dv). Where the keys
    in reach do not fix the plane, it is the least steep one.
    """
    if degree == 0:
        return product(weights, values)
    # From the key of the largest weight on: to it and its equals all distances are 0, to the last bit.
    nearest = weights.argmax(1)
    away, rise = keys - keys[nearest, None], values - values[nearest, None]  # (Lq, L, D), (Lq, L, Dv)
    centres, means = product(weights[:, None], away), product(weights[:, None], rise)
    away, rise = away - centres, rise - means
    weighed = (weights[..., None] * away).swapaxes(1, 2)
    spread, slopes = product(weighed, away), product(weighed, rise)
    size = np.abs(spread).max((1, 2), keepdims=True)
    known = size > TINY  # else one place has all the weight
    spread, slopes = (np.divide(x, size, out=np.zeros_like(x), where=known) for x in (spread, slopes))
    slopes = product(np.linalg.pinv(spread, rcond=SINGULAR, hermitian=True), slopes)
    steps = (queries - keys[nearest])[:, None] - centres
    return np.asarray(values[nearest] + (means + product(steps, slopes))[:, 0])


def in_blocks(
    weights_of: Callable[[NDArray[Any]], NDArray[Any]], queries: NDArray[Any], size: int
) -> Iterator[tuple[slice, NDArray[Any]]]:
    """Return the weights (some of Lq, L) of some queries at a time; `size` numbers are needed for each."""
    step = max(NUMBERS // size, 1)
    for begin in range(0, len(queries), step):
        rows = slice(begin, begin + step)
        yield rows, weights_of(queries[rows])


def left_out_error(
    table: NDArray[Any], values: NDArray[Any], s: NDArray[np.float64] | None, kernel: Kernel, degree: int
) -> float:
    """Return the mean squared error of the predictions of each point from all others, of points in bandwidths."""
    table, values = table.astype(np.float64), values.astype(np.float64)
    u = np.array(_core.scaled_distances(table, table, 1.0, None))
    if callable(kernel):
        rows = np.array(kernel(u), np.float64)
    elif kernel == "gaussian":  # relative to the nearest other point, as in the core
        np.fill_diagonal(u, np.inf)
        nearest = np.where(np.isinf(u.min(1)), 0, u.min(1))
        rows = np.array(_core.exp((nearest[:, None] ** 2 - u**2) / 2))
    else:
        rows = np.array(_core.kernel_values(u, kernel))
    np.fill_diagonal(rows, 0.0)
    rows = rows if s is None else rows * s
    total = rows.sum(1, keepdims=True)
    rows = np.divide(rows, total, out=np.zeros_like(rows), where=total != 0)
    predicted = np.empty_like(values)
    for part in np.array_split(np.arange(len(rows)), 1 + rows.size * sum(table.shape[1:]) // NUMBERS):
        predicted[part] = local_fit(rows[part], table[part], table, values, degree)
    predicted = np.where(total != 0, predicted, np.average(values, axis=0, weights=s))
    return float(np.average(((values - predicted) ** 2).mean(1), weights=s))
