"""Which positions of a sequence each rank holds."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._public import explained
from .._words.errors import integer_of, shown
from .communicator import check


class Stretch(NamedTuple):
    """Positions ``begin .. end - 1`` of the whole sequence."""

    begin: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.begin


def stretches(length: int, ranks: int, rank: int, causal: bool) -> list[Stretch]:
    """Return the stretches of a rank, in order: one, or two for a causal sequence.

    A query of a causal sequence has the more keys the later it is. With 2 N stretches of equal length, those
    numbered r and 2 N - 1 - r have together as many as any other such pair.
    """
    parts = 2 * ranks if causal else ranks
    numbers = (rank, parts - 1 - rank) if causal else (rank,)
    return [Stretch(length * n // parts, length * (n + 1) // parts) for n in numbers]


def count(length: int, ranks: int, rank: int, causal: bool) -> int:
    """Return how many positions a rank holds."""
    return sum(stretch.size for stretch in stretches(length, ranks, rank, causal))


@explained
def positions(L: int, comm: Any, is_causal: bool | str = False) -> NDArray[np.int64]:
    """Return the positions of a sequence that this rank holds, in the order in which it holds them.

    Without ``is_causal`` they are one stretch of about ``L / N`` positions, rank by rank. With it they are two, one
    from either end of the sequence, so that all ranks compute about the same number of scores.

    Parameters
    ----------
    L : int
        Length of the whole sequence.
    comm : MPI communicator or None
        Of the ranks that share the sequence; None is one rank, which holds all of it.
    is_causal : bool or {"upper_left", "lower_right"}
        As it is given to :func:`attention`.

    Returns
    -------
    ndarray of int64, (L_rank,)
        Rising.

    Raises
    ------
    ValueError
        If the sequence is shorter than the number of ranks.
    TypeError
        If ``comm`` is no communicator or ``L`` no integer.

    Examples
    --------
    >>> qkv.distributed.positions(5, None)
    array([0, 1, 2, 3, 4])
    """
    length = integer_of("positions", "L", L)
    if is_causal not in (False, True, "upper_left", "lower_right"):
        raise ValueError(
            f'positions: is_causal must be False, True, "upper_left" or "lower_right"; got {shown(is_causal)}'
        )
    ranks, rank = 1, 0
    if comm is not None:
        check(comm, "positions")
        ranks, rank = comm.Get_size(), comm.Get_rank()
    if length < ranks:
        raise ValueError(
            f"positions: L must be at least the number of ranks because each of them holds a part; got L = {length} "
            f"for {ranks} ranks"
        )
    parts = stretches(length, ranks, rank, bool(is_causal))
    return np.concatenate([np.arange(begin, end) for begin, end in parts])
