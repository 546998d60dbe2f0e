"""Recurrent layers as functions of a state dict and an input."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._public import explained
from .activation import sigmoid

Array = NDArray[np.float64]
State = Mapping[str, ArrayLike]


@explained
def gru_cell(x: ArrayLike, h: ArrayLike, state: State, layer: int = 0) -> Array:
    """Compute ``(1 - z) n + z h``, one step of a gated recurrent unit.

    Parameters
    ----------
    x : array, (..., M)
    h : array, (..., H)
        The state before the step.
    state : dict of arrays
        ``weight_ih_l0 (3 H, M)``, ``weight_hh_l0 (3 H, H)``, ``bias_ih_l0 (3 H,)``, ``bias_hh_l0 (3 H,)``,
        gates in the order r, z, n; the biases may be missing.
    layer : int
        The number after ``_l``.

    Returns
    -------
    ndarray, (..., H)

    Examples
    --------
    >>> gru_cell([1.0], [0.5], {"weight_ih_l0": np.zeros((3, 1)), "weight_hh_l0": np.zeros((3, 1))})
    array([0.25])
    """

    def share(kind: str, value: ArrayLike) -> list[Array]:
        total = np.asarray(value, np.float64) @ np.asarray(state[f"weight_{kind}_l{layer}"], np.float64).T
        bias = np.asarray(state.get(f"bias_{kind}_l{layer}", 0.0), np.float64)
        return np.split(total + bias, 3, axis=-1)  # (..., 3 H) to three of (..., H)

    input_r, input_z, input_n = share("ih", x)
    state_r, state_z, state_n = share("hh", h)
    r, z = sigmoid(input_r + state_r), sigmoid(input_z + state_z)
    n = np.tanh(input_n + r * state_n)
    return np.asarray((1 - z) * n + z * np.asarray(h, np.float64))


@explained
def gru(
    state: State, x: ArrayLike, initial: ArrayLike | None = None, *, valid_lens: ArrayLike | None = None
) -> tuple[Array, Array]:
    """Compute layers of gated recurrent units, step by step.

    Parameters
    ----------
    state : dict of arrays
        As in `gru_cell`, ``_l0`` for the first layer, ``_l1`` for the second and so on.
    x : array, (B, T, M)
    initial : array, (layers, B, H), optional
        Zeros if not given.
    valid_lens : array of int, (B,), optional
        Steps after them leave the state as it is and give zeros.

    Returns
    -------
    outputs : ndarray, (B, T, H)
        Of the last layer.
    last : ndarray, (layers, B, H)
        The state of each layer after the last valid step.

    Examples
    --------
    >>> weights = {"weight_ih_l0": np.zeros((3, 1)), "weight_hh_l0": np.zeros((3, 1))}
    >>> outputs, last = gru(weights, np.ones((1, 3, 1)), [[[1.0]]], valid_lens=[2])
    >>> outputs[0, :, 0], last
    (array([0.5 , 0.25, 0.  ]), array([[[0.25]]]))
    """
    y = np.asarray(x, np.float64)
    B, T, _ = y.shape
    H = np.shape(state["weight_hh_l0"])[1]
    layers = sum(name.startswith("weight_hh_l") for name in state)
    h0 = np.zeros((layers, B, H)) if initial is None else np.asarray(initial, np.float64)
    lens = np.full(B, T) if valid_lens is None else np.asarray(valid_lens)
    last = []
    for layer in range(layers):
        h, outputs = h0[layer], np.zeros((B, T, H))
        for t in range(T):
            running = (t < lens)[:, None]  # (B, 1)
            h = np.where(running, gru_cell(np.where(running, y[:, t], 0), h, state, layer), h)  # (B, H)
            outputs[:, t] = np.where(running, h, 0)
        y = outputs
        last.append(h)
    return y, np.stack(last)
