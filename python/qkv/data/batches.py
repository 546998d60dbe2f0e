"""Sequences of unequal length as padded batches, in an order that depends on the seed and the epoch alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Padded(NamedTuple):
    """Sequences under each other: ``ids`` (B, T), filled up behind ``lens`` (B,) entries."""

    ids: NDArray[np.int64]
    lens: NDArray[np.int64]


def pad(sequences: Sequence[Sequence[int]], pad_id: int = 0) -> Padded:
    """Write sequences under each other and fill them up to the length of the longest.

    Parameters
    ----------
    sequences : sequence of B sequences of int
    pad_id : int

    Returns
    -------
    Padded
        ``ids`` (B, T) and ``lens`` (B,), which is what layers take as ``valid_lens``.

    Examples
    --------
    >>> qkv.data.pad([[5, 6, 7], [8]])
    Padded(ids=array([[5, 6, 7],
           [8, 0, 0]]), lens=array([3, 1]))
    """
    lens = np.array([len(s) for s in sequences], np.int64)
    ids = np.full((len(sequences), int(lens.max(initial=0))), pad_id, np.int64)
    for row, sequence in zip(ids, sequences, strict=True):
        row[: len(sequence)] = sequence
    return Padded(ids, lens)


class Batches:
    """The batches of each epoch: ``batches(epoch)`` is a sequence, the same for the same seed and epoch.

    A place in the data is therefore two numbers, epoch and batch, which is all that a checkpoint stores of it.

    Parameters
    ----------
    *columns : ndarray (N, ...) or list of N sequences of int
        A list becomes :class:`Padded` in each batch, an array gives its rows.
    batch_size : int
    seed : int
    pad_id : int
        Fills up shorter sequences.
    shuffle : bool
        False keeps the order of the data in every epoch.
    by_length : bool
        Batches of sequences that are about equally long in the first column, which leaves less to pad: items are sorted
        within shuffled groups of 32 batches, and the batches shuffled again. Only with ``shuffle``.
    drop_last : bool
        Leave out the items that do not fill a batch.
    transform : callable, optional
        ``transform(batch, random)`` changes each batch, with a NumPy generator that belongs to it, such as for masking
        words.

    Raises
    ------
    ValueError
        If columns differ in length, or ``batch_size`` is below 1.

    Examples
    --------
    >>> batches = qkv.data.Batches([[1], [2, 2], [3, 3, 3]], np.array([10, 20, 30]), batch_size=2, seed=1)
    >>> [(texts.ids.tolist(), labels.tolist()) for texts, labels in batches(epoch=0)]
    [([[1, 0], [2, 2]], [10, 20]), ([[3, 3, 3]], [30])]
    """

    def __init__(
        self,
        *columns: Any,
        batch_size: int,
        seed: int = 0,
        pad_id: int = 0,
        shuffle: bool = True,
        by_length: bool = True,
        drop_last: bool = False,
        transform: Callable[[tuple[Any, ...], np.random.Generator], Any] | None = None,
    ) -> None:
        sizes = [len(column) for column in columns]
        if not columns or len(set(sizes)) != 1:
            raise ValueError(
                f"Batches: columns must be of equal length because rows belong together; got {sizes}"
            )
        if batch_size < 1:
            raise ValueError(f"Batches: batch_size must be at least 1; got {batch_size}")
        self.columns, self.batch_size, self.seed, self.pad_id = columns, batch_size, seed, pad_id
        self.shuffle, self.by_length, self.drop_last, self.transform = (
            shuffle,
            by_length,
            drop_last,
            transform,
        )

    def __len__(self) -> int:
        """Give the number of batches in an epoch."""
        n = len(self.columns[0])
        return n // self.batch_size if self.drop_last else -(-n // self.batch_size)

    def __call__(self, epoch: int) -> Epoch:
        """Give the batches of one epoch; each is made when it is asked for."""
        return Epoch(self, epoch, self._order(epoch))

    def __iter__(self) -> Iterator[Any]:
        """Run over the batches of epoch 0."""
        return iter(self(0))

    def _order(self, epoch: int) -> list[NDArray[np.int64]]:
        n, size = len(self.columns[0]), self.batch_size
        if not self.shuffle:
            order = np.arange(n)
            return [order[i * size : (i + 1) * size] for i in range(len(self))]
        random = np.random.default_rng([self.seed, epoch])
        order = random.permutation(n)
        if self.by_length and not isinstance(self.columns[0], np.ndarray):
            lens = np.array([len(s) for s in self.columns[0]])
            group = 32 * size
            for i in range(0, n, group):
                part = order[i : i + group]
                order[i : i + group] = part[np.argsort(lens[part], kind="stable")]
        cut = [order[i * size : (i + 1) * size] for i in range(len(self))]
        return [cut[i] for i in random.permutation(len(cut))]


class Epoch(Sequence[Any]):
    """The batches of one epoch, each made when it is asked for."""

    def __init__(self, batches: Batches, number: int, order: list[NDArray[np.int64]]) -> None:
        self._batches, self._number, self._order = batches, number, order

    def __len__(self) -> int:
        return len(self._order)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        owner, place = self._batches, range(len(self))[index]
        rows = self._order[place]
        batch = tuple(
            column[rows] if isinstance(column, np.ndarray) else pad([column[i] for i in rows], owner.pad_id)
            for column in owner.columns
        )
        if owner.transform is None:
            return batch
        return owner.transform(batch, np.random.default_rng([owner.seed, self._number, place]))
