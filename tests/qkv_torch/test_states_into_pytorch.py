"""States of `qkv.torch.nn` in PyTorch's modules, and back: the same names, and the same numbers come out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import qkv
import qkv.torch

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")

MODULES = {
    "linear": (lambda m: m.nn.Linear(8, 3), [(2, 8)]),
    "embedding": (lambda m: m.nn.Embedding(9, 8, padding_idx=2), ["ids"]),
    "layer norm": (lambda m: m.nn.LayerNorm(8), [(2, 8)]),
    "RMS norm": (lambda m: m.nn.RMSNorm(8), [(2, 8)]),
    "patches": (lambda m: m.nn.Conv2d(3, 8, 2, stride=2), [(2, 3, 4, 6)]),
    "attention": (lambda m: m.nn.MultiheadAttention(8, 2, batch_first=True), [(2, 5, 8)] * 3),
    "attention of other sizes": (
        lambda m: m.nn.MultiheadAttention(8, 2, kdim=6, vdim=4),
        [(5, 2, 8), (4, 2, 6), (4, 2, 4)],
    ),
    "attention without biases": (lambda m: m.nn.MultiheadAttention(8, 2, bias=False), [(5, 2, 8)] * 3),
    "encoder layer": (lambda m: m.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), [(2, 5, 8)]),
    "decoder layer": (
        lambda m: m.nn.TransformerDecoderLayer(8, 2, 16, norm_first=True),
        [(5, 2, 8), (4, 2, 8)],
    ),
    "encoder": (
        lambda m: m.nn.TransformerEncoder(m.nn.TransformerEncoderLayer(8, 2, 16), 2, m.nn.LayerNorm(8)),
        [(5, 2, 8)],
    ),
    "decoder": (
        lambda m: m.nn.TransformerDecoder(m.nn.TransformerDecoderLayer(8, 2, 16), 2),
        [(5, 2, 8), (4, 2, 8)],
    ),
    "transformer": (lambda m: m.nn.Transformer(8, 2, 2, 1, 16), [(4, 2, 8), (5, 2, 8)]),
    "RNN": (lambda m: m.nn.RNN(8, 4, 2, bidirectional=True), [(5, 2, 8)]),
    "GRU": (lambda m: m.nn.GRU(8, 4, 2, batch_first=True), [(2, 5, 8)]),
    "LSTM": (lambda m: m.nn.LSTM(8, 4, bidirectional=True), [(5, 2, 8)]),
    "sequential": (lambda m: m.nn.Sequential(m.nn.Linear(8, 4), m.nn.ReLU(), m.nn.Linear(4, 2)), [(2, 8)]),
}


def moved(state: Any, m: Any) -> dict[str, Any]:
    """A state with the other library's Tensors."""
    return {name: m.tensor(value.detach().numpy().copy()) for name, value in state.items()}


def numbers(result: Any) -> list[np.ndarray]:
    if isinstance(result, tuple):
        return [part for one in result for part in numbers(one)]
    return [result.detach().numpy()]


@pytest.mark.parametrize("name", MODULES)
@pytest.mark.parametrize(("source", "target"), [(qkv.torch, torch), (torch, qkv.torch)], ids=["into", "from"])
def test_a_state_is_the_same_module(name, source, target):
    make, shapes = MODULES[name]
    source.manual_seed(1)
    target.manual_seed(2)
    one, other = make(source).eval(), make(target).eval()
    assert list(one.state_dict()) == list(other.state_dict())
    found = other.load_state_dict(moved(one.state_dict(), target), strict=True)
    assert (list(found.missing_keys), list(found.unexpected_keys)) == ([], [])
    rng = np.random.default_rng(3)
    inputs = [
        rng.integers(0, 9, (2, 5)) if shape == "ids" else rng.normal(size=shape).astype(np.float32)
        for shape in shapes
    ]
    results = [
        numbers(module(*(m.tensor(x) for x in inputs))) for m, module in ((source, one), (target, other))
    ]
    for mine, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=2e-5, atol=2e-6)


def test_states_of_optimizers():
    """After some steps a run continues in the other library as it would have here."""
    for kind in ("Adam", "AdamW", "SGD"):
        ends = []
        for path in [(qkv.torch, qkv.torch), (qkv.torch, torch), (torch, qkv.torch), (torch, torch)]:
            state = training = None
            for m in path:
                layer = m.nn.Linear(3, 2)
                layer.load_state_dict(
                    {"weight": m.arange(6.0).reshape(2, 3) / 6, "bias": m.zeros(2)}
                    if state is None
                    else moved(state, m)
                )
                options = {"momentum": 0.9} if kind == "SGD" else {}
                optimizer = getattr(m.optim, kind)(layer.parameters(), lr=0.05, **options)
                if training is not None:
                    optimizer.load_state_dict(
                        {
                            "state": {
                                i: {
                                    k: m.tensor(v.numpy().copy()) if hasattr(v, "detach") else v
                                    for k, v in one.items()
                                }
                                for i, one in training["state"].items()
                            },
                            "param_groups": training["param_groups"],
                        }
                    )
                for _ in range(3):
                    optimizer.zero_grad()
                    (layer(m.ones(4, 3)) - m.tensor([1.0, -1.0])).square().mean().backward()
                    optimizer.step()
                state, training = layer.state_dict(), optimizer.state_dict()
            ends.append(layer.weight.detach().numpy().copy())
        for end in ends[1:]:
            np.testing.assert_allclose(end, ends[0], rtol=1e-5, atol=1e-6, err_msg=kind)


CORE = {
    "attention": (qkv.nn.MultiHeadAttention, (8, 2), {}, torch.nn.MultiheadAttention, (8, 2), 3),
    "attention of other sizes": (
        qkv.nn.MultiHeadAttention,
        (8, 2),
        {"kdim": 6, "vdim": 4},
        torch.nn.MultiheadAttention,
        (8, 2),
        3,
    ),
    "encoder layer": (
        qkv.nn.TransformerEncoderLayer,
        (8, 2, 16),
        {},
        torch.nn.TransformerEncoderLayer,
        (8, 2, 16),
        1,
    ),
    "decoder layer": (
        qkv.nn.TransformerDecoderLayer,
        (8, 2, 16),
        {},
        torch.nn.TransformerDecoderLayer,
        (8, 2, 16),
        2,
    ),
}


@pytest.mark.parametrize("name", CORE)
def test_layers_of_the_core(name):
    mine, args, options, theirs, their_args, count = CORE[name]
    one = mine(*args, **options).eval()
    other = theirs(*their_args, **options, batch_first=True).eval()
    state = one.state_dict(torch_names=True)
    other.load_state_dict({k: torch.from_numpy(np.array(v)) for k, v in state.items()}, strict=True)
    sizes = (8, options.get("kdim", 8), options.get("vdim", 8))
    rng = np.random.default_rng(0)
    inputs = [rng.normal(size=(2, 5, size)).astype(np.float32) for size in sizes[:count]]
    found, wanted = one(*inputs), other(*map(torch.from_numpy, inputs))
    wanted = wanted[0] if isinstance(wanted, tuple) else wanted
    np.testing.assert_allclose(np.asarray(found.detach()), wanted.detach().numpy(), rtol=2e-5, atol=2e-6)
    again = mine(*args, **options)
    again.load_state_dict(state)
    for key, value in one.state_dict().items():
        np.testing.assert_array_equal(again.state_dict()[key], value)


def test_shared_heads_are_refused():
    with pytest.raises(ValueError, match=r"k_proj.weight must have 8 rows .* got \(4, 8\)"):
        qkv.nn.MultiHeadAttention(8, 2, num_kv_heads=1).state_dict(torch_names=True)


@pytest.mark.parametrize(
    ("lazy", "layer", "x"),
    [
        (lambda nn: nn.LazyLinear(5), lambda nn: nn.Linear(3, 5), (2, 3)),
        (lambda nn: nn.LazyConv2d(5, 2, 2), lambda nn: nn.Conv2d(3, 5, 2, 2), (2, 3, 4, 6)),
    ],
    ids=["Linear", "Conv2d"],
)
def test_a_lazy_layer_takes_its_size_from_a_state(lazy, layer, x):
    source, target = layer(qkv.torch.nn), lazy(qkv.torch.nn)
    target.load_state_dict(source.state_dict())
    inputs = qkv.torch.randn(*x)
    assert qkv.torch.equal(target(inputs), source(inputs))
    assert str(target) == str(source)
