"""Linear attention as its recurrence, step by step."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._public import explained

Array = NDArray[np.float64]


@explained
def linear_attention(
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike,
    *,
    decay: ArrayLike | None = None,
    beta: ArrayLike | None = None,
    scale: float | None = None,
    state: ArrayLike | None = None,
) -> tuple[Array, Array]:
    """Compute ``o_t = scale S_t^T q_t`` with ``S_t = exp(g_t) S_{t-1} + b_t k_t (v_t - exp(g_t) S_{t-1}^T k_t)^T``.

    Parameters
    ----------
    query : array, (B, H, T, D)
    key : array, (B, Hkv, T, D)
    value : array, (B, Hkv, T, Dv)
    decay : array, (B, Hkv, T) or (B, Hkv, T, D), optional
        Without it ``g`` is 0.
    beta : array, (B, Hkv, T), optional
        Without it the state gets ``k_t v_t^T``.
    scale : float, optional
        ``1 / sqrt(D)`` if not given.
    state : array, (B, Hkv, D, Dv), optional

    Returns
    -------
    output : ndarray, (B, H, T, Dv)
    state : ndarray, (B, Hkv, D, Dv)

    Examples
    --------
    >>> output, state = linear_attention(*np.ones((3, 1, 1, 2, 1)))
    >>> output[0, 0, :, 0], state
    (array([1., 2.]), array([[[[2.]]]]))
    """
    q, k, v = (np.asarray(x, dtype=float) for x in (query, key, value))
    shared = q.shape[1] // k.shape[1]
    size = (*k.shape[:2], k.shape[3], v.shape[3])
    s = np.zeros(size) if state is None else np.array(state, dtype=float)
    scale = 1 / np.sqrt(q.shape[3]) if scale is None else scale
    output = np.empty((*q.shape[:3], v.shape[3]))
    for t in range(q.shape[2]):
        if decay is not None:
            fading = np.exp(np.asarray(decay, dtype=float)[:, :, t])
            s = s * fading.reshape(*fading.shape[:2], -1, 1)
        change = v[:, :, t]
        if beta is not None:
            rate = np.asarray(beta, dtype=float)[:, :, t, None]
            change = rate * (change - np.einsum("bhdv,bhd->bhv", s, k[:, :, t]))
        s = s + k[:, :, t, :, None] * change[:, :, None, :]
        output[:, :, t] = scale * np.einsum("bhdv,bhd->bhv", np.repeat(s, shared, 1), q[:, :, t])
    return output, s
