"""Recurrent layers, time first unless ``batch_first``: RNN, LSTM, GRU and their cells."""

from __future__ import annotations

import math
from typing import Any

from ... import _core
from .._creation import empty, zeros
from .._shaping import cat, stack
from .._tensor import Core, Tensor, wrap
from . import functional as F
from . import init
from ._module import Module
from .parameter import Parameter

_GATES = {"RNN": 1, "LSTM": 4, "GRU": 3}


class _Recurrent(Module):
    _mode = ""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.bias, self.batch_first, self.dropout = bias, batch_first, float(dropout)
        self.bidirectional = bidirectional
        rows = _GATES[self._mode] * hidden_size
        for layer in range(num_layers):
            for end in self._ends(layer):
                width = input_size if layer == 0 else hidden_size * len(self._ends(0))
                setattr(self, f"weight_ih{end}", Parameter(empty(rows, width, dtype=dtype)))
                setattr(self, f"weight_hh{end}", Parameter(empty(rows, hidden_size, dtype=dtype)))
                if bias:
                    setattr(self, f"bias_ih{end}", Parameter(empty(rows, dtype=dtype)))
                    setattr(self, f"bias_hh{end}", Parameter(empty(rows, dtype=dtype)))
        self.reset_parameters()

    def _ends(self, layer: int) -> list[str]:
        return [f"_l{layer}", f"_l{layer}_reverse"][: 2 if self.bidirectional else 1]

    def _weights(self, end: str) -> tuple[Any, ...]:
        biases = (
            (getattr(self, f"bias_ih{end}"), getattr(self, f"bias_hh{end}")) if self.bias else (None, None)
        )
        return getattr(self, f"weight_ih{end}"), getattr(self, f"weight_hh{end}"), *biases

    @property
    def _flat_weights_names(self) -> list[str]:
        return list(self._parameters)

    @property
    def all_weights(self) -> list[list[Any]]:
        """The parameters of each layer."""
        return [
            [w for w in self._weights(end) if w is not None]
            for layer in range(self.num_layers)
            for end in self._ends(layer)
        ]

    def reset_parameters(self) -> None:
        """Draw all parameters from ``+-1 / sqrt(hidden_size)``."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound)

    def flatten_parameters(self) -> None:
        """Nothing to do on the CPU."""

    def _layer(self, x: Tensor, state: Any, weights: tuple[Any, ...]) -> tuple[Tensor, Any]:
        """One layer in one direction: x ``(T, B, M)`` and its state to outputs ``(T, B, H)`` and the last state."""
        steps = []
        given = F.linear(x, weights[0], weights[2])
        for part in given.unbind(0):
            out, state = self._step(part, state, weights)
            steps.append(out)
        return stack(steps), state

    def _step(self, given: Tensor, state: Any, weights: tuple[Any, ...]) -> tuple[Tensor, Any]:
        raise NotImplementedError

    def forward(self, input: Tensor, hx: Any = None) -> tuple[Tensor, Any]:
        """``(T, B, input_size)`` and a state ``(layers, B, H)`` to outputs ``(T, B, H)`` and the last state."""
        if not isinstance(input, Tensor):
            raise TypeError(
                f"{self._mode}: input must be a Tensor; got {type(input).__name__}. Packed sequences are not "
                "known to qkv.torch; qkv.nn.GRU takes valid_lens"
            )
        batched = len(input.shape) == 3
        if not batched:
            input = input.unsqueeze(1)
            hx = self._map(hx, lambda s: s.unsqueeze(1))
        elif self.batch_first:
            input = input.transpose(0, 1)
        if input.shape[-1] != self.input_size:
            raise RuntimeError(
                f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got "
                f"{input.shape[-1]}"
            )
        if hx is None:
            start = zeros(
                self.num_layers * len(self._ends(0)), input.shape[1], self.hidden_size, dtype=input.dtype
            )
            hx = (start, start) if self._mode == "LSTM" else start
        expected = (self.num_layers * len(self._ends(0)), input.shape[1], self.hidden_size)
        for state in hx if isinstance(hx, tuple) else (hx,):
            if tuple(state.shape) != expected:
                raise RuntimeError(f"Expected hidden size {expected}, got {list(state.shape)}")
        x, last = input, []
        for layer in range(self.num_layers):
            if layer > 0:
                x = F.dropout(x, self.dropout, self.training)
            outputs = []
            for direction, end in enumerate(self._ends(layer)):
                which = layer * len(self._ends(0)) + direction
                state = self._map(hx, lambda s, i=which: s[i])
                out, state = self._layer(x.flip(0) if direction else x, state, self._weights(end))
                outputs.append(out.flip(0) if direction else out)
                last.append(state)
            x = outputs[0] if len(outputs) == 1 else cat(outputs, -1)
        final = tuple(map(stack, zip(*last, strict=True))) if self._mode == "LSTM" else stack(last)
        if not batched:
            return x.squeeze(1), self._map(final, lambda s: s.squeeze(1))
        return (x.transpose(0, 1) if self.batch_first else x), final

    @staticmethod
    def _map(state: Any, f: Any) -> Any:
        if state is None:
            return None
        return tuple(map(f, state)) if isinstance(state, tuple) else f(state)

    def extra_repr(self) -> str:
        """The arguments that are not the defaults."""
        text = f"{self.input_size}, {self.hidden_size}"
        for name, default in {
            "num_layers": 1,
            "bias": True,
            "batch_first": False,
            "dropout": 0.0,
            "bidirectional": False,
        }.items():
            if getattr(self, name) != default:
                text += f", {name}={getattr(self, name)}"
        return text


class GRU(_Recurrent):
    """Gated recurrent units.

    Examples
    --------
    >>> import qkv.torch as torch
    >>> outputs, state = torch.nn.GRU(3, 5, num_layers=2)(torch.ones(7, 2, 3))  # (T, B, M)
    >>> outputs.shape, state.shape
    (torch.Size([7, 2, 5]), torch.Size([2, 2, 5]))
    """

    _mode = "GRU"

    def _layer(self, x: Tensor, state: Any, weights: tuple[Any, ...]) -> tuple[Tensor, Any]:
        outputs, last = _core.gru_layer(Core.transpose(x, (1, 0, 2)), state, *weights)
        return wrap(Core.copy(Core.transpose(outputs, (1, 0, 2))), "StackBackward0"), wrap(
            last, "StackBackward0"
        )


class LSTM(_Recurrent):
    """Long short-term memory."""

    _mode = "LSTM"

    def _step(self, given: Tensor, state: Any, weights: tuple[Any, ...]) -> tuple[Tensor, Any]:
        h, c = state
        i, f, g, o = (given + F.linear(h, weights[1], weights[3])).chunk(4, -1)
        c = F.sigmoid(f) * c + F.sigmoid(i) * F.tanh(g)
        h = F.sigmoid(o) * F.tanh(c)
        return h, (h, c)


class RNN(_Recurrent):
    """Plain recurrence: ``tanh`` or ``relu`` of input plus state."""

    _mode = "RNN"

    def __init__(self, *args: Any, nonlinearity: str = "tanh", **kwargs: Any) -> None:
        if len(args) > 3 and isinstance(args[3], str):
            nonlinearity, args = args[3], (*args[:3], *args[4:])
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"RNN: nonlinearity must be 'tanh' or 'relu'; got {nonlinearity!r}")
        self.__dict__["nonlinearity"] = nonlinearity
        super().__init__(*args, **kwargs)

    def _step(self, given: Tensor, state: Any, weights: tuple[Any, ...]) -> tuple[Tensor, Any]:
        total = given + F.linear(state, weights[1], weights[3])
        h = F.tanh(total) if self.nonlinearity == "tanh" else F.relu(total)
        return h, h


class _Cell(Module):
    _mode = ""

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        rows = _GATES[self._mode] * hidden_size
        bound = 1.0 / math.sqrt(hidden_size) if hidden_size > 0 else 0.0
        self.weight_ih = Parameter(empty(rows, input_size, dtype=dtype))
        self.weight_hh = Parameter(empty(rows, hidden_size, dtype=dtype))
        for name in ("bias_ih", "bias_hh"):
            self.register_parameter(name, Parameter(empty(rows, dtype=dtype)) if bias else None)
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound)

    def _weights(self) -> tuple[Any, ...]:
        return self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh

    def forward(self, input: Tensor, hx: Any = None) -> Any:
        """``(B, input_size)`` and a state ``(B, hidden_size)`` to the next state."""
        single = len(input.shape) == 1
        x = input.unsqueeze(0) if single else input
        if hx is None:
            start = zeros(x.shape[0], self.hidden_size, dtype=x.dtype)
            hx = (start, start) if self._mode == "LSTM" else start
        elif single:
            hx = _Recurrent._map(hx, lambda s: s.unsqueeze(0))
        result = self._next(x, hx)
        return _Recurrent._map(result, lambda s: s.squeeze(0)) if single else result

    def _next(self, x: Tensor, state: Any) -> Any:
        raise NotImplementedError

    def extra_repr(self) -> str:
        """The sizes."""
        return f"{self.input_size}, {self.hidden_size}" + ("" if self.bias else ", bias=False")


class GRUCell(_Cell):
    """One step of a `GRU`."""

    _mode = "GRU"

    def _next(self, x: Tensor, state: Any) -> Any:
        _, last = _core.gru_layer(Core.reshape(x, (x.shape[0], 1, x.shape[1])), state, *self._weights())
        return wrap(last, "AddBackward0")


class LSTMCell(_Cell):
    """One step of an `LSTM`."""

    _mode = "LSTM"

    def _next(self, x: Tensor, state: Any) -> Any:
        given = F.linear(x, self.weight_ih, self.bias_ih)
        return LSTM._step(self, given, state, self._weights())[1]  # type: ignore[arg-type]


class RNNCell(_Cell):
    """One step of an `RNN`."""

    _mode = "RNN"
    nonlinearity = "tanh"

    def _next(self, x: Tensor, state: Any) -> Any:
        given = F.linear(x, self.weight_ih, self.bias_ih)
        return RNN._step(self, given, state, self._weights())[1]  # type: ignore[arg-type]
