"""What ``torch.save`` writes: a pickle that holds the memory of several Tensors once."""

from __future__ import annotations

import io
import itertools
import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np

from .. import _core
from ._tensor import Core, Tensor, _core_shape, viewed, wrap_array

# Where the numbers of a Tensor begin and end in memory; first what their dtype is.
_Place = tuple[Any, int, int]


def _place(t: Tensor) -> _Place | None:
    """None: no other Tensor shares its memory in a file.

    It has no numbers, repeats some or has them in reversed order, or cannot be stored.
    """
    numbers = Core.numpy(t)
    begin, end = np.lib.array_utils.byte_bounds(numbers)
    shared = t.is_leaf and 0 < numbers.nbytes <= end - begin and min(numbers.strides, default=0) >= 0
    return (t.dtype, begin, end) if shared else None


class _Pickler(pickle.Pickler):
    def reducer_override(self, obj: Any) -> Any:
        plain = isinstance(obj, Tensor) and type(obj).__reduce_ex__ is Tensor.__reduce_ex__
        return self.reduced(obj) if plain else NotImplemented

    def reduced(self, t: Tensor) -> Any:
        raise NotImplementedError


class _Nowhere(io.RawIOBase):
    def write(self, data: Any) -> int:
        return len(data)


class _Search(_Pickler):
    """Finds the Tensors of an object."""

    def __init__(self) -> None:
        super().__init__(_Nowhere(), 4)
        self.found: list[Tensor] = []  # which live until all is written: no other Tensor gets their memory

    def reduced(self, t: Tensor) -> Any:
        self.found.append(t)
        return str, ()


class _Writer(_Pickler):
    def __init__(self, file: io.BytesIO, protocol: int, memories: dict[_Place, tuple[Tensor, int]]) -> None:
        super().__init__(file, protocol)
        self._memories = memories

    def reduced(self, t: Tensor) -> Any:
        place = _place(t)
        if place is None or place not in self._memories:
            return NotImplemented
        memory, first = self._memories[place]
        offset = (place[1] - first) // Core.numpy(t).itemsize
        return viewed, (type(t), memory, offset, tuple(_core_shape(t)), _core.strides(t), t.requires_grad)


def _groups(tensors: list[Tensor]) -> Iterator[list[tuple[_Place, Tensor]]]:
    """Those that overlap, the first in memory first."""
    found = [(place, t) for t in tensors if (place := _place(t)) is not None]
    found.sort(key=lambda one: (one[0][0].name, *one[0][1:]))
    for _, alike in itertools.groupby(found, lambda one: one[0][0]):
        group: list[tuple[_Place, Tensor]] = []
        end = 0
        for place, t in alike:
            if group and place[1] >= end:
                yield group
                group = []
            group.append((place, t))
            end = max(end, place[2])
        yield group


def _memories(tensors: list[Tensor]) -> dict[_Place, tuple[Tensor, int]]:
    """Copies of what Tensors that overlap span together, each with its address, by the places of these Tensors."""
    result = {}
    for group in _groups(tensors):
        (kind, first, _), t = group[0]
        last = max(place[2] for place, _ in group)
        if len(group) > 1:
            numbers = Core.numpy(t)
            size, step = (last - first) // numbers.itemsize, numbers.itemsize
            memory = wrap_array(np.lib.stride_tricks.as_strided(numbers, (size,), (step,)), kind)
            result.update({place: (memory, first) for place, _ in group})
    return result


def write(obj: Any, protocol: int) -> bytes:
    """Return the content of a file that `load` reads.

    Tensors that overlap in memory do so after they are read: what they span together is stored once. Any other
    Tensor is stored as its numbers alone.
    """
    search = _Search()
    search.dump(obj)
    file = io.BytesIO()
    _Writer(file, protocol, _memories(search.found)).dump(obj)
    return file.getvalue()
