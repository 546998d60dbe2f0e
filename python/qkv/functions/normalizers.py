"""Softmax and its relatives, plain and masked."""

from __future__ import annotations

from numpy.typing import ArrayLike

from .. import _core
from .._public import explained
from .._types import Numbers, Result
from .docstrings import complete


@explained
def softmax(x: Numbers, axis: int = -1, temperature: float = 1.0) -> Result:
    """``exp(x / temperature)``, divided by its sum along an axis.

    Returns
    -------
    ndarray or Tensor
        In the shape of ``x``; differentiable. This is the plain formula: a row of ``-inf`` becomes NaN.
        :func:`masked_softmax` gives zeros there.

    Examples
    --------
    >>> qkv.softmax([0.0, 0.0, -np.inf])
    array([0.5, 0.5, 0. ], dtype=float32)

    References
    ----------
    Bridle, "Probabilistic interpretation of feedforward classification network outputs", 1990.
    """
    return _core.softmax(x, axis, temperature)


@explained
def log_softmax(x: Numbers, axis: int = -1, temperature: float = 1.0) -> Result:
    """``x / temperature - logsumexp(x / temperature)`` along an axis: the logarithm of the softmax.

    Returns
    -------
    ndarray or Tensor
        In the shape of ``x``; differentiable. Finite where the softmax itself has already become 0.

    Examples
    --------
    >>> qkv.log_softmax([0.0, 1000.0])
    array([-1000.,     0.], dtype=float32)
    """
    return _core.log_softmax(x, axis, temperature)


@explained
def sparsemax(x: Numbers, axis: int = -1) -> Result:
    """``max(x - tau, 0)`` with the ``tau`` that makes the sum along an axis 1: the weights that are nearest to ``x``.

    Returns
    -------
    ndarray or Tensor
        In the shape of ``x``; differentiable. Entries far enough below the largest are exactly 0. A row without a
        finite largest entry becomes NaN, as in :func:`softmax`.

    Examples
    --------
    >>> qkv.sparsemax([1.0, 0.5, -1.0])
    array([0.75, 0.25, 0.  ], dtype=float32)

    References
    ----------
    Martins, Astudillo, From Softmax to Sparsemax: A Sparse Model of Attention and Multi-Label Classification, 2016.
    """
    return _core.sparsemax(x, axis)


@explained
def entmax(x: Numbers, alpha: float = 1.5, axis: int = -1) -> Result:
    """``max((alpha - 1) x - tau, 0) ** (1 / (alpha - 1))``, with the ``tau`` that makes the sum along an axis 1.

    Parameters
    ----------
    alpha : float
        At least 1: the softmax. 2 is :func:`sparsemax`; the larger, the more entries are 0.

    Returns
    -------
    ndarray or Tensor
        In the shape of ``x``; differentiable.

    Raises
    ------
    ValueError
        If ``axis`` is no axis of ``x``, or ``alpha`` is below 1.

    Examples
    --------
    >>> qkv.entmax([1.0, 0.5, -1.0]).round(3)
    array([0.674, 0.326, 0.   ], dtype=float32)

    References
    ----------
    Peters, Niculae, Martins, Sparse Sequence-to-Sequence Models, 2019.
    """
    return _core.entmax(x, alpha, axis)


@explained
def masked_softmax(
    scores: Numbers,
    valid_lens: ArrayLike | None = None,
    *,
    mask: ArrayLike | None = None,
    masked_value: float | None = None,
) -> Result:
    """Softmax of each row of scores over its allowed keys; the others get weight 0.

    Parameters
    ----------
    scores : array_like or Tensor
        ``(Lq, Lk)``, ``(B, Lq, Lk)`` or ``(B, H, Lq, Lk)``.
    valid_lens : array_like of int, optional
        ``(B,)`` or ``(B, Lq)``, an int for scores ``(Lq, Lk)``: how many leading keys, ``0..Lk``, a query
        sees.
    mask : array_like or Tensor, optional
        Broadcasts to the shape of ``scores`` by NumPy's rules, so a mask per batch entry beside heads is
        ``(B, 1, Lq, Lk)``. Boolean (True = may attend) or floating (added to the scores; ``-inf`` excludes;
        differentiable if it is a Tensor). Both kinds of exclusion combine: a key must be allowed by each.
    masked_value : float, optional
        Replaces excluded scores instead of skipping them, which is what many tutorials do with ``-1e6``: then
        a row without allowed keys becomes uniform.

    Returns
    -------
    ndarray or Tensor
        In the shape of ``scores``; differentiable. What is at an excluded place, NaN and infinity
        included, has no influence. A row without allowed keys, or with ``-inf`` alone, becomes zeros and has
        a zero gradient.

    Raises
    ------
    ValueError
        If a shape does not fit, or a length is outside ``0..Lk``.
    TypeError
        If ``mask`` or ``valid_lens`` is of the wrong kind; integers as a mask could mean either kind.

    Examples
    --------
    >>> qkv.masked_softmax([[0.0, 0.0, 7.0]], 2)
    array([[0.5, 0.5, 0. ]], dtype=float32)

    References
    ----------
    Zhang, Lipton, Li, Smola, "Dive into deep learning", section 11.3, whose function fills with ``-1e6`` and
    writes into its argument.
    """
    return _core.masked_softmax(scores, valid_lens, mask, masked_value)


@explained
def softmax_jacobian(x: Numbers) -> Result:
    """``diag(p) - p p^T`` for ``p = softmax(x)`` on the last axis.

    Parameters
    ----------
    x : array_like or Tensor
        ``(..., n)``.

    Returns
    -------
    ndarray or Tensor
        ``(..., n, n)``; entry ``(i, j)`` is the slope of ``p[i]`` with respect to ``x[j]``. Differentiable.

    Raises
    ------
    ValueError
        If ``x`` has no axis.

    Examples
    --------
    >>> qkv.softmax_jacobian([0.0, 0.0])
    array([[ 0.25, -0.25],
           [-0.25,  0.25]], dtype=float32)
    """
    return _core.softmax_jacobian(x)


complete(__name__)
