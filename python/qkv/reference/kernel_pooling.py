"""Nadaraya-Watson kernel pooling."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._public import explained
from .rows import allowed_by_lengths, pool_rows, weights_per_row

Kernel = str | Callable[[Any], Any]

KERNELS: dict[str, Callable[[NDArray[np.float64]], NDArray[np.float64]]] = {
    "gaussian": lambda u: np.exp(-(u**2) / 2),
    "boxcar": lambda u: np.where(u < 1, 1.0, 0.0),
    "constant": lambda u: np.ones_like(u),
    "epanechnikov": lambda u: np.maximum(1 - u**2, 0.0),
    "triangular": lambda u: np.maximum(1 - u, 0.0),
}


@explained
def kernel_values(u: ArrayLike, kernel: Kernel = "gaussian") -> NDArray[np.float64]:
    """Evaluate a kernel, unnormalised, at distances `u` measured in bandwidths.

    Parameters
    ----------
    u : array, any shape
        Only the size of ``u`` counts for the named kernels.
    kernel : str or callable
        gaussian ``exp(-u^2/2)``, boxcar ``|u| < 1``, constant ``1``, epanechnikov ``max(1 - u^2, 0)``,
        triangular ``max(1 - |u|, 0)``, or a function of `u`.

    Returns
    -------
    ndarray, the shape of `u`

    Raises
    ------
    ValueError
        If `kernel` is an unknown name.

    Examples
    --------
    >>> kernel_values([0.0, 0.5, 2.0], "triangular")
    array([1. , 0.5, 0. ])
    """
    u = np.asarray(u, np.float64)
    if callable(kernel):
        return np.asarray(kernel(u), np.float64)
    if kernel not in KERNELS:
        raise ValueError(
            f"kernel_values: kernel must be one of {', '.join(KERNELS)} or a callable because only these are "
            f"defined; got {kernel!r}"
        )
    return KERNELS[kernel](np.abs(u))


@explained
def kernel_attention(
    queries: ArrayLike,
    keys: ArrayLike,
    values: ArrayLike,
    kernel: Kernel = "gaussian",
    bandwidth: ArrayLike = 1.0,
    *,
    valid_lens: ArrayLike | None = None,
    return_weights: bool = False,
) -> Any:
    """Average the values with weights ``K(||q - k|| / bandwidth)``, divided by their sum.

    The gaussian is computed as the softmax of ``-u^2/2``, so a query far from every key still gets its
    nearest ones.

    Parameters
    ----------
    queries : array, (Lq,) scalars, (Lq, D) points or (B, Lq, D)
    keys : array, (Lk,), (Lk, D) or (B, Lk, D)
    values : array, (Lk,) or (..., Lk, Dv)
    kernel : str or callable
        As in `kernel_values`.
    bandwidth : float
    valid_lens : array of int, (B,) or (B, Lq); an int for one sequence

    Returns
    -------
    output : ndarray, (..., Lq) for values (Lk,), else (..., Lq, Dv)
        Zeros where no key has weight.
    weights : ndarray, (..., Lq, Lk)
        Where `return_weights` is set.

    Examples
    --------
    >>> kernel_attention([0.0], [-1.0, 1.0, 9.0], [2.0, 4.0, 100.0], "boxcar", 2.0)
    array([3.])

    References
    ----------
    Nadaraya, "On estimating regression", 1964; Watson, "Smooth regression analysis", 1964.
    """
    q, k, v = (np.asarray(x, np.float64) for x in (queries, keys, values))
    if q.ndim == 1:
        q, k = q[:, None], k[:, None]  # (L, 1)
    scalar_values = v.ndim == 1
    v = v[:, None] if scalar_values else v  # (..., Lk, Dv)
    with np.errstate(invalid="ignore", over="ignore"):  # excluded keys may hold anything
        difference = q[..., :, None, :] - k[..., None, :, :]  # (..., Lq, Lk, D)
        u = np.sqrt((difference**2).sum(-1)) / np.asarray(bandwidth, np.float64)  # (..., Lq, Lk)
        allowed = allowed_by_lengths(valid_lens, u.shape)
        if kernel == "gaussian":
            w, _, _ = weights_per_row(-(u**2) / 2, allowed)
        else:
            w = _divide_by_sum(kernel_values(u, kernel), allowed)
    output = pool_rows(w, np.broadcast_to(v, (*u.shape[:-2], *v.shape[-2:])), allowed)
    output = output[..., 0] if scalar_values else output
    return (output, w) if return_weights else output


def _divide_by_sum(values: NDArray[np.float64], allowed: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Normalise kernel values over the allowed keys; a row whose sum is 0 becomes zeros."""
    kept = np.where(allowed, values, 0.0)
    total = kept.sum(-1, keepdims=True)
    return np.where(total == 0, 0.0, kept / np.where(total == 0, 1.0, total))
