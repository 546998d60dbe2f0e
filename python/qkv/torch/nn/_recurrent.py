"""Recurrent layers, time first unless ``batch_first``: RNN, LSTM, GRU and their cells."""

from __future__ import annotations

from typing import Any

from ... import _core
from ..._errors import shown
from .._creation import zeros
from .._settings import constructor
from .._shaping import cat, stack
from .._tensor import Core, Tensor, wrap
from . import functional as F
from ._layers import add_parameter, draw_evenly
from ._module import Module

_REST = "bias=True, batch_first=False, dropout=0.0, bidirectional=False, device=None, dtype=None"


def _each(state, f):
    """A function of a state, or of both of an LSTM."""
    if state is None:
        return None
    return tuple(map(f, state)) if isinstance(state, tuple) else f(state)


class _Rule(Module):
    """The weights of gates, and how a layer goes through time."""

    _gates = 1
    _pair = False  # whether the state is h and c

    def _add_weights(self, end: str, width: int, **kind) -> None:
        rows = self._gates * self.hidden_size
        add_parameter(self, f"weight_ih{end}", rows, width, **kind)
        add_parameter(self, f"weight_hh{end}", rows, self.hidden_size, **kind)
        for name in (f"bias_ih{end}", f"bias_hh{end}"):
            if self.bias or not end:
                add_parameter(self, name, rows, wanted=self.bias, **kind)

    def _weights(self, end: str) -> list[Any]:
        return [getattr(self, f"{n}{end}", None) for n in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]

    def reset_parameters(self) -> None:
        """Draw all parameters from ``+-1 / sqrt(hidden_size)``."""
        draw_evenly(self, self.hidden_size)

    def _zeros(self, *shape: int, dtype):
        start = zeros(*shape, self.hidden_size, dtype=dtype)
        return (start, start) if self._pair else start

    def _layer(self, x, state, weights: list[Any]) -> tuple[Tensor, Any]:
        """One layer in one direction: x ``(T, B, M)`` and its state to outputs ``(T, B, H)`` and the last state."""
        steps = []
        for given in F.linear(x, weights[0], weights[2]).unbind(0):
            state = self._step(given, state, weights)
            steps.append(state[0] if self._pair else state)
        return stack(steps), state

    def _step(self, given, state, weights: list[Any]):
        raise NotImplementedError


class _Layers(_Rule):
    __init__ = constructor(f"input_size, hidden_size, num_layers=1, {_REST}")

    _shown = "=input_size =hidden_size num_layers? bias? batch_first? dropout? bidirectional?"

    def _configure(self, kind, **settings) -> None:
        super()._configure(**settings)
        for layer in range(self.num_layers):
            width = self.hidden_size * len(self._ends(0)) if layer else self.input_size
            for end in self._ends(layer):
                self._add_weights(end, width, **kind)
        self.reset_parameters()

    def _ends(self, layer: int) -> list[str]:
        return [f"_l{layer}", f"_l{layer}_reverse"][: 2 if self.bidirectional else 1]

    @property
    def _flat_weights_names(self) -> list[str]:
        return list(self._parameters)

    @property
    def all_weights(self) -> list[list[Any]]:
        """The parameters of each layer."""
        ends = [end for layer in range(self.num_layers) for end in self._ends(layer)]
        return [[w for w in self._weights(end) if w is not None] for end in ends]

    def flatten_parameters(self) -> None:
        """Nothing to do on the CPU."""

    def forward(self, input, hx=None) -> tuple[Tensor, Any]:
        """``(T, B, input_size)`` and a state ``(layers, B, H)`` to outputs ``(T, B, H)`` and the last state."""
        if not isinstance(input, Tensor):
            raise TypeError(
                f"{type(self).__name__}: input must be a Tensor; got {type(input).__name__}. Packed sequences are not "
                "known to qkv.torch; qkv.nn.GRU takes valid_lens"
            )
        batched, directions = len(input.shape) == 3, len(self._ends(0))
        if not batched:
            input, hx = input.unsqueeze(1), _each(hx, lambda s: s.unsqueeze(1))
        elif self.batch_first:
            input = input.transpose(0, 1)
        if (width := input.shape[-1]) != self.input_size:
            words = "input.size(-1) must be equal to input_size"
            raise RuntimeError(f"{words}. Expected {self.input_size}, got {width}")
        shape = (self.num_layers * directions, input.shape[1])
        hx = self._zeros(*shape, dtype=input.dtype) if hx is None else hx
        for state in hx if isinstance(hx, tuple) else (hx,):
            if tuple(state.shape) != (wanted := (*shape, self.hidden_size)):
                raise RuntimeError(f"Expected hidden size {wanted}, got {list(state.shape)}")
        x, last = input, []
        for layer in range(self.num_layers):
            x = F.dropout(x, self.dropout, self.training) if layer else x
            outputs = []
            for direction, end in enumerate(self._ends(layer)):
                state = _each(hx, lambda s, i=layer * directions + direction: s[i])
                out, state = self._layer(x.flip(0) if direction else x, state, self._weights(end))
                outputs.append(out.flip(0) if direction else out)
                last.append(state)
            x = outputs[0] if len(outputs) == 1 else cat(outputs, -1)
        final = tuple(map(stack, zip(*last, strict=True))) if self._pair else stack(last)
        if not batched:
            return x.squeeze(1), _each(final, lambda s: s.squeeze(1))
        return (x.transpose(0, 1) if self.batch_first else x), final


class _Cell(_Rule):
    __init__ = constructor("input_size, hidden_size, bias=True, device=None, dtype=None")

    _shown = "=input_size =hidden_size bias?"

    def _configure(self, kind, **settings) -> None:
        super()._configure(**settings)
        self._add_weights("", self.input_size, **kind)
        self.reset_parameters()

    def forward(self, input, hx=None):
        """``(B, input_size)`` and a state ``(B, hidden_size)`` to the next state."""
        single = len(input.shape) == 1
        x = input.unsqueeze(0) if single else input
        if hx is None:
            hx = self._zeros(x.shape[0], dtype=x.dtype)
        elif single:
            hx = _each(hx, lambda s: s.unsqueeze(0))
        _, state = self._layer(x.unsqueeze(0), hx, self._weights(""))
        return _each(state, lambda s: s.squeeze(0)) if single else state


class _GRURule(_Rule):
    _gates = 3

    def _layer(self, x, state, weights: list[Any]) -> tuple[Tensor, Any]:
        outputs, last = _core.gru_layer(Core.transpose(x, (1, 0, 2)), state, *weights)
        outputs = Core.copy(Core.transpose(outputs, (1, 0, 2)))
        return wrap(outputs, "StackBackward0"), wrap(last, "AddBackward0")


class _LSTMRule(_Rule):
    _gates, _pair = 4, True

    def _step(self, given, state, weights: list[Any]):
        h, c = state
        i, f, g, o = (given + F.linear(h, weights[1], weights[3])).chunk(4, -1)
        c = F.sigmoid(f) * c + F.sigmoid(i) * F.tanh(g)
        return F.sigmoid(o) * F.tanh(c), c


class _RNNRule(_Rule):
    def _configure(self, nonlinearity: str, **settings) -> None:
        if nonlinearity not in ("tanh", "relu"):
            name = type(self).__name__
            raise ValueError(f"{name}: nonlinearity must be 'tanh' or 'relu'; got {shown(nonlinearity)}")
        super()._configure(nonlinearity=nonlinearity, **settings)

    def _step(self, given, state, weights: list[Any]):
        total = given + F.linear(state, weights[1], weights[3])
        return F.tanh(total) if self.nonlinearity == "tanh" else F.relu(total)


class GRU(_GRURule, _Layers):
    """Gated recurrent units.

    Examples
    --------
    >>> import qkv.torch as torch
    >>> outputs, state = torch.nn.GRU(3, 5, num_layers=2)(torch.ones(7, 2, 3))  # (T, B, M)
    >>> outputs.shape, state.shape
    (torch.Size([7, 2, 5]), torch.Size([2, 2, 5]))
    """


class LSTM(_LSTMRule, _Layers):
    """Long short-term memory."""


class RNN(_RNNRule, _Layers):
    """Plain recurrence: ``tanh`` or ``relu`` of input plus state."""

    __init__ = constructor(f"input_size, hidden_size, num_layers=1, nonlinearity='tanh', {_REST}")


class GRUCell(_GRURule, _Cell):
    """One step of a `GRU`."""


class LSTMCell(_LSTMRule, _Cell):
    """One step of an `LSTM`."""


class RNNCell(_RNNRule, _Cell):
    """One step of an `RNN`."""

    __init__ = constructor("input_size, hidden_size, bias=True, nonlinearity='tanh', device=None, dtype=None")

    def extra_repr(self) -> str:
        """The sizes, and the nonlinearity where it is not the default."""
        return super().extra_repr() + ("" if self.nonlinearity == "tanh" else ", nonlinearity=relu")
