"""Activation functions."""

from __future__ import annotations

from typing import Literal

from .. import _core
from .._public import explained
from .._types import Numbers, Result
from .docstrings import complete


@explained
def relu(x: Numbers) -> Result:
    """
    >>> qkv.relu([-1.0, 2.0])
    array([0., 2.], dtype=float32)

    References
    ----------
    Nair, Hinton, "Rectified linear units improve restricted Boltzmann machines", 2010.
    """
    return _core.relu(x)


@explained
def gelu(x: Numbers, approximate: Literal["none", "tanh"] = "none") -> Result:
    """
    Parameters
    ----------
    approximate : "none" or "tanh"
        "tanh" is ``x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))``, which GPT-2 and some BERT models use.

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


@explained
def tanh(x: Numbers) -> Result:
    """
    >>> qkv.tanh([0.0, 100.0])
    array([0., 1.], dtype=float32)
    """
    return _core.tanh(x)


@explained
def sigmoid(x: Numbers) -> Result:
    """
    >>> qkv.sigmoid([-1000.0, 0.0])
    array([0. , 0.5], dtype=float32)
    """
    return _core.sigmoid(x)


@explained
def silu(x: Numbers) -> Result:
    """
    >>> qkv.silu([0.0, 1.0]).round(4)
    array([0.    , 0.7311], dtype=float32)

    References
    ----------
    Elfwing, Uchibe, Doya, "Sigmoid-weighted linear units for neural network function approximation in reinforcement
    learning", 2017.
    """
    return _core.silu(x)


@explained
def leaky_relu(x: Numbers, negative_slope: float = 0.01) -> Result:
    """``x`` above 0, ``negative_slope x`` below; the derivative at 0 is that from below.

    Parameters
    ----------
    negative_slope : float
        The slope below 0.

    Raises
    ------
    TypeError
        If ``negative_slope`` is no number.

    Examples
    --------
    >>> qkv.leaky_relu([-1.0, 2.0])
    array([-0.01,  2.  ], dtype=float32)

    References
    ----------
    Maas, Hannun, Ng, "Rectifier nonlinearities improve neural network acoustic models", 2013.
    """
    return _core.leaky_relu(x, negative_slope)


@explained
def elu(x: Numbers, alpha: float = 1.0) -> Result:
    """``x`` above 0, ``alpha (exp(x) - 1)`` below; the derivative at 0 is that from below.

    Parameters
    ----------
    alpha : float
        What it approaches, negated, far below 0.

    Raises
    ------
    TypeError
        If ``alpha`` is no number.

    Examples
    --------
    >>> qkv.elu([-1.0, 2.0]).round(4)
    array([-0.6321,  2.    ], dtype=float32)

    References
    ----------
    Clevert, Unterthiner, Hochreiter, "Fast and accurate deep network learning by exponential linear units", 2015.
    """
    return _core.elu(x, alpha)


@explained
def softplus(x: Numbers, beta: float = 1.0) -> Result:
    """``log(1 + exp(beta x)) / beta``, without overflow and with all digits of tiny results.

    PyTorch's gives ``x`` itself where ``beta x`` is above 20, which differs by less than 2.1e-9.

    Parameters
    ----------
    beta : float
        How sharply it turns at 0.

    Raises
    ------
    ValueError
        If ``beta`` is not positive.

    Examples
    --------
    >>> qkv.softplus([0.0, 100.0]).round(4)
    array([  0.6931, 100.    ], dtype=float32)

    References
    ----------
    Dugas et al., "Incorporating second-order functional knowledge for better option pricing", 2000.
    """
    return _core.softplus(x, beta)


complete(__name__)
