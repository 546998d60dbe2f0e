"""Additive (Bahdanau) attention as a function."""

from __future__ import annotations

from numpy.typing import ArrayLike

from .. import _core
from .._public import explained
from .._types import Numbers, Result


@explained
def additive_attention(
    queries: Numbers,
    keys: Numbers,
    values: Numbers,
    score_weight: Numbers,
    *,
    valid_lens: ArrayLike | None = None,
    attn_mask: Numbers | None = None,
    dropout_p: float = 0.0,
    dropout_keep: ArrayLike | None = None,
    masked_value: float | None = None,
    return_weights: bool = False,
) -> Result:
    """Additive attention ``softmax_j(score_weight @ tanh(q_i + k_j)) @ values``.

    Differentiable with respect to all four arrays and a float mask. Nothing of size (B, Lq, Lk, M) is
    stored: the tanh is computed again for the gradient.

    Parameters
    ----------
    queries : array_like or Tensor, (B, Lq, M) or (Lq, M)
        Already projected to the hidden width M (``W_q x``), as the keys are (``W_k x``).
    keys : array_like or Tensor, (B, Lk, M) or (Lk, M)
    values : array_like or Tensor, (B, Lk, Dv) or (Lk, Dv)
    score_weight : array_like or Tensor, (M,)
        The vector ``w_v`` that turns a hidden vector into a score.
    valid_lens : array_like of int, (B,) or (B, Lq), optional
        How many keys a batch entry, or each of its queries, sees: 0 .. Lk. An int where there is no batch.
    attn_mask : array_like or Tensor, optional
        Broadcast to (B, Lq, Lk) by NumPy's rules. Boolean: True = may attend. Float: added to the
        scores, ``-inf`` excludes.
    dropout_p : float, default 0.0
        Probability with which a weight is dropped before the values are pooled; the others grow by
        ``1 / (1 - p)``.
    dropout_keep : array_like of bool, optional
        Broadcast to (B, Lq, Lk); replaces the draw.
    masked_value : float, optional
        The score of an excluded key. By default excluded keys are skipped, even NaN and infinity, and a
        query that sees no key gets zeros; with a value such as -1e9 such a query gets the mean of all
        values.
    return_weights : bool, default False

    Returns
    -------
    output : ndarray or Tensor, (B, Lq, Dv) or (Lq, Dv)
    weights : ndarray or Tensor, (B, Lq, Lk) or (Lq, Lk)
        If ``return_weights``: before dropout, differentiable.

    Raises
    ------
    ValueError
        If shapes do not fit, a length is outside 0 .. Lk or ``dropout_p`` outside 0 .. 1.
    TypeError
        If ``attn_mask`` holds integers.

    Notes
    -----
    ``tanh(q + k)`` is computed as ``1 - 2 / (1 + exp(2 q) exp(2 k))`` with an error of about 2 ULP of 1.

    References
    ----------
    Bahdanau, Cho, Bengio, "Neural machine translation by jointly learning to align and translate", 2015.

    Examples
    --------
    >>> y, w = qkv.additive_attention([[0.0]], [[1.0], [1.0]], [[2.0], [4.0]], [5.0], return_weights=True)
    >>> y, w
    (array([[3.]], dtype=float32), array([[0.5, 0.5]], dtype=float32))
    """
    return _core.additive_attention(
        queries,
        keys,
        values,
        score_weight,
        valid_lens,
        attn_mask,
        dropout_p,
        dropout_keep,
        masked_value,
        return_weights,
    )
