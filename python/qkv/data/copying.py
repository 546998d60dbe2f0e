"""The task of copying: the smallest thing that a sequence model can be trained on."""

from __future__ import annotations

import numpy as np

from .._public import explained
from .._words.errors import count_of


@explained
def copy_pairs(
    count: int, *, symbols: int = 10, min_len: int = 3, max_len: int = 10, first_id: int = 4, seed: int = 0
) -> list[list[int]]:
    """Draw sequences of random symbols; source and target of the task are the same sequence.

    Parameters
    ----------
    count : int
    symbols : int
        Number of different symbols.
    min_len, max_len : int
        Lengths are drawn from ``min_len..max_len``.
    first_id : int
        Number of the first symbol; those below it are left for padding, start and end.
    seed : int

    Returns
    -------
    list of list of int

    Raises
    ------
    ValueError
        If there are no symbols or no lengths.

    Examples
    --------
    >>> qkv.data.copy_pairs(2, symbols=3, min_len=2, max_len=4, seed=1)
    [[6, 6, 4], [4, 6, 6]]
    """
    count, symbols, min_len, max_len, first_id, seed = (
        count_of("copy_pairs", name, value)
        for name, value in (
            ("count", count),
            ("symbols", symbols),
            ("min_len", min_len),
            ("max_len", max_len),
            ("first_id", first_id),
            ("seed", seed),
        )
    )
    if symbols < 1 or not 1 <= min_len <= max_len:
        raise ValueError(
            "copy_pairs: symbols must be at least 1 and lengths 1 <= min_len <= max_len; "
            f"got symbols = {symbols}, min_len = {min_len}, max_len = {max_len}"
        )
    random = np.random.default_rng(seed)
    lens = random.integers(min_len, max_len + 1, count)
    return [random.integers(first_id, first_id + symbols, n).tolist() for n in lens]
