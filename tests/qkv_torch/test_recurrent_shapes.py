"""Recurrent layers of qkv.torch: parameters, inputs and states of wrong shapes are refused."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import qkv
import qkv.torch as torch
from qkv import _core

LAYERS = {
    "GRU": torch.nn.GRU,
    "LSTM": torch.nn.LSTM,
    "RNN": torch.nn.RNN,
}
T, B, M, H = 2, 5, 3, 7
WRONG = (ValueError, RuntimeError, TypeError, IndexError)


def made(name):
    torch.manual_seed(0)
    return LAYERS[name](M, H)


def state_of(name, shape):
    state = torch.ones(*shape)
    return (state, torch.ones(*shape)) if "LSTM" in name else state


def shapes(name, batched=True):
    """The shapes of the input and of the state."""
    batch = (B,) if batched else ()
    return (T, *batch, M), (1, *batch, H)


def others(shape):
    """Shapes that differ in one size, or in the number of axes."""
    for axis, size in itertools.product(range(len(shape)), (0, 1, 2, 6, 11)):
        if size != shape[axis]:
            yield (*shape[:axis], size, *shape[axis + 1 :])
    yield from (shape[1:], (1, *shape), (*shape, 1), (), (int(np.prod(shape)),), shape[::-1])


def different(shape):
    return [other for other in dict.fromkeys(others(shape)) if other != shape]


@pytest.mark.parametrize("name", LAYERS)
def test_parameters_of_wrong_shapes(name):
    input, state = shapes(name)
    x, given = torch.ones(*input), state_of(name, state)
    for part, parameter in dict(made(name).named_parameters()).items():
        for shape in different(tuple(parameter.shape)):
            layer = made(name)
            setattr(layer, part, torch.nn.Parameter(torch.ones(*shape)))
            for call in (lambda: layer(x), lambda: layer(x, given)):  # noqa: B023
                with pytest.raises(RuntimeError, match=f"{name}: {part} must be"):
                    call()
            layer = made(name)
            getattr(layer, part).data = torch.ones(*shape)
            with pytest.raises(RuntimeError, match=f"{name}: {part} must be"):
                layer(x)


@pytest.mark.parametrize("batched", [True, False])
@pytest.mark.parametrize("name", LAYERS)
def test_inputs_and_states_of_wrong_shapes(name, batched):
    input, state = shapes(name, batched)
    layer, x = made(name), torch.ones(*input)
    layer(x, state_of(name, state))
    for shape in different(state):
        with pytest.raises(RuntimeError, match="Expected hidden size"):
            layer(x, state_of(name, shape))
        if "LSTM" in name:
            for pair in ((torch.ones(*state), torch.ones(*shape)), (torch.ones(*shape), torch.ones(*state))):
                with pytest.raises(RuntimeError, match="Expected hidden size"):
                    layer(x, pair)
    for shape in different(input):
        if len(shape) == len(input) and shape[1:] == input[1:] and shape[0] > 0:
            continue  # another number of steps
        with pytest.raises(WRONG):
            layer(torch.ones(*shape), state_of(name, state))


@pytest.mark.parametrize("name", LAYERS)
def test_numbers_of_axes_and_dtypes(name):
    layer, (input, state) = made(name), shapes(name)
    for rank in (0, 1, 4):
        with pytest.raises(
            ValueError, match=rf"^{name}: Expected input to be \dD or \dD, got {rank}D instead"
        ):
            layer(torch.ones(*[M] * rank))
    with pytest.raises(ValueError, match=r"input must have the type torch.float32, got type torch.float64"):
        layer(torch.ones(*input, dtype=torch.float64))
    double = made(name).double()
    with pytest.raises(ValueError, match=r"input must have the type torch.float64, got type torch.float32"):
        double(torch.ones(*input))
    with pytest.raises(
        RuntimeError, match=r"hx must have the type of the input, torch\.float64; got torch\.float32"
    ):
        double(torch.ones(*input, dtype=torch.float64), state_of(name, state))


def test_the_state_of_an_lstm_is_a_pair():
    layer, (input, state) = made("LSTM"), shapes("LSTM")
    x, h, c = torch.ones(*input), torch.full(state, 0.5), torch.full(state, -0.25)
    for wrong in (h, (h,), [h, c, c], h[None], (h, None), "hc", torch.ones(2, *state)):
        with pytest.raises(TypeError, match=r"hx must be a tuple \(h, c\) of two Tensors"):
            layer(x, wrong)
    for a, b in zip(layer(x, [h, c]), layer(x, (h, c)), strict=True):
        for one, other in zip(a, b, strict=True) if isinstance(a, tuple) else [(a, b)]:
            assert torch.equal(one, other)
    for other in ("GRU", "RNN"):
        input, state = shapes(other)
        with pytest.raises(TypeError, match="hx must be a Tensor"):
            made(other)(torch.ones(*input), (torch.ones(*state), torch.ones(*state)))


@pytest.mark.parametrize("name", LAYERS)
def test_sizes_of_layers(name):
    with pytest.raises(ValueError, match="hidden_size must be greater than zero"):
        LAYERS[name](3, 0)
    with pytest.raises(TypeError, match=r"hidden_size must be an integer; got 2\.0"):
        LAYERS[name](3, 2.0)
    for count in (0, -1):
        with pytest.raises(ValueError, match="num_layers must be greater than zero"):
            LAYERS[name](3, 4, count)
    with pytest.raises(TypeError, match=r"dropout must be a number; got '0\.5'"):
        LAYERS[name](3, 4, 2, dropout="0.5")
    for p in (2.0, -0.1, float("nan"), True):
        with pytest.raises(ValueError, match=r"dropout should be a number in range \[0, 1\]"):
            LAYERS[name](3, 4, 2, dropout=p)


def test_the_core_checks_a_layer_itself():
    """No operation reads memory that is not its own, in any call."""
    right = {
        "x": (5, 2, 3),
        "state": (5, 7),
        "weight_ih": (21, 3),
        "weight_hh": (21, 7),
        "bias_ih": (21,),
        "bias_hh": (21,),
    }

    def call(**changed):
        given = {name: qkv.tensor(np.ones(shape, "f4")) for name, shape in {**right, **changed}.items()}
        return _core.gru_layer(given.pop("x"), given.pop("state"), 7, *given.values())

    call()
    for name, shape in right.items():
        for other in different(shape):
            if name == "x" and len(other) == 3 and (other[0], other[2]) == (5, 3):
                continue  # another number of steps
            with pytest.raises(ValueError, match=r"^GRU: "):
                call(**{name: other})
    steps = {"from_input": (5, 28), "from_state": (5, 28), "c": (5, 7)}
    for name, shape in steps.items():
        for other in different(shape):
            with pytest.raises(ValueError, match=r"^LSTM: c must be"):
                _core.lstm_step(*(qkv.tensor(np.ones(s, "f4")) for s in {**steps, name: other}.values()))


def test_a_state_that_is_kept_from_batch_to_batch_does_not_fit_a_smaller_last_one():
    layer, batches = torch.nn.GRU(3, 4), [torch.ones(2, 5, 3), torch.ones(2, 3, 3)]
    _, h = layer(batches[0])
    with pytest.raises(RuntimeError, match=r"Expected hidden size \(1, 3, 4\), got \[1, 5, 4\]"):
        layer(batches[1], h)


@pytest.mark.parametrize(
    "options", [{}, {"num_layers": 2, "bidirectional": True}, {"bias": False, "batch_first": True}]
)
def test_lstm_beside_pytorch(options):
    """Outputs, states and every gradient; a step is one operation."""
    theirs_torch = pytest.importorskip("torch")
    theirs = theirs_torch.nn.LSTM(M, H, **options).double()
    ours = torch.nn.LSTM(M, H, dtype=torch.float64, **options)
    ours.load_state_dict({name: torch.tensor(t.numpy()) for name, t in theirs.state_dict().items()})
    random, layers = (
        np.random.default_rng(0),
        len(list(theirs.parameters())) // (2 if options.get("bias") is False else 4),
    )
    x = random.standard_normal((B, 11, M) if options.get("batch_first") else (11, B, M))
    h, c = random.standard_normal((2, layers, B, H))
    results = []
    for library, layer in ((theirs_torch, theirs), (torch, ours)):
        inputs = [library.tensor(v, requires_grad=True) for v in (x, h, c)]
        y, (hn, cn) = layer(inputs[0], (inputs[1], inputs[2]))
        ((y * y).sum() + hn.sin().sum() + (3 * cn).cos().sum()).backward()
        parts = [y, hn, cn, *(t.grad for t in (*inputs, *layer.parameters()))]
        results.append([t.detach().numpy() for t in parts])
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-9, atol=1e-12)
