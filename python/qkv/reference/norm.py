"""Normalisation layers."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._public import explained

Array = NDArray[np.float64]


@explained
def layer_norm(
    x: ArrayLike,
    weight: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    eps: float = 1e-5,
    *,
    normalized_shape: int | tuple[int, ...] | None = None,
) -> Array:
    """Compute ``(x - mean) / sqrt(var + eps) * weight + bias`` with the biased variance.

    Parameters
    ----------
    x : array, ``(..., *normalized_shape)``
    weight, bias : array, normalized_shape, optional
    eps : float
    normalized_shape : int or tuple of int
        The trailing axes over which mean and variance run; the last one unless given.

    Returns
    -------
    ndarray, the shape of `x`

    Raises
    ------
    ValueError
        If `x` does not end in `normalized_shape`.

    Examples
    --------
    >>> layer_norm([1.0, 3.0], eps=0.0)
    array([-1.,  1.])
    """
    x = np.asarray(x, np.float64)
    axes = _trailing_axes(x, normalized_shape, "layer_norm")
    centred = x - x.mean(axes, keepdims=True)
    y = centred / np.sqrt((centred**2).mean(axes, keepdims=True) + eps)
    return _scale_and_shift(y, weight, bias)


@explained
def rms_norm(
    x: ArrayLike,
    weight: ArrayLike | None = None,
    eps: float = 1e-6,
    *,
    normalized_shape: int | tuple[int, ...] | None = None,
) -> Array:
    """Compute ``x / sqrt(mean(x^2) + eps) * weight``.

    Parameters
    ----------
    x : array, ``(..., *normalized_shape)``
    weight : array, normalized_shape, optional
    eps : float
    normalized_shape : int or tuple of int
        The last axis unless given.

    Returns
    -------
    ndarray, the shape of `x`

    Raises
    ------
    ValueError
        If `x` does not end in `normalized_shape`.

    Examples
    --------
    >>> rms_norm([1.0, -1.0], [2.0, 3.0], eps=0.0)
    array([ 2., -3.])
    """
    x = np.asarray(x, np.float64)
    axes = _trailing_axes(x, normalized_shape, "rms_norm")
    return _scale_and_shift(x / np.sqrt((x**2).mean(axes, keepdims=True) + eps), weight, None)


def _trailing_axes(
    x: Array, normalized_shape: int | tuple[int, ...] | None, operation: str
) -> tuple[int, ...]:
    if normalized_shape is None:
        return (-1,)
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    if x.shape[-len(shape) :] != shape:
        raise ValueError(
            f"{operation}: x must end in {shape} because these axes are normalised; got x {x.shape}"
        )
    return tuple(range(-len(shape), 0))


def _scale_and_shift(y: Array, weight: ArrayLike | None, bias: ArrayLike | None) -> Array:
    y = y if weight is None else y * np.asarray(weight, np.float64)
    return y if bias is None else y + np.asarray(bias, np.float64)
