"""Boolean masks: True = may attend.

For weights (B, H, Lq, Lk) a mask needs an axis for what it does not depend on:

=====================  ===============  ==================================  =======================
mask                   shape            for weights (B, Lq, Lk)             for (B, H, Lq, Lk)
=====================  ===============  ==================================  =======================
`lengths`, `padding`   (B, Lk)          ``mask[:, None, :]``                ``heads_axis=True``
`lengths` per query    (B, Lq, Lk)      as it is                            ``heads_axis=True``
`causal`, `window`     (Lq, Lk)         as it is                            as it is
the same with (B,)     (B, Lq, Lk)      as it is                            ``mask[:, None]``
`attention`            (B, Lq, Lk)      as it is                            ``heads_axis=True``
=====================  ===============  ==================================  =======================

Masks combine by ``&``. Functions of positions, for which no array is made, are in
:mod:`qkv.masks.formulas`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import _core
from .._public import explained, publish
from .._words.errors import integer_of, shown

__all__ = ["attention", "causal", "formulas", "lengths", "padding", "window"]

Mask = NDArray[np.bool_]


@explained
def lengths(valid_lens: ArrayLike, max_len: int, *, heads_axis: bool = False) -> Mask:
    """Mark the first ``valid_lens`` of `max_len` positions: ``mask[..., j] = j < valid_lens[...]``.

    Parameters
    ----------
    valid_lens : array_like of int, (B,) or (B, Lq)
        Each 0 .. max_len.
    max_len : int
        Lk, the number of keys.
    heads_axis : bool, default False
        Insert the axes that weights (B, H, Lq, Lk) need.

    Returns
    -------
    ndarray of bool, (B, max_len) or (B, Lq, max_len)
        With ``heads_axis`` (B, 1, 1, max_len) or (B, 1, Lq, max_len). For weights (B, Lq, Lk) insert the axis
        of the queries into a (B, max_len) mask: ``mask[:, None, :]``.

    Raises
    ------
    ValueError
        If `valid_lens` has another rank or a length is outside 0 .. max_len.
    TypeError
        If the lengths are not integers.

    Warns
    -----
    UserWarning
        If lengths (B, Lq) hold 0 and 1 alone, as a mask of padding does: both, or ones where Lq is `max_len`.

    Examples
    --------
    >>> qkv.masks.lengths([1, 2], 3).astype(int)
    array([[1, 0, 0],
           [1, 1, 0]])
    """
    size = _size("lengths", "max_len", max_len)
    lens = _integers("lengths", "valid_lens", valid_lens)
    if lens.ndim not in (1, 2):
        raise ValueError(
            f"lengths: valid_lens must be (B,) or (B, Lq) because each has a row; got {lens.shape}"
        )
    _check_lengths("lengths", "valid_lens", lens, size)
    _core.warn_of_mask_as_lengths("lengths", "valid_lens", lens, size)
    mask: Mask = np.arange(size) < lens[..., None]
    if heads_axis:
        return mask[:, None, None] if lens.ndim == 1 else mask[:, None]
    return mask


@explained
def padding(ids: ArrayLike, pad_id: int = 0, *, heads_axis: bool = False) -> Mask:
    """Mark the real tokens of padded sentences: ``ids != pad_id``.

    Parameters
    ----------
    ids : array_like of int, (B, L)
    pad_id : int, default 0
    heads_axis : bool, default False
        Return (B, 1, 1, L), for weights (B, H, Lq, L).

    Returns
    -------
    ndarray of bool, (B, L)
        True = real. For weights (B, Lq, L) insert the axis of the queries: ``mask[:, None, :]``.

    Raises
    ------
    ValueError
        If `ids` is not (B, L).
    TypeError
        If the ids or `pad_id` are not integers.

    Examples
    --------
    >>> qkv.masks.padding([[5, 6, 0]]).tolist()
    [[True, True, False]]
    """
    tokens = _integers("padding", "ids", ids)
    if tokens.ndim != 2:
        raise ValueError(
            f"padding: ids must be (B, L) because a batch of sentences is meant; got {tokens.shape}"
        )
    mask: Mask = tokens != integer_of("padding", "pad_id", pad_id)
    return mask[:, None, None] if heads_axis else mask


@explained
def causal(
    Lq: int, Lk: int | None = None, alignment: str = "upper_left", *, q_offset: ArrayLike | None = None
) -> Mask:
    """Hide the future: query ``i`` sees key ``j`` where ``j <= q_offset + i``.

    Parameters
    ----------
    Lq : int
        Number of queries.
    Lk : int, optional
        Number of keys; by default Lq.
    alignment : "upper_left" or "lower_right"
        Where the diagonal ends if Lq and Lk differ: the first query at the first key, or the last query at
        the last key (``q_offset = Lk - Lq``).
    q_offset : int or array_like (B,), optional
        Position of the first query, such as the length of a cache.

    Returns
    -------
    ndarray of bool, (Lq, Lk), or (B, Lq, Lk) with offsets (B,)
        The first broadcasts as it is; for weights (B, H, Lq, Lk) the second needs ``mask[:, None]``.

    Raises
    ------
    ValueError
        If `alignment` is unknown, or "lower_right" together with `q_offset`.

    Examples
    --------
    >>> qkv.masks.causal(2, 3, "lower_right").astype(int)
    array([[1, 1, 0],
           [1, 1, 1]])
    """
    return _allowed("causal", Lq, Lk, alignment, q_offset, True, (-1, -1))


@explained
def window(
    Lq: int,
    Lk: int | None = None,
    window: tuple[int, int] = (-1, -1),
    alignment: str = "upper_left",
    *,
    q_offset: ArrayLike | None = None,
) -> Mask:
    """Show the neighbourhood: a query at position ``p`` sees key ``j`` where ``p - left <= j <= p + right``.

    Parameters
    ----------
    Lq : int
        Number of queries.
    Lk : int, optional
        Number of keys; by default Lq.
    window : (left, right), default (-1, -1)
        In positions; -1 = unlimited on that side.
    alignment : "upper_left" or "lower_right"
        As in `causal`.
    q_offset : int or array_like (B,), optional
        As in `causal`.

    Returns
    -------
    ndarray of bool, (Lq, Lk), or (B, Lq, Lk) with offsets (B,)
        The first broadcasts as it is; for weights (B, H, Lq, Lk) the second needs ``mask[:, None]``.

    Raises
    ------
    ValueError
        If `window` is not two numbers of at least -1, and as in `causal`.

    Examples
    --------
    >>> qkv.masks.window(3, window=(1, 0)).astype(int)
    array([[1, 0, 0],
           [1, 1, 0],
           [0, 1, 1]])
    """
    sides = _integers("window", "window", window)
    if sides.shape != (2,) or (sides < -1).any():
        raise ValueError(
            f"window: window must be (left, right), each at least 0, or -1 for unlimited; got {shown(window)}"
        )
    return _allowed("window", Lq, Lk, alignment, q_offset, False, sides.tolist())


@explained
def attention(
    query_lens: ArrayLike,
    key_lens: ArrayLike,
    Lq: int,
    Lk: int,
    causal: bool = False,
    heads_axis: bool = False,
) -> Mask:
    """Let real queries see real keys: a Transformer's mask of encoder, decoder or cross attention.

    Parameters
    ----------
    query_lens, key_lens : array_like of int, (B,)
        Real queries and keys of each batch entry.
    Lq, Lk : int
        Sizes of the mask.
    causal : bool, default False
        Besides, query ``i`` sees key ``j`` only where ``j <= i``, as in a decoder.
    heads_axis : bool, default False
        Return (B, 1, Lq, Lk), for weights (B, H, Lq, Lk).

    Returns
    -------
    ndarray of bool, (B, Lq, Lk)
        Rows of padded queries are all False.

    Raises
    ------
    ValueError
        If the two arrays are not (B,) or a length is outside 0 .. Lq or 0 .. Lk.

    Examples
    --------
    >>> qkv.masks.attention([2], [2], 3, 3, causal=True)[0].astype(int)
    array([[1, 0, 0],
           [1, 1, 0],
           [0, 0, 0]])
    """
    queries, keys = _size("attention", "Lq", Lq), _size("attention", "Lk", Lk)
    real_q, real_k = (
        _integers("attention", name, x) for name, x in (("query_lens", query_lens), ("key_lens", key_lens))
    )
    if real_q.ndim != 1 or real_k.shape != real_q.shape:
        raise ValueError(
            f"attention: query_lens and key_lens must both be (B,) because they count per batch entry; "
            f"got query_lens {real_q.shape}, key_lens {real_k.shape}"
        )
    _check_lengths("attention", "query_lens", real_q, queries)
    _check_lengths("attention", "key_lens", real_k, keys)
    mask: Mask = (np.arange(queries) < real_q[:, None])[:, :, None] & (np.arange(keys) < real_k[:, None])[
        :, None
    ]
    if causal:
        mask &= np.tri(queries, keys, dtype=bool)
    return mask[:, None] if heads_axis else mask


def _size(operation: str, name: str, value: Any) -> int:
    number = _integers(operation, name, value)
    if number.ndim != 0 or number < 0:
        raise ValueError(f"{operation}: {name} must be at least 0 because it is a size; got {name} = {value}")
    return int(number)


def _integers(operation: str, name: str, value: Any) -> NDArray[np.int64]:
    array = _core.as_numpy(value, operation, name)
    if array.dtype.kind not in "iu" and array.size > 0:
        raise TypeError(f"{operation}: {name} must hold integers; got dtype {array.dtype}")
    return array.astype(np.int64)


def _check_lengths(operation: str, name: str, lens: NDArray[np.int64], size: int) -> None:
    wrong = lens[(lens < 0) | (lens > size)]
    if wrong.size:
        raise ValueError(
            f"{operation}: {name} must be in 0..{size} because it counts positions; "
            f"got {name} {wrong.flat[0]}"
        )


def _allowed(
    operation: str,
    Lq: int,
    Lk: int | None,
    alignment: str,
    q_offset: ArrayLike | None,
    causal: bool,
    sides: tuple[int, int],
) -> Mask:
    """Mask ([B,] Lq, Lk) of what causal order and a window allow."""
    queries = _size(operation, "Lq", Lq)
    keys = queries if Lk is None else _size(operation, "Lk", Lk)
    if alignment not in ("upper_left", "lower_right"):
        raise ValueError(
            f"{operation}: alignment must be 'upper_left' or 'lower_right' because these are the two ways to "
            f"line up Lq queries with Lk keys; got {shown(alignment)}"
        )
    if q_offset is not None and alignment == "lower_right":
        raise ValueError(
            f"{operation}: q_offset must be None with 'lower_right' because that fixes it at Lk - Lq; "
            f"got q_offset = {q_offset}"
        )
    start = keys - queries if alignment == "lower_right" else 0 if q_offset is None else q_offset
    offset = _integers(operation, "q_offset", start)
    if offset.ndim > 1:
        raise ValueError(f"{operation}: q_offset must be an int or (B,); got q_offset {offset.shape}")
    low, high = _core.allowed_keys(offset, queries, keys, causal, *sides)
    mask: Mask = (np.arange(keys) >= low[..., None]) & (np.arange(keys) < high[..., None])
    return mask


publish(__name__, ["formulas"])
