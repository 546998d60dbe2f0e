"""Attention by a state of fixed size instead of a softmax over all keys."""

from __future__ import annotations

from typing import Literal

from .. import _core
from .._public import explained
from .._types import Numbers, Result


@explained
def linear_attention(
    query: Numbers,
    key: Numbers,
    value: Numbers,
    *,
    decay: Numbers | None = None,
    beta: Numbers | None = None,
    update_rule: Literal["linear", "gated", "delta", "gated_delta"] = "linear",
    scale: float | None = None,
    state: Numbers | None = None,
    chunk_size: int = 64,
    return_state: bool = False,
) -> Result:
    r"""``o_t = scale S_t^T q_t``, where each step changes a state ``S`` of shape ``(D, Dv)`` by its key and value.

    With the decay ``g_t``, the rate ``b_t`` and ``S' = exp(g_t) S_{t-1}``::

        linear       S_t = S_{t-1} + k_t v_t^T
        gated        S_t = S' + k_t v_t^T
        delta        S_t = S_{t-1} + b_t k_t (v_t - S_{t-1}^T k_t)^T
        gated_delta  S_t = S' + b_t k_t (v_t - S'^T k_t)^T

    Parameters
    ----------
    query : array_like or Tensor
        ``(B, H, T, D)``. ``H`` is a multiple of ``Hkv``: that many heads share a state.
    key : array_like or Tensor
        ``(B, Hkv, T, D)``. The delta rules want keys of length 1: they replace what the state holds for a key.
    value : array_like or Tensor
        ``(B, Hkv, T, Dv)``.
    decay : array_like or Tensor, optional
        ``(B, Hkv, T)``, or ``(B, Hkv, T, D)`` with a decay for each feature of the key, in log space: 0 keeps the
        state, ``-inf`` forgets it. For the gated rules only.
    beta : array_like or Tensor, optional
        ``(B, Hkv, T)``, usually from 0 to 1. For the delta rules only.
    update_rule : {"linear", "gated", "delta", "gated_delta"}
    scale : float, optional
        ``1 / sqrt(D)`` if not given.
    state : array_like or Tensor, optional
        ``(B, Hkv, D, Dv)``: the state before the first step, zeros if not given.
    chunk_size : int
        How many steps are computed together; changes the time, and the result by rounding only.
    return_state : bool
        Also return the state after the last step.

    Returns
    -------
    output : ndarray or Tensor, (B, H, T, Dv)
    state : ndarray or Tensor, (B, Hkv, D, Dv)
        With `return_state`: continues from here with the next steps.

    Raises
    ------
    ValueError
        If shapes do not fit, or the rule needs `decay` or `beta` and they are not given, or does not and they are.

    Notes
    -----
    Causal by nature. Time and memory grow with T. Within a chunk everything is products of matrices, so that a long
    sequence is much faster than step by step; all arguments get gradients. This is the operator ``LinearAttention`` of
    ONNX (opset 27).

    References
    ----------
    Katharopoulos et al., Transformers are RNNs: Fast Autoregressive Transformers with Linear Attention, 2020. Schlag,
    Irie, Schmidhuber, Linear Transformers Are Secretly Fast Weight Programmers, 2021. Yang et al., Gated Linear
    Attention Transformers with Hardware-Efficient Training, 2023. Yang et al., Parallelizing Linear Transformers with
    the Delta Rule over Sequence Length, 2024. Yang, Kautz, Hatamizadeh, Gated Delta Networks, 2024.

    Examples
    --------
    >>> q, k, v = qkv.randn(1, 2, 100, 4), qkv.randn(1, 2, 100, 4), qkv.randn(1, 2, 100, 3)
    >>> output, state = qkv.linear_attention(q, k, v, return_state=True)
    >>> output.shape, state.shape
    ((1, 2, 100, 3), (1, 2, 4, 3))
    """
    return _core.linear_attention(
        query, key, value, decay, beta, update_rule, scale, state, chunk_size, return_state
    )
