"""The text of Python's own manual, which every Python brings along: 450 thousand characters of English."""

from __future__ import annotations

import importlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._public import explained
from .._words.errors import integer_of, needs


@explained
def topics() -> list[str]:
    """Return the chapters of ``pydoc_data.topics``, what ``help("if")`` shows, in the order of their names.

    Returns
    -------
    list of str
        They differ a little between versions of Python.

    Raises
    ------
    ImportError
        If this Python came without them.

    Examples
    --------
    >>> chapters = qkv.data.topics()
    >>> len(chapters) > 50, any('"for" statement' in chapter for chapter in chapters)
    (True, True)
    """
    words = "topics: pydoc_data must be part of this Python because the text comes from it"
    with needs(f"{words}; install the complete standard library"):
        found: dict[str, str] = importlib.import_module("pydoc_data.topics").topics
    return [found[name] for name in sorted(found)]


@explained
def unigram_entropy(tokens: ArrayLike) -> float:
    """``-sum_c p_c log p_c`` of the relative frequencies ``p``, in nats.

    It is the loss of the best model that ignores the context, so one that uses the context must stay below it.

    Parameters
    ----------
    tokens : array_like
        Numbers or strings, of any shape.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If there are none.

    Examples
    --------
    >>> round(qkv.data.unigram_entropy(["a", "b", "a", "b"]), 4)
    0.6931
    """
    counts = np.unique(np.asarray(tokens).reshape(-1), return_counts=True)[1]
    if counts.size == 0:
        raise ValueError(
            "unigram_entropy: tokens must not be empty because nothing has no frequencies; got none"
        )
    p = counts / counts.sum()
    return max(float(-(p * np.log(p)).sum()), 0.0)


@explained
def windows(ids: Sequence[int] | NDArray[np.int64], length: int) -> NDArray[np.int64]:
    """Cut a long text into pieces of equal length, each beginning after the last; what is left is dropped.

    Parameters
    ----------
    ids : sequence of int, (n,)
    length : int

    Returns
    -------
    ndarray of int64, (n // length, length)

    Raises
    ------
    ValueError
        If the text is shorter than one piece.

    Examples
    --------
    >>> qkv.data.windows(range(7), 3).tolist()
    [[0, 1, 2], [3, 4, 5]]
    """
    table = np.asarray(ids)
    if table.dtype.kind not in "iu" and table.size > 0:
        raise TypeError(f"windows: ids must hold integers; got dtype {table.dtype}")
    table = table.astype(np.int64)
    length = integer_of("windows", "length", length)
    if length < 1 or table.size < length:
        raise ValueError(
            f"windows: length must be in 1..{table.size} because a piece cannot be longer than the text; got {length}"
        )
    pieces: NDArray[np.int64] = table[: table.size // length * length].reshape(-1, length)
    return pieces
