"""Recurrent layers, time first unless ``batch_first``: RNN, LSTM, GRU."""

from __future__ import annotations

from typing import Any

from ... import _core
from ..._words.errors import shown
from .._arguments import flag
from .._creation import zeros
from .._settings import constructor
from .._shaping import cat, stack
from .._tensor import Core, Tensor, wrap
from . import functional as F
from ._layers import add_parameter, draw_evenly
from ._module import Module

_REST = "bias=True, batch_first=False, dropout=0.0, bidirectional=False, device=None, dtype=None"


_NAMES = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")


def _each(state, f):
    """A function of a state, or of both of an LSTM."""
    if state is None:
        return None
    return tuple(map(f, state)) if isinstance(state, tuple) else f(state)


class _Recurrent(Module):
    """Layers one after the other, the weights of their gates, and how a layer goes through time."""

    __init__ = constructor(f"input_size, hidden_size, num_layers=1, {_REST}")
    _shown = "=input_size =hidden_size num_layers? bias? batch_first? dropout? bidirectional?"
    _gates = 1
    _pair = False  # whether the state is h and c

    def _configure(self, kind, **settings) -> None:
        flag(type(self).__name__, "bias", settings["bias"])
        for name in ("hidden_size", "num_layers"):
            if settings[name] < 1:
                raise ValueError(f"{name} must be greater than zero")
        if settings["dropout"] is True or not 0 <= settings["dropout"] <= 1:
            raise ValueError(
                "dropout should be a number in range [0, 1] representing the probability of an element being zeroed; "
                f"got {settings['dropout']}"
            )
        super()._configure(**settings)
        rows = self._gates * self.hidden_size
        for layer in range(self.num_layers):
            width = self.hidden_size * len(self._ends(0)) if layer else self.input_size
            for end in self._ends(layer):
                add_parameter(self, f"weight_ih{end}", rows, width, **kind)
                add_parameter(self, f"weight_hh{end}", rows, self.hidden_size, **kind)
                for name in (f"bias_ih{end}", f"bias_hh{end}") if self.bias else ():
                    add_parameter(self, name, rows, **kind)
        self.reset_parameters()

    def _ends(self, layer: int) -> list[str]:
        return [f"_l{layer}", f"_l{layer}_reverse"][: 2 if self.bidirectional else 1]

    @property
    def _flat_weights_names(self) -> list[str]:
        return list(self._parameters)

    def flatten_parameters(self) -> None:
        """Nothing to do on the CPU."""

    def _weights(self, end: str) -> list[Any]:
        return [getattr(self, f"{name}{end}", None) for name in _NAMES]

    def reset_parameters(self) -> None:
        """Draw all parameters from ``+-1 / sqrt(hidden_size)``."""
        draw_evenly(self, self.hidden_size)

    def _checked_weights(self, end: str, x) -> list[Any]:
        weights, rows = self._weights(end), self._gates * self.hidden_size
        if x.dtype is not weights[0].dtype:
            raise ValueError(f"input must have the type {weights[0].dtype}, got type {x.dtype}")
        shapes = ((rows, x.shape[-1]), (rows, self.hidden_size), (rows,), (rows,))
        for name, weight, shape in zip(_NAMES, weights, shapes, strict=True):
            if weight is not None and (tuple(weight.shape) != shape or weight.dtype is not x.dtype):
                found = f"{list(weight.shape)} of {weight.dtype}"
                raise RuntimeError(
                    f"{type(self).__name__}: {name}{end} must be {list(shape)} of {x.dtype}; got {found}"
                )
        return weights

    def _start(self, hx, shape: tuple[int, ...], x):
        """The given state, of that shape and the dtype of x; zeros if there is none."""
        if hx is None:
            start = zeros(*shape, dtype=x.dtype)
            return (start, start) if self._pair else start
        name = type(self).__name__
        parts = tuple(hx) if self._pair and isinstance(hx, (tuple, list)) else (hx,)
        if len(parts) != 1 + self._pair or not all(isinstance(part, Tensor) for part in parts):
            wanted = "a tuple (h, c) of two Tensors" if self._pair else "a Tensor"
            raise TypeError(f"{name}: hx must be {wanted}; got {shown(hx)}")
        for part in parts:
            if tuple(part.shape) != shape:
                raise RuntimeError(f"Expected hidden size {shape}, got {list(part.shape)}")
            if part.dtype is not x.dtype:
                raise RuntimeError(f"{name}: hx must have the type of the input, {x.dtype}; got {part.dtype}")
        return parts if self._pair else hx

    def _check_input(self, input) -> None:
        name = type(self).__name__
        if not isinstance(input, Tensor):
            raise TypeError(
                f"{name}: input must be a Tensor; got {type(input).__name__}. Packed sequences are not known to "
                "qkv.torch; qkv.nn.GRU takes valid_lens"
            )
        if len(input.shape) not in (2, 3):
            raise ValueError(f"{name}: Expected input to be 2D or 3D, got {len(input.shape)}D instead")
        if (width := input.shape[-1]) != self.input_size:
            words = "input.size(-1) must be equal to input_size"
            raise RuntimeError(f"{words}. Expected {self.input_size}, got {width}")

    def _layer(self, x, state, weights: list[Any]) -> tuple[Tensor, Any]:
        """One layer in one direction: x ``(T, B, M)`` and its state to outputs ``(T, B, H)`` and the last state."""
        steps = []
        given_all, (T, B, _) = F.linear(x, weights[0], weights[2]), x.shape
        for given in _core.steps_apart(Core.reshape(given_all, (T * B, len(weights[0]))), T):
            state = self._step(given, state, weights)
            steps.append(state[0] if self._pair else state)
        return stack(steps), state

    def _step(self, given, state, weights: list[Any]):
        raise NotImplementedError

    def forward(self, input, hx=None) -> tuple[Tensor, Any]:
        """``(T, B, input_size)`` and a state ``(layers, B, H)`` to outputs ``(T, B, H)`` and the last state."""
        self._check_input(input)
        batched, directions = len(input.shape) == 3, len(self._ends(0))
        if batched and self.batch_first:
            input = input.transpose(0, 1)
        if input.shape[0] == 0:
            raise RuntimeError("Expected sequence length to be larger than 0 in RNN")
        batch = (input.shape[1],) if batched else ()
        hx = self._start(hx, (self.num_layers * directions, *batch, self.hidden_size), input)
        if not batched:
            input, hx = input.unsqueeze(1), _each(hx, lambda s: s.unsqueeze(1))
        x, last = input, []
        for layer in range(self.num_layers):
            x = F.dropout(x, self.dropout, self.training) if layer else x
            outputs = []
            for direction, end in enumerate(self._ends(layer)):
                state = _each(hx, lambda s, i=layer * directions + direction: s[i])
                out, state = self._layer(x.flip(0) if direction else x, state, self._checked_weights(end, x))
                outputs.append(out.flip(0) if direction else out)
                last.append(state)
            x = outputs[0] if len(outputs) == 1 else cat(outputs, -1)
        final = tuple(map(stack, zip(*last, strict=True))) if self._pair else stack(last)
        if not batched:
            return x.squeeze(1), _each(final, lambda s: s.squeeze(1))
        return (x.transpose(0, 1) if self.batch_first else x), final


class GRU(_Recurrent):
    """Gated recurrent units.

    Examples
    --------
    >>> import qkv.torch as torch
    >>> outputs, state = torch.nn.GRU(3, 5, num_layers=2)(torch.ones(7, 2, 3))  # (T, B, M)
    >>> outputs.shape, state.shape
    (torch.Size([7, 2, 5]), torch.Size([2, 2, 5]))
    """

    _gates = 3

    def _layer(self, x, state, weights: list[Any]) -> tuple[Tensor, Any]:
        outputs, last = _core.gru_layer(Core.transpose(x, (1, 0, 2)), state, self.hidden_size, *weights)
        outputs = Core.copy(Core.transpose(outputs, (1, 0, 2)))
        return wrap(outputs, "StackBackward0"), wrap(last, "AddBackward0")


class LSTM(_Recurrent):
    """Long short-term memory."""

    _gates, _pair = 4, True

    def _step(self, given, state, weights: list[Any]):
        h, c = _core.lstm_step(given, F.linear(state[0], weights[1], weights[3]), state[1])
        return wrap(h, "MulBackward0"), wrap(c, "AddBackward0")


class RNN(_Recurrent):
    """Plain recurrence: ``tanh`` or ``relu`` of input plus state."""

    __init__ = constructor(f"input_size, hidden_size, num_layers=1, nonlinearity='tanh', {_REST}")

    def _configure(self, nonlinearity: str, **settings) -> None:
        if nonlinearity not in ("tanh", "relu"):
            name = type(self).__name__
            raise ValueError(f"{name}: nonlinearity must be 'tanh' or 'relu'; got {shown(nonlinearity)}")
        super()._configure(nonlinearity=nonlinearity, **settings)

    def _step(self, given, state, weights: list[Any]):
        total = F.linear(state, weights[1], weights[3]) + wrap(given, "UnbindBackward0")
        return F.tanh(total) if self.nonlinearity == "tanh" else F.relu(total)
