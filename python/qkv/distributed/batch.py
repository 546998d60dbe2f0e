"""A rank's part of a batch."""

from __future__ import annotations

import dataclasses
import itertools
import zlib
from collections.abc import Collection
from typing import Any

import numpy as np

from .._words.errors import shown

SAMPLE = 20  # a digest is of so many bytes at most, as a power of two


def share(items: int, rank: int, ranks: int) -> tuple[int, int]:
    """Return the first item of a rank's part and the one after its last; parts differ by one item at most.

    With fewer items than ranks, ranks without one get the last item, which is then to count for nothing.
    """
    each, more = divmod(items, ranks)
    begin = rank * each + min(rank, more)
    end = begin + each + (rank < more)
    return (begin, end) if begin < end else (items - 1, items)


def _is_array(value: Any) -> bool:
    return hasattr(value, "shape") and hasattr(value, "__getitem__")


def _is_row_list(value: Any) -> bool:
    """Say whether a list holds one entry for each item, such as texts or numbers, and not arrays."""
    return isinstance(value, list) and not any(_is_array(part) or isinstance(part, tuple) for part in value)


def count_items(batch: Any) -> int | None:
    """Return the length of the first axis of the first array, or of the first list of entries, in a batch."""
    if _is_array(batch):
        return int(batch.shape[0]) if len(batch.shape) else None
    if _is_row_list(batch):
        return len(batch)
    for part in _parts(batch):
        found = count_items(part)
        if found is not None:
            return found
    return None


def _parts(batch: Any) -> list[Any]:
    if isinstance(batch, dict):
        return list(batch.values())
    if isinstance(batch, (tuple, list)):
        return list(batch)
    if dataclasses.is_dataclass(batch) and not isinstance(batch, type):
        return [getattr(batch, field.name) for field in dataclasses.fields(batch)]
    return []


def described(batch: Any) -> Any:
    """Return what tells apart two batches: shapes, and a digest of their numbers or of a million bytes among them."""
    if _is_array(batch):
        array = np.asarray(batch.detach() if hasattr(batch, "detach") else batch)
        numbers = np.ravel(array if array.dtype != object else np.array([repr(array.tolist())]))
        some = np.ascontiguousarray(numbers[:: 1 + (numbers.nbytes >> SAMPLE)])
        return array.shape, str(array.dtype), zlib.crc32(some.data.cast("B") if some.size else b"")
    if _is_row_list(batch) or isinstance(batch, (str, bytes, int, float, np.generic)):
        return type(batch).__name__, zlib.crc32(repr(batch).encode())
    return type(batch).__name__, [described(part) for part in _parts(batch)]


def items_of(batch: Any) -> int:
    """Return the number of items of a batch.

    Raises
    ------
    TypeError
        If there is nothing in it that has items.
    """
    found = count_items(batch)
    if not found:
        raise TypeError(
            "Trainer.fit: a batch must be an array, or a tuple, list, dict or dataclass of arrays, with at least one "
            f"item on their first axis, because each rank takes its part of the items; got {shown(batch)} "
            "(split= says how to share others)"
        )
    return found


def _leaves(batch: Any) -> list[Any]:
    """Return what `take` may cut, in its order."""
    if _is_array(batch) or _is_row_list(batch):
        return [batch]
    return [leaf for part in _parts(batch) for leaf in _leaves(part)]


def constants(first: Any, last: Any) -> set[int]:
    """Return the numbers of those arrays of two batches that have no entry per item, however long they are.

    They are the same object in both batches, or have another number of entries than one of them has items.
    """
    pairs = list(zip(_leaves(first), _leaves(last), strict=False))
    if not pairs or pairs[0][0] is pairs[0][1]:  # one batch
        return set()
    items = [items_of(batch) for batch in (first, last)]
    lengths = [[count_items(leaf) for leaf in pair] for pair in pairs]
    return {i for i, (a, b) in enumerate(pairs) if a is b or lengths[i] != items}


def take(
    batch: Any, begin: int, end: int, items: int, whole: Collection[int] = (), places: Any = None
) -> Any:
    """Return the items ``begin .. end - 1`` of a batch in its own form.

    Arrays without an item per row stay whole, and so do the arrays with the numbers `whole`; `places` counts them.
    """
    places = itertools.count() if places is None else places
    if _is_array(batch) or _is_row_list(batch):
        return batch[begin:end] if next(places) not in whole and count_items(batch) == items else batch
    if isinstance(batch, dict):
        return type(batch)(
            {name: take(part, begin, end, items, whole, places) for name, part in batch.items()}
        )
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(take(part, begin, end, items, whole, places) for part in batch))
    if isinstance(batch, (tuple, list)):
        return type(batch)(take(part, begin, end, items, whole, places) for part in batch)
    if dataclasses.is_dataclass(batch) and not isinstance(batch, type):
        parts = {
            f.name: take(getattr(batch, f.name), begin, end, items, whole, places)
            for f in dataclasses.fields(batch)
        }
        return dataclasses.replace(batch, **parts)
    if isinstance(batch, (str, bytes, int, float, np.generic)) or batch is None:
        return batch
    raise TypeError(
        f"Trainer.fit: a batch must hold arrays, lists and numbers because each rank takes its part of the items; got "
        f"{shown(batch)} in it (split= says how to share others)"
    )
