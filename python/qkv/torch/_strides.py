"""Strides of PyTorch, in numbers, by arithmetic on shapes."""

from __future__ import annotations

from collections.abc import Sequence


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides of a row-major array."""
    result, step = [], 1
    for size in reversed(shape):
        result.append(step)
        step *= max(size, 1)
    return tuple(reversed(result))


def strides_under(
    shape: tuple[int, ...], strides: tuple[int, ...], wanted: tuple[int, ...]
) -> tuple[int, ...] | None:
    """Strides of the same memory under another shape of as many numbers, None where PyTorch has to copy.

    From the last axis to the first: neighbouring axes that one stride runs through make a run, and each run must be
    cut by whole axes of the new shape.
    """
    if 0 in shape or not shape:
        return contiguous_strides(wanted)
    found = [0] * len(wanted)
    axis = len(wanted) - 1
    run, step = 1, strides[-1]  # numbers of the run so far and the stride of its last axis
    for i in range(len(shape) - 1, -1, -1):
        run *= shape[i]
        if i > 0 and (shape[i - 1] == 1 or strides[i - 1] == run * step):
            continue
        covered = 1
        while axis >= 0 and (covered < run or wanted[axis] == 1):
            found[axis] = covered * step
            covered *= wanted[axis]
            axis -= 1
        if covered != run:
            return None
        if i > 0:
            run, step = 1, strides[i - 1]
    return tuple(found)
