"""One step of each optimizer for one array: parameter, gradient and state in, parameter and state out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._public import explained

Array = NDArray[np.float64]
State = dict[str, Any]


@explained
def sgd_step(
    parameter: ArrayLike,
    gradient: ArrayLike,
    state: State | None = None,
    *,
    lr: float,
    momentum: float = 0.0,
    weight_decay: float = 0.0,
    nesterov: bool = False,
) -> tuple[Array, State]:
    """Compute ``v = momentum v + g``, ``w -= lr v`` with ``g += weight_decay w`` before.

    Parameters
    ----------
    parameter, gradient : array, the same shape
    state : dict, optional
        What the step before returned; None at the first.
    lr, momentum, weight_decay : float
    nesterov : bool
        ``w -= lr (g + momentum v)`` instead.

    Returns
    -------
    parameter : ndarray
    state : dict

    Examples
    --------
    >>> sgd_step([1.0], [2.0], lr=0.5)[0]
    array([0.])
    """
    w, g = np.asarray(parameter, np.float64), np.asarray(gradient, np.float64)
    g = g + weight_decay * w
    velocity = g if not state else momentum * state["velocity"] + g
    step = g + momentum * velocity if nesterov else velocity
    return w - lr * step, {"velocity": velocity}


@explained
def adam_step(
    parameter: ArrayLike,
    gradient: ArrayLike,
    state: State | None = None,
    *,
    lr: float = 1e-3,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
    weight_decay: float = 0.0,
) -> tuple[Array, State]:
    """Compute ``w -= lr m^ / (sqrt(v^) + eps)`` with the bias-corrected averages of ``g`` and ``g^2``.

    Parameters
    ----------
    parameter, gradient : array, the same shape
    state : dict, optional
        What the step before returned; None at the first.
    lr, eps : float
    betas : (float, float)
    weight_decay : float
        Added to the gradient: ``g += weight_decay w``.

    Returns
    -------
    parameter : ndarray
    state : dict

    Examples
    --------
    >>> adam_step([1.0], [5.0], lr=0.5)[0].round(6)
    array([0.5])

    References
    ----------
    Kingma, Ba, "Adam: a method for stochastic optimization", 2015.
    """
    w, g = np.asarray(parameter, np.float64), np.asarray(gradient, np.float64)
    g = g + weight_decay * w
    state = state or {"step": 0, "m": np.zeros_like(w), "v": np.zeros_like(w)}
    t = state["step"] + 1
    m = betas[0] * state["m"] + (1 - betas[0]) * g
    v = betas[1] * state["v"] + (1 - betas[1]) * g**2
    m_hat, v_hat = m / (1 - betas[0] ** t), v / (1 - betas[1] ** t)
    return w - lr * m_hat / (np.sqrt(v_hat) + eps), {"step": t, "m": m, "v": v}


@explained
def adamw_step(
    parameter: ArrayLike,
    gradient: ArrayLike,
    state: State | None = None,
    *,
    lr: float = 1e-3,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
    weight_decay: float = 0.01,
) -> tuple[Array, State]:
    """Compute ``w -= lr weight_decay w``, then Adam's step without decay.

    Parameters and results are those of `adam_step`.

    Examples
    --------
    >>> adamw_step([1.0], [0.0], lr=0.5, weight_decay=0.2)[0]
    array([0.9])

    References
    ----------
    Loshchilov, Hutter, "Decoupled weight decay regularization", 2019.
    """
    w = np.asarray(parameter, np.float64) * (1 - lr * weight_decay)
    return adam_step(w, gradient, state, lr=lr, betas=betas, eps=eps)


@explained
def clip_grad_norm(gradients: Sequence[ArrayLike], max_norm: float) -> tuple[float, list[Array]]:
    """Compute ``g * min(1, max_norm / (norm + 1e-6))``, the norm being that of all gradients together.

    Parameters
    ----------
    gradients : list of arrays
    max_norm : float

    Returns
    -------
    norm : float
        Before clipping.
    gradients : list of ndarray

    Examples
    --------
    >>> norm, (g,) = clip_grad_norm([[3.0, 4.0]], 1.0)
    >>> norm, g.round(3)
    (5.0, array([0.6, 0.8]))
    """
    arrays = [np.asarray(g, np.float64) for g in gradients]
    norm = float(np.sqrt(sum(float((g**2).sum()) for g in arrays)))
    factor = min(1.0, max_norm / (norm + 1e-6))
    return norm, [g * factor for g in arrays]
