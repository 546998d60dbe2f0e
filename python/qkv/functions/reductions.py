"""Sums and products along axes: running ones, in the logarithm, and the norm that vectors are divided by."""

from __future__ import annotations

from .. import _core
from .._public import explained
from .._types import Numbers, Result
from .docstrings import complete

__all__ = ["cumprod", "cumsum", "logsumexp", "normalize"]


@explained
def logsumexp(x: Numbers, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Result:
    """``log(sum(exp(x)))`` over an axis, safe for numbers of any size; its gradient is the softmax.

    Parameters
    ----------
    axis : int or tuple of int, optional
        None means all of them.

    Returns
    -------
    ndarray or Tensor

    Examples
    --------
    >>> round(float(qkv.logsumexp([1000.0, 1000.0])), 3)
    1000.693
    """
    return _core.logsumexp(x, axis, keepdims)


@explained
def cumsum(x: Numbers, axis: int | None = None) -> Result:
    """Sums of the numbers up to each place.

    Parameters
    ----------
    x : array_like or Tensor
        Any shape; integers stay integers.
    axis : int, optional
        Along which axis; None flattens ``x``.

    Returns
    -------
    ndarray or Tensor
        In the shape of ``x``, or one axis with all its numbers; differentiable.

    Examples
    --------
    >>> qkv.cumsum([[1, 2, 3], [4, 5, 6]], axis=1)
    array([[ 1,  3,  6],
           [ 4,  9, 15]])
    """
    return _core.cumsum(x, axis)


@explained
def cumprod(x: Numbers, axis: int | None = None) -> Result:
    """Products of the numbers up to each place.

    Parameters
    ----------
    x : array_like or Tensor
        Any shape; integers stay integers.
    axis : int, optional
        Along which axis; None flattens ``x``.

    Returns
    -------
    ndarray or Tensor
        In the shape of ``x``, or one axis with all its numbers; differentiable.

    Examples
    --------
    >>> qkv.cumprod([[1, 2, 3], [4, 5, 6]], axis=1)
    array([[  1,   2,   6],
           [  4,  20, 120]])
    """
    return _core.cumprod(x, axis)


@explained
def normalize(
    x: Numbers, p: float = 2.0, axis: int | tuple[int, ...] | None = -1, eps: float = 1e-12
) -> Result:
    """``x / max(|x|_p, eps)``: vectors of length 1 along an axis.

    Parameters
    ----------
    p : float
        The order of the norm ``(sum |x|^p)^(1/p)``; 1, 2 and inf are the usual ones.
    axis : int or tuple of int, optional
        Along which axes the norm is taken, the last one unless given; None means all of them. PyTorch's default is
        axis 1.
    eps : float
        The least that is divided by.

    Returns
    -------
    ndarray or Tensor
        In the shape of ``x``; differentiable. A vector of zeros stays one.

    Raises
    ------
    ValueError
        If ``p`` or ``eps`` is not positive.

    Examples
    --------
    >>> qkv.normalize([3.0, 4.0])
    array([0.6, 0.8], dtype=float32)
    """
    return _core.normalize(x, p, axis, eps)


complete(__name__)
