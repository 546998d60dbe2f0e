"""Gradients summed over all ranks, some megabytes at a time, while the backward pass computes the others."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .trace import span

SIZE = 4 << 20  # bytes; a sum of so many takes long enough to hide what starting it costs


def _narrowed(numbers: NDArray[Any]) -> NDArray[np.uint16]:
    """Round to bfloat16, the upper half of a float32."""
    bits = np.ascontiguousarray(numbers, np.float32).view(np.uint32)
    rounded = (bits + (0x7FFF + ((bits >> 16) & 1))) >> 16
    return np.where((bits & 0x7FFFFFFF) > 0x7F800000, 0x7FC0, rounded).astype(np.uint16)  # NaN stays NaN


def _widened(halves: NDArray[np.uint16]) -> NDArray[np.float32]:
    return (halves.astype(np.uint32) << 16).view(np.float32)


class Bucket:
    """Gradients of some parameters side by side, and after them, for each parameter, how many ranks have one."""

    def __init__(self, parameters: Sequence[Any], places: Sequence[int], narrow: bool) -> None:
        self.narrow = narrow
        self.places = list(places)
        self.parameters = [parameters[place] for place in self.places]
        ends = np.cumsum([0, *(math.prod(parameter.shape) for parameter in self.parameters)])
        self.spans = [slice(int(a), int(b)) for a, b in itertools.pairwise(ends)]
        self.numbers: NDArray[Any] = np.zeros(int(ends[-1]) + len(self.places), self.parameters[0].dtype)
        self.flags = self.numbers[int(ends[-1]) :]
        self.request: Any = None
        self._came: NDArray[np.uint16]
        self.missing: set[int] = set()

    def clear(self) -> None:
        self.missing = set(range(len(self.places)))
        self.request = None

    def put(self, i: int) -> None:
        """Take the gradient of parameter number i of this bucket, which is finished, or zeros."""
        gradient = self.parameters[i].grad
        self.numbers[self.spans[i]] = 0 if gradient is None else np.asarray(gradient).reshape(-1)
        self.flags[i] = gradient is not None
        self.missing.discard(i)

    def start(self, comm: Any) -> None:
        for i in sorted(self.missing):
            self.put(i)
        if not self.narrow:
            self.request = comm.add(self.numbers)
            return
        # Each rank adds a stretch of all ranks' numbers, in float32, and gives its sums to all.
        each = -(-self.numbers.size // comm.size)
        sent = np.zeros((comm.size, each), np.uint16)
        sent.reshape(-1)[: self.numbers.size] = _narrowed(self.numbers)
        self._came = np.empty_like(sent)
        self.request = comm.comm.Ialltoall(sent, self._came)

    def finish(self, comm: Any, divisor: float) -> None:
        """Wait for the sums and write them, divided, where the gradients were."""
        comm.wait(self.request)
        if self.narrow:
            sums = _narrowed(_widened(self._came).sum(axis=0))
            comm.wait(comm.comm.Iallgather(sums, self._came))
            self.numbers[:] = _widened(self._came.reshape(-1)[: self.numbers.size])
        for i, parameter in enumerate(self.parameters):
            if not self.flags[i]:
                continue  # no rank has one
            numbers = self.numbers[self.spans[i]].reshape(parameter.shape)
            if parameter.grad is None:
                parameter.grad = np.zeros(parameter.shape, self.numbers.dtype)
            np.divide(numbers, self.numbers.dtype.type(divisor), out=np.asarray(parameter.grad))


class Buckets:
    """All gradients of a training. Every rank starts the same sums in the same order, in any order of computing."""

    def __init__(self, comm: Any, parameters: Sequence[Any], size: int = SIZE, narrow: bool = False) -> None:
        self._narrow = narrow
        self.comm, self.parameters, self.size = comm, list(parameters), size
        self._numbers = {id(parameter): i for i, parameter in enumerate(self.parameters)}
        self._order: list[int] | None = []  # in which the first pass finishes them; None once it is used
        self._fill(range(len(self.parameters) - 1, -1, -1))

    def _fill(self, order: Sequence[int]) -> None:
        """Put the parameters into buckets, in the order in which their gradients are finished."""
        self._buckets: list[Bucket] = []
        self._of: dict[int, tuple[int, int]] = {}
        kinds: dict[Any, list[list[int]]] = {}
        groups: list[list[int]] = []
        for number in order:
            parameter = self.parameters[number]
            open_groups = kinds.setdefault(parameter.dtype, [])
            bytes_each = parameter.dtype.itemsize
            if (
                not open_groups
                or sum(math.prod(self.parameters[i].shape) for i in open_groups[-1]) * bytes_each >= self.size
            ):
                open_groups.append([])
                groups.append(open_groups[-1])
            open_groups[-1].append(number)
        for group in groups:
            for i, number in enumerate(group):
                self._of[number] = (len(self._buckets), i)
            self._buckets.append(Bucket(self.parameters, group, self._narrow))

    def begin(self) -> None:
        """Prepare for a backward pass."""
        self._next = 0
        for bucket in self._buckets:
            bucket.clear()

    def finished(self, leaf: Any) -> None:
        """Take a gradient that is finished, and start the sums of the buckets that are full."""
        number = self._numbers.get(id(leaf))
        if number is None:
            return
        if self._order is not None:
            self._order.append(number)
        where, i = self._of[number]
        self._buckets[where].put(i)
        with span("reduce"):
            while self._next < len(self._buckets) and not self._buckets[self._next].missing:
                self._buckets[self._next].start(self.comm)
                self._next += 1
            for bucket in self._buckets[: self._next]:
                bucket.request.Test()  # most libraries continue a sum only when they are called

    def end(self, divisor: float) -> None:
        """Wait until every parameter has the sum over all ranks, divided."""
        with span("wait"):
            for bucket in self._buckets[self._next :]:
                bucket.start(self.comm)
            for bucket in self._buckets:
                bucket.finish(self.comm, divisor)
        if self._order is not None:
            order = list(dict.fromkeys([*self.comm.bcast(self._order), *range(len(self.parameters))]))
            self._order = None
            self._fill(order)
