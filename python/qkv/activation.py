"""Activation functions."""

from __future__ import annotations

from typing import Any, Literal

from . import _core


def relu(x: Any) -> Any:
    """``max(x, 0)``; the derivative at 0 is 0.

    Parameters
    ----------
    x : array_like or Tensor
        Any shape.

    Returns
    -------
    ndarray or Tensor
        In the shape of ``x``; differentiable. NaN stays NaN.

    Examples
    --------
    >>> qkv.relu([-1.0, 2.0])
    array([0., 2.], dtype=float32)

    References
    ----------
    Nair, Hinton, "Rectified linear units improve restricted Boltzmann machines", 2010.
    """
    return _core.relu(x)


def gelu(x: Any, approximate: Literal["none", "tanh"] = "none") -> Any:
    """``x Phi(x)``, Phi the distribution function of the standard normal distribution.

    Parameters
    ----------
    x : array_like or Tensor
        Any shape.
    approximate : "none" or "tanh"
        "tanh" is ``x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))``, which GPT-2 and some BERT models use.

    Returns
    -------
    ndarray or Tensor
        In the shape of ``x``; differentiable.

    Raises
    ------
    ValueError
        If ``approximate`` is neither.

    Examples
    --------
    >>> qkv.gelu([0.0, 1.0]).round(4)
    array([0.    , 0.8413], dtype=float32)

    References
    ----------
    Hendrycks, Gimpel, "Gaussian error linear units", 2016.
    """
    return _core.gelu(x, approximate)


def tanh(x: Any) -> Any:
    """Hyperbolic tangent ``(e^x - e^-x) / (e^x + e^-x)``.

    Parameters
    ----------
    x : array_like or Tensor
        Any shape.

    Returns
    -------
    ndarray or Tensor
        In the shape of ``x``, within -1 and 1; differentiable.

    Examples
    --------
    >>> qkv.tanh([0.0, 100.0])
    array([0., 1.], dtype=float32)
    """
    return _core.tanh(x)


def sigmoid(x: Any) -> Any:
    """``1 / (1 + exp(-x))``, without overflow and with all digits of tiny results.

    Parameters
    ----------
    x : array_like or Tensor
        Any shape.

    Returns
    -------
    ndarray or Tensor
        In the shape of ``x``, within 0 and 1; differentiable.

    Examples
    --------
    >>> qkv.sigmoid([-1000.0, 0.0])
    array([0. , 0.5], dtype=float32)
    """
    return _core.sigmoid(x)
