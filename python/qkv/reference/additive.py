"""Additive (Bahdanau) attention."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._public import explained
from .rows import allowed_by_lengths, apply_dropout, pool_rows, split_mask, weights_per_row

NAME = "additive_attention"


@explained
def additive_attention(
    queries: ArrayLike,
    keys: ArrayLike,
    values: ArrayLike,
    score_weight: ArrayLike,
    *,
    valid_lens: ArrayLike | None = None,
    attn_mask: ArrayLike | None = None,
    dropout_p: float = 0.0,
    masked_value: float | None = None,
    dropout_keep: ArrayLike | None = None,
    return_weights: bool = False,
) -> Any:
    """Compute ``softmax_j(score_weight @ tanh(q_i + k_j)) V``.

    Parameters
    ----------
    queries : array, (B, Lq, M) or (Lq, M)
        Already projected, as the keys are.
    keys : array, (B, Lk, M) or (Lk, M)
    values : array, (B, Lk, Dv) or (Lk, Dv)
    score_weight : array, (M,)
    valid_lens : array of int, (B,) or (B, Lq); an int for rank 2
    attn_mask : array, broadcast to the weights' shape
        Boolean (True = may attend) or float (added; ``-inf`` excludes).
    dropout_p : float
    masked_value : float
        Replaces excluded scores instead of skipping them.
    dropout_keep : array of bool, the weights' shape
    return_weights : bool

    Returns
    -------
    output : ndarray, (B, Lq, Dv) or (Lq, Dv)
        Followed by the weights (B, Lq, Lk) or (Lq, Lk), before dropout, where asked for.

    Raises
    ------
    TypeError
        If `attn_mask` is an integer array.

    Examples
    --------
    >>> additive_attention([[0.0]], [[1.0], [1.0]], [[2.0], [4.0]], [5.0])
    array([[3.]])

    References
    ----------
    Bahdanau, Cho, Bengio, "Neural machine translation by jointly learning to align and translate", 2015.
    """
    q, k, v = (np.asarray(x, np.float64) for x in (queries, keys, values))
    with np.errstate(invalid="ignore", over="ignore"):  # excluded keys may hold anything
        features = np.tanh(q[..., :, None, :] + k[..., None, :, :])  # (..., Lq, Lk, M)
        s = features @ np.asarray(score_weight, np.float64)  # (..., Lq, Lk)
    allowed, bias = split_mask(attn_mask, s.shape, NAME)
    allowed &= allowed_by_lengths(valid_lens, s.shape)
    w, _, allowed = weights_per_row(s + bias, allowed, masked_value=masked_value)
    output = pool_rows(apply_dropout(w, dropout_p, dropout_keep, NAME), v, allowed)  # (..., Lq, Dv)
    return (output, w) if return_weights else output
