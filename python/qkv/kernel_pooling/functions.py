"""Kernels of a distance, and attention whose weights are one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .. import _core
from .._core import Tensor
from .._public import explained
from .._types import Numbers, Result

Kernel = str | Callable[[Any], Any]


@explained
def kernel_values(u: Numbers, kernel: Kernel = "gaussian") -> Result:
    """Kernel ``K(|u|)`` of a distance ``u`` measured in bandwidths, unnormalised.

    Parameters
    ----------
    u : array_like or Tensor
        Any shape.
    kernel : str or callable, default "gaussian"
        "gaussian" ``exp(-u^2/2)``, "boxcar" ``1 where |u| < 1``, "constant" ``1``, "epanechnikov"
        ``max(1 - u^2, 0)``, "triangular" ``max(1 - |u|, 0)``, or a function of ``u``.

    Returns
    -------
    ndarray or Tensor
        In the shape of ``u``; differentiable.

    Raises
    ------
    ValueError
        If the name is unknown.

    Notes
    -----
    Some texts call the triangular kernel Epanechnikov's. Constant factors are left out: they cancel in the
    weights.

    Examples
    --------
    >>> qkv.kernel_values([0.0, -0.5, 2.0], "triangular")
    array([1. , 0.5, 0. ], dtype=float32)
    """
    return _called("kernel_values", kernel, u) if callable(kernel) else _core.kernel_values(u, kernel)


def _called(operation: str, kernel: Callable[[Any], Any], u: Any) -> Any:
    values = kernel(u)
    recorded = isinstance(u, Tensor) and u.requires_grad and _core.grad_enabled()
    if recorded and not isinstance(values, Tensor):
        raise TypeError(
            f"{operation}: kernel must return a Tensor because anything else has lost the gradient, which is recorded "
            f"here; got {type(values).__name__}"
        )
    return values


@explained
def kernel_attention(
    queries: Numbers,
    keys: Numbers,
    values: Numbers,
    kernel: Kernel = "gaussian",
    bandwidth: Numbers = 1.0,
    *,
    valid_lens: ArrayLike | None = None,
    return_weights: bool = False,
) -> Result:
    """Nadaraya-Watson pooling ``sum_j K(u_ij) v_j / sum_j K(u_ij)``, ``u_ij = ||q_i - k_j|| / bandwidth``.

    Differentiable with respect to queries, keys, values and bandwidth; at distance 0 the gradient of the
    distance is 0. Needs O(L) memory unless the weights are asked for (or the kernel is a callable).

    Parameters
    ----------
    queries : array_like or Tensor, (Lq,), (Lq, D) or (B, Lq, D)
        Scalars, points or batches of points.
    keys : array_like or Tensor, (Lk,), (Lk, D) or (B, Lk, D)
    values : array_like or Tensor, (Lk,), (Lk, Dv) or (B, Lk, Dv)
    kernel : str or callable, default "gaussian"
        A name as in `kernel_values`, or a function that takes ``u``, an array or a Tensor (..., Lq, Lk), and
        gives the weights before normalisation in the same shape.
    bandwidth : float, 0-d array or Tensor, default 1.0
        Above 0, in the units of the queries.
    valid_lens : int or array_like of int, optional
        How many keys are real: an int or (Lq,) without a batch, else (B,) or (B, Lq). What comes after is
        not read.
    return_weights : bool, default False

    Returns
    -------
    output : ndarray or Tensor, (..., Lq) for values (Lk,), else (..., Lq, Dv)
        Zeros for a query to which no key gives weight.
    weights : ndarray or Tensor, (..., Lq, Lk)
        If ``return_weights``: rows sum to 1.

    Raises
    ------
    ValueError
        If shapes do not fit, the kernel is unknown, or the bandwidth is not one number above 0.

    Notes
    -----
    The gaussian is a softmax of ``-u^2/2``, so a query far from all keys gets its nearest ones, not 0/0.

    References
    ----------
    Nadaraya, "On estimating regression", 1964; Watson, "Smooth regression analysis", 1964.

    Examples
    --------
    >>> qkv.kernel_attention([0.0], [-1.0, 1.0, 9.0], [2.0, 4.0, 100.0], "boxcar", bandwidth=2.0)
    array([3.], dtype=float32)
    """
    if not callable(kernel):
        return _core.kernel_attention(queries, keys, values, kernel, bandwidth, valid_lens, return_weights)
    u = _core.scaled_distances(queries, keys, bandwidth, valid_lens)  # (..., Lq, Lk)
    weights = _called("kernel_attention", kernel, u)
    if tuple(np.shape(weights)) != tuple(u.shape):
        raise ValueError(
            f"kernel_attention: kernel must return an array of the shape of u, {tuple(u.shape)}, because "
            f"each distance has a weight; got {tuple(np.shape(weights))}"
        )
    return _core.pool_by_kernel(weights, values, valid_lens, return_weights)
