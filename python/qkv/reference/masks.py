"""Boolean masks: True = may attend."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._public import explained, publish

__all__ = ["attention", "causal", "lengths", "padding", "positions", "window"]

Mask = NDArray[np.bool_]


@explained
def lengths(valid_lens: ArrayLike, max_len: int, *, heads_axis: bool = False) -> Mask:
    """Mark the first ``valid_lens`` of `max_len` positions.

    Parameters
    ----------
    valid_lens : array of int, (B,) or (B, Lq)
    max_len : int
    heads_axis : bool
        Insert the axes that scores (B, H, Lq, Lk) need.

    Returns
    -------
    ndarray of bool, (B, max_len) or (B, Lq, max_len)
        With `heads_axis` (B, 1, 1, max_len) or (B, 1, Lq, max_len). A (B, max_len) mask becomes one for
        scores (B, Lq, Lk) by ``mask[:, None, :]``.

    Examples
    --------
    >>> lengths([1, 2], 3).astype(int)
    array([[1, 0, 0],
           [1, 1, 0]])
    """
    lens = np.asarray(valid_lens)
    mask = np.arange(max_len) < lens[..., None]
    if heads_axis:
        return mask[:, None, None] if lens.ndim == 1 else mask[:, None]
    return mask


@explained
def padding(ids: ArrayLike, pad_id: int = 0, *, heads_axis: bool = False) -> Mask:
    """Mark the real tokens: ``ids != pad_id``.

    Parameters
    ----------
    ids : array of int, (B, L)
    pad_id : int
    heads_axis : bool
        Return (B, 1, 1, L), for scores (B, H, Lq, L).

    Returns
    -------
    ndarray of bool, (B, L)
        For scores (B, Lq, L) insert an axis: ``mask[:, None, :]``.

    Examples
    --------
    >>> padding([[5, 6, 0]]).tolist()
    [[True, True, False]]
    """
    mask: Mask = np.asarray(ids) != pad_id
    return mask[:, None, None] if heads_axis else mask


@explained
def positions(
    Lq: int, Lk: int, alignment: str, q_offset: ArrayLike | None, operation: str
) -> NDArray[np.int64]:
    """Return the position of each query, (Lq,) or (B, Lq): ``q_offset + i``.

    Examples
    --------
    >>> positions(2, 5, "lower_right", None, "example")
    array([3, 4])
    """
    if alignment not in ("upper_left", "lower_right"):
        raise ValueError(
            f"{operation}: alignment must be 'upper_left' or 'lower_right' because these are the two ways "
            f"to line up Lq queries with Lk keys; got {alignment!r}"
        )
    if q_offset is not None and alignment == "lower_right":
        raise ValueError(
            f"{operation}: q_offset must be None with 'lower_right' because that fixes the offset at Lk - "
            f"Lq; got q_offset = {q_offset}"
        )
    offset = np.asarray(Lk - Lq if alignment == "lower_right" else 0 if q_offset is None else q_offset)
    return np.asarray(offset[..., None] + np.arange(Lq), np.int64)


@explained
def causal(
    Lq: int, Lk: int | None = None, alignment: str = "upper_left", *, q_offset: ArrayLike | None = None
) -> Mask:
    """Allow key ``j`` for query ``i`` where ``j <= q_offset + i``.

    Parameters
    ----------
    Lq, Lk : int
        Numbers of queries and keys; `Lk` is `Lq` unless given.
    alignment : "upper_left" or "lower_right"
        The second puts the last query at the last key (offset ``Lk - Lq``).
    q_offset : int or (B,), optional
        Position of the first query.

    Returns
    -------
    ndarray of bool, (Lq, Lk), or (B, Lq, Lk) with offsets (B,)
        For scores (B, H, Lq, Lk) a batched mask needs ``mask[:, None]``.

    Raises
    ------
    ValueError
        If `alignment` is unknown, or "lower_right" together with `q_offset`.

    Examples
    --------
    >>> causal(2, 3, "lower_right").astype(int)
    array([[1, 1, 0],
           [1, 1, 1]])
    """
    Lk = Lq if Lk is None else Lk
    p = positions(Lq, Lk, alignment, q_offset, "causal")
    return np.arange(Lk) <= p[..., None]


@explained
def window(
    Lq: int,
    Lk: int | None = None,
    window: tuple[int, int] = (-1, -1),
    alignment: str = "upper_left",
    *,
    q_offset: ArrayLike | None = None,
) -> Mask:
    """Allow key ``j`` for the query at position ``p`` where ``p - left <= j <= p + right``.

    Parameters
    ----------
    Lq, Lk : int
        Numbers of queries and keys; `Lk` is `Lq` unless given.
    window : (left, right)
        -1 means unlimited on that side.
    alignment, q_offset
        As in `causal`.

    Returns
    -------
    ndarray of bool, (Lq, Lk), or (B, Lq, Lk) with offsets (B,)

    Examples
    --------
    >>> window(3, window=(1, 0)).astype(int)
    array([[1, 0, 0],
           [1, 1, 0],
           [0, 1, 1]])
    """
    Lk = Lq if Lk is None else Lk
    p = positions(Lq, Lk, alignment, q_offset, "window")[..., None]
    left, right = window
    j = np.arange(Lk)
    return ((left < 0) | (j >= p - left)) & ((right < 0) | (j <= p + right))


@explained
def attention(
    query_lens: ArrayLike,
    key_lens: ArrayLike,
    Lq: int,
    Lk: int,
    causal: bool = False,
    heads_axis: bool = False,
) -> Mask:
    """Allow real queries to see real keys: the encoder, cross and decoder masks of a Transformer.

    Parameters
    ----------
    query_lens, key_lens : array of int, (B,)
    Lq, Lk : int
    causal : bool
        Allow key ``j`` for query ``i`` only where ``j <= i``, as in a decoder.
    heads_axis : bool
        Return (B, 1, Lq, Lk).

    Returns
    -------
    ndarray of bool, (B, Lq, Lk)

    Examples
    --------
    >>> attention([2], [2], 3, 3, causal=True)[0].astype(int)
    array([[1, 0, 0],
           [1, 1, 0],
           [0, 0, 0]])
    """
    mask = lengths(query_lens, Lq)[:, :, None] & lengths(key_lens, Lk)[:, None, :]  # (B, Lq, Lk)
    if causal:
        mask &= np.tri(Lq, Lk, dtype=bool)
    return mask[:, None] if heads_axis else mask


publish(__name__)
