"""Scaled dot-product attention with every option."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._public import explained
from .masks import positions
from .rows import allowed_by_lengths, apply_dropout, pool_rows, split_mask, weights_per_row

Array = NDArray[np.float64]
NAME = "scaled_dot_product_attention"


@explained
def scaled_dot_product_attention(
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike,
    attn_mask: ArrayLike | None = None,
    dropout_p: float = 0.0,
    is_causal: bool | str = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    valid_lens: ArrayLike | None = None,
    window: tuple[int, int] | None = None,
    softcap: float = 0.0,
    alibi_slopes: ArrayLike | None = None,
    q_offset: ArrayLike | None = None,
    sinks: ArrayLike | None = None,
    masked_value: float | None = None,
    dropout_keep: ArrayLike | None = None,
    return_weights: bool = False,
    return_lse: bool = False,
    normalizer: str = "softmax",
) -> Any:
    """Compute ``softmax(scale * Q K^T) V`` over the keys that each query may see.

    Order: scale, softcap, ALiBi, float mask, exclusions, normaliser, dropout, product with the values. An
    excluded key is skipped, not multiplied by 0, so NaN or infinity in it changes nothing.

    Parameters
    ----------
    query : array, (B, H, Lq, D), (B, Lq, D) or (Lq, D)
    key : array, (B, Hkv, Lk, D) or of the smaller rank
    value : array, (B, Hkv, Lk, Dv) or of the smaller rank
    attn_mask : array, broadcast to the weights' shape
        Boolean (True = may attend) or float (added; ``-inf`` excludes).
    dropout_p : float
        Probability with which `dropout_keep` was drawn.
    is_causal : bool, "upper_left" (as True) or "lower_right"
        Key ``j <= p`` only, where query ``i`` is at ``p = q_offset + i``.
    scale : float
        ``1/sqrt(D)`` unless given.
    enable_gqa : bool
        Query head ``h`` reads key/value head ``h // (H / Hkv)``.
    valid_lens : array of int, (B,) or (B, Lq); an int for rank 2
    window : (left, right)
        ``p - left <= j <= p + right`` only; -1 is unlimited.
    softcap : float
        ``softcap * tanh(s / softcap)``; 0 is off.
    alibi_slopes : array, (H,)
        Adds ``-slope * |p - j|``.
    q_offset : int or (B,)
        0 unless given, ``Lk - Lq`` with "lower_right".
    sinks : array, (H,)
        One more logit in the denominator.
    masked_value : float
        Replaces excluded scores instead of skipping them.
    dropout_keep : array of bool, the weights' shape
    return_weights, return_lse : bool
        The weights are those before dropout.
    normalizer : str
        The weights of a query are this function of its scores over the keys that it may see.

    Returns
    -------
    output : ndarray, (B, H, Lq, Dv), (B, Lq, Dv) or (Lq, Dv)
        Followed by the weights (..., Lq, Lk) and the lse (..., Lq) where asked for. A query without any key
        gets zeros and lse ``-inf``.

    Raises
    ------
    ValueError
        If key and value differ in length, heads differ without `enable_gqa`, or both "lower_right" and
        `q_offset` are given.
    TypeError
        If `attn_mask` is an integer array.

    Examples
    --------
    >>> scaled_dot_product_attention([[1.0]], [[0.0], [0.0]], [[2.0], [4.0]])
    array([[3.]])
    >>> scaled_dot_product_attention([[1.0]], [[0.0], [0.0]], [[2.0], [np.nan]], valid_lens=1)
    array([[2.]])
    """
    q, k, v = (_with_heads(x) for x in (query, key, value))
    rank = np.ndim(query)
    k, v = _match_heads(q, k, v, enable_gqa)
    (B, H, Lq, D), Lk = q.shape, k.shape[2]
    weights_shape = {4: (B, H, Lq, Lk), 3: (B, Lq, Lk), 2: (Lq, Lk)}[rank]
    p, j = _positions(is_causal, q_offset, Lq, Lk), np.arange(Lk)  # (B, 1, Lq, 1), (Lk,)

    with np.errstate(invalid="ignore", over="ignore"):  # excluded keys may hold anything
        s = q @ k.swapaxes(-1, -2) * (1 / np.sqrt(D) if scale is None else scale)  # (B, H, Lq, Lk)
        s = softcap * np.tanh(s / softcap) if softcap else s
    if alibi_slopes is not None:
        s = s - np.reshape(alibi_slopes, (-1, 1, 1)) * np.abs(p - j)
    mask, bias = split_mask(attn_mask, weights_shape, NAME)
    s = s + bias.reshape(s.shape)

    allowed = mask & allowed_by_lengths(valid_lens, weights_shape)
    allowed = allowed.reshape(s.shape)  # (B, H, Lq, Lk)
    if is_causal:
        allowed = allowed & (j <= p)
    if window is not None:
        left, right = window
        allowed = allowed & ((left < 0) | (j >= p - left)) & ((right < 0) | (j <= p + right))

    per_head = None if sinks is None else np.reshape(sinks, (-1, 1))  # (H, 1)
    w, lse, allowed = weights_per_row(
        s, allowed, sinks=per_head, masked_value=masked_value, normalizer=normalizer
    )
    keep = None if dropout_keep is None else np.broadcast_to(dropout_keep, weights_shape).reshape(w.shape)
    output = pool_rows(apply_dropout(w, dropout_p, keep, NAME), v, allowed)  # (B, H, Lq, Dv)

    results = [output.reshape(*weights_shape[:-1], v.shape[-1])]
    if return_weights:
        results.append(w.reshape(weights_shape))
    if return_lse:
        results.append(lse.reshape(weights_shape[:-1]))
    return tuple(results) if len(results) > 1 else results[0]


def _with_heads(x: ArrayLike) -> Array:
    x = np.asarray(x, np.float64)
    return {4: x, 3: x[:, None], 2: x[None, None]}[x.ndim] if x.ndim in (2, 3, 4) else _bad_rank(x)


def _bad_rank(x: Array) -> Array:
    raise ValueError(
        f"{NAME}: query, key and value must be (B, H, L, D), (B, L, D) or (L, D) because these are the "
        f"layouts; got {x.shape}"
    )


def _match_heads(q: Array, k: Array, v: Array, enable_gqa: bool) -> tuple[Array, Array]:
    """Check the shapes, and repeat key and value heads until there is one per query head."""
    if k.shape[-1] != q.shape[-1] or k.shape[0] != q.shape[0]:
        raise ValueError(
            f"{NAME}: key must have B = {q.shape[0]} and D = {q.shape[-1]} to match query {q.shape}; got "
            f"key {k.shape}"
        )
    if v.shape[:3] != k.shape[:3]:
        raise ValueError(
            f"{NAME}: value must be (..., Lk, Dv) with Lk = {k.shape[2]} to match key {k.shape}; got "
            f"value {v.shape}"
        )
    H, Hkv = q.shape[1], k.shape[1]
    if Hkv == H:
        return k, v
    if not enable_gqa or Hkv == 0 or H % Hkv:
        raise ValueError(
            f"{NAME}: key must have H = {H} heads, or with enable_gqa=True a divisor of it, because each "
            f"query head reads one key head; got {Hkv} heads"
        )
    return k.repeat(H // Hkv, axis=1), v.repeat(H // Hkv, axis=1)


def _positions(is_causal: bool | str, q_offset: ArrayLike | None, Lq: int, Lk: int) -> NDArray[np.int64]:
    """Return the queries' positions as (B or 1, 1, Lq, 1)."""
    if isinstance(is_causal, str) and is_causal not in ("upper_left", "lower_right"):
        raise ValueError(
            f"{NAME}: is_causal must be False, True, 'upper_left' or 'lower_right' because there are two "
            f"alignments; got {is_causal!r}"
        )
    alignment = is_causal if isinstance(is_causal, str) else "upper_left"
    return np.atleast_2d(positions(Lq, Lk, alignment, q_offset, NAME))[:, None, :, None]
