"""Sequences of unequal length as padded batches, in an order that depends on the seed and the epoch alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._public import explained
from .._words.errors import count_of, integer_of, shown
from .ragged import Ragged, as_array, check_filling, is_array, is_number, numbers


class Padded(NamedTuple):
    """Sequences under each other: ``ids`` (B, T) or (B, T, D), filled up after ``lens`` (B,) entries."""

    ids: NDArray[Any]
    lens: NDArray[np.int64]


@explained
def pad(sequences: Sequence[Any], pad_id: float = 0) -> Padded:
    """Write sequences under each other and fill them up to the length of the longest.

    Parameters
    ----------
    sequences : sequence of B sequences
        Lists, arrays, Tensors or PyTorch tensors of numbers ``(n_i,)`` or of rows ``(n_i, D)``.
    pad_id : int or float
        What fills up sequences of numbers; rows are filled up with zeros.

    Returns
    -------
    Padded
        ``ids`` (B, T) or (B, T, D), and ``lens`` (B,), which is what layers take as ``valid_lens``. Integers and
        booleans become int64. Floats anywhere make all numbers floats: of the arrays' width, or float32 from Python's
        numbers.

    Raises
    ------
    ValueError
        If the shapes do not fit, or `pad_id` has a fraction among integers.
    TypeError
        If something else than real numbers is among the sequences.

    Examples
    --------
    >>> qkv.data.pad([[5, 6, 7], [8]])
    Padded(ids=array([[5, 6, 7],
           [8, 0, 0]]), lens=array([3, 1]))
    >>> qkv.data.pad([[0.5], [1, 2]]).ids
    array([[0.5, 0. ],
           [1. , 2. ]], dtype=float32)
    """
    ragged = Ragged("pad", "sequences", sequences)
    return Padded(*ragged.padded(range(len(ragged)), pad_id))


class Batches:
    """The batches of each epoch: ``batches(epoch)`` is a sequence, the same for the same seed and epoch.

    A place in the data is therefore two numbers, epoch and batch, which is all that a checkpoint stores of it. Each
    ``for batch in batches`` runs over the next epoch: the first over epoch 0. :class:`qkv.training.Trainer` asks for
    epochs by number, and so does what is to be the same in a resumed run: an evaluation that goes over ``batches(0)``.

    Parameters
    ----------
    *columns : array (N, ...), list of N numbers or list of N sequences
        An array, a Tensor or a PyTorch tensor gives its rows, a list of numbers (labels) an array; a list of sequences
        becomes :class:`Padded` in each batch, as in :func:`pad`. Sequences are copied when the batches are made.
    batch_size : int
    seed : int
    pad_id : int or float
        Fills up shorter sequences of numbers; rows ``(n_i, D)`` are filled up with zeros.
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
        If columns differ in length, ``batch_size`` is below 1, or the sequences of a column do not fit each other.
    TypeError
        If a column holds something else than real numbers.

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
        pad_id: float = 0,
        shuffle: bool = True,
        by_length: bool = True,
        drop_last: bool = False,
        transform: Callable[[tuple[Any, ...], np.random.Generator], Any] | None = None,
    ) -> None:
        for i, column in enumerate(columns):
            if not hasattr(column, "__len__") or getattr(column, "shape", None) == ():
                raise TypeError(
                    f"Batches: column {i} must be an array or a list of rows; got {shown(column)}"
                )
        if len(columns) == 1:
            _refuse_pairs(columns[0])
        sizes = [len(column) for column in columns]
        if not columns or len(set(sizes)) != 1:
            raise ValueError(
                f"Batches: columns must be of equal length because rows belong together; got {sizes}"
            )
        count_of("Batches", "batch_size", batch_size, 1)
        count_of("Batches", "seed", seed)
        check_filling("Batches", pad_id)
        if transform is not None and not callable(transform):
            raise TypeError(
                f"Batches: transform must be a function of (batch, random); got {shown(transform)}"
            )
        self.columns = tuple(_column(column, f"column {i}") for i, column in enumerate(columns))
        self.batch_size, self.seed, self.pad_id = batch_size, seed, pad_id
        self.shuffle, self.by_length, self.drop_last, self.transform = (
            shuffle,
            by_length,
            drop_last,
            transform,
        )
        self._begun = 0  # epochs

    def __len__(self) -> int:
        """Return the number of batches in an epoch."""
        n = len(self.columns[0])
        return n // self.batch_size if self.drop_last else -(-n // self.batch_size)

    def __repr__(self) -> str:
        rows = len(self.columns[0])
        return f"Batches({rows} rows of {len(self.columns)} columns, batch_size={self.batch_size}, seed={self.seed})"

    def __call__(self, epoch: int) -> Epoch:
        """Return the batches of one epoch; each is made when it is asked for."""
        epoch = count_of("Batches", "epoch", epoch)
        return Epoch(self, epoch, self._order(epoch))

    def __iter__(self) -> Iterator[Any]:
        """Run over the batches of the next epoch, from epoch 0 on."""
        epoch = self(self._begun)
        self._begun += 1
        return iter(epoch)

    def _order(self, epoch: int) -> list[NDArray[np.int64]]:
        n, size = len(self.columns[0]), self.batch_size
        if not self.shuffle:
            order = np.arange(n)
            return [order[i * size : (i + 1) * size] for i in range(len(self))]
        random = np.random.default_rng([self.seed, epoch])
        order = random.permutation(n)[: len(self) * size]  # cut before it is sorted: any may be left out
        if self.by_length and isinstance(self.columns[0], Ragged):
            lens = self.columns[0].lens
            group = 32 * size
            for i in range(0, len(order), group):
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
        owner, place = self._batches, integer_of("Batches", "index", index)
        if not -len(self) <= place < len(self):
            raise IndexError(f"Batches: index must be from {-len(self)} to {len(self) - 1}; got {place}")
        place %= len(self)
        rows = self._order[place]
        batch = tuple(
            Padded(*column.padded(rows, owner.pad_id)) if isinstance(column, Ragged) else column[rows]
            for column in owner.columns
        )
        if owner.transform is None:
            return batch
        return owner.transform(batch, np.random.default_rng([owner.seed, self._number, place]))


def _refuse_pairs(column: Any) -> None:
    """Refuse ``(x, y)`` and a list of pairs, as other libraries take them: one column of these is something else."""
    first = column[0] if isinstance(column, (list, tuple)) and column else None
    if isinstance(column, tuple) and first is not None and all(map(is_array, column)):
        got, spelling = "a tuple of arrays", "x, y"
    elif isinstance(first, tuple) and not all(map(is_number, first)):
        got, spelling = "rows that are tuples", "*zip(*rows)"
    else:
        return
    raise TypeError(
        f"Batches: columns must be given one by one, as in Batches({spelling}, batch_size=8); got {got}"
    )


def _column(column: Any, name: str) -> NDArray[Any] | Ragged:
    """Return a column of data as what its batches are taken from."""
    if is_array(column):
        array = as_array("Batches", name, column)
        if array.dtype.kind not in "biuf" and array.dtype.name != "bfloat16":
            raise TypeError(f"Batches: {name} must hold numbers; got dtype {array.dtype}")
        return array
    if len(column) and all(map(is_number, column)):
        return numbers("Batches", name, column)
    return Ragged("Batches", name, column)
