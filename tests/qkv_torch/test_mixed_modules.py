"""Modules of `qkv.nn` inside those of `qkv.torch.nn` and the reverse: nothing of the inner one is lost."""

from __future__ import annotations

import abc
import copy
import pickle
from pathlib import Path

import numpy as np
import pytest

import qkv.torch
from qkv import nn
from qkv.torch import nn as torch_nn

DATA = Path(__file__).parent.parent / "data"


class Outside(torch_nn.Module):
    """PyTorch's module around one of the core."""

    def __init__(self):
        super().__init__()
        self.first = torch_nn.Linear(3, 5)
        self.inner = nn.Linear(5, 2)

    def forward(self, x):
        return self.inner(self.first(x))


class Inside(nn.Module):
    """The core's module around one of PyTorch's."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 5)
        self.inner = torch_nn.Linear(5, 2)

    def forward(self, x):
        return self.inner(self.first(x))


MAKERS = {
    "torch.nn.Module": Outside,
    "nn.Module": Inside,
    "torch.nn.Sequential": lambda: torch_nn.Sequential(torch_nn.Linear(3, 5), nn.Linear(5, 2)),
    "nn.Sequential": lambda: nn.Sequential(nn.Linear(3, 5), torch_nn.Linear(5, 2)),
    "torch.nn.ModuleList": lambda: torch_nn.ModuleList([torch_nn.Linear(3, 5), nn.Linear(5, 2)]),
    "nn.ModuleList": lambda: nn.ModuleList([nn.Linear(3, 5), torch_nn.Linear(5, 2)]),
}
CALLED = [name for name in MAKERS if "List" not in name]
SHAPES = [(5, 3), (5,), (2, 5), (2,)]


def shapes(parameters):
    return [tuple(p.shape) for p in parameters]


@pytest.mark.parametrize("name", MAKERS)
def test_parameters(name):
    assert shapes(MAKERS[name]().parameters()) == SHAPES


@pytest.mark.parametrize("name", MAKERS)
def test_names(name):
    module = MAKERS[name]()
    names = [n for n, _ in module.named_parameters()]
    assert len(names) == 4
    assert list(module.state_dict()) == names
    assert [n.rpartition(".")[2] for n in names] == ["weight", "bias"] * 2


@pytest.mark.parametrize("name", MAKERS)
def test_state_goes_back(name):
    one, other = MAKERS[name](), MAKERS[name]()
    other.load_state_dict(one.state_dict())
    assert len(list(one.parameters())) == 4
    for a, b in zip(one.parameters(), other.parameters(), strict=True):
        np.testing.assert_array_equal(a.detach().numpy(), b.detach().numpy())


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize(
    "make", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))], ids=["copy", "pickle"]
)
def test_copies(name, make):
    module = MAKERS[name]()
    other = make(module)
    assert shapes(other.parameters()) == SHAPES
    for a, b in zip(module.parameters(), other.parameters(), strict=True):
        np.testing.assert_array_equal(a.detach().numpy(), b.detach().numpy())
        assert not np.shares_memory(a.detach().numpy(), b.detach().numpy())


@pytest.mark.parametrize("name", MAKERS)
def test_modes(name):
    module = MAKERS[name]()
    _, inner = module.children()
    module.eval()
    assert inner.training is False
    module.train()
    assert inner.training is True


@pytest.mark.parametrize("name", MAKERS)
def test_dtypes(name):
    module = MAKERS[name]()
    module.to(qkv.torch.float64 if "torch" in name else "float64")
    assert {str(p.dtype).removeprefix("torch.") for p in module.parameters()} == {"float64"}
    assert len(list(module.parameters())) == 4


@pytest.mark.parametrize("name", CALLED)
def test_training(name):
    module = MAKERS[name]()
    library = qkv.torch if "torch" in name else qkv
    optimizer = library.optim.SGD(module.parameters(), lr=0.1)
    before = [p.detach().numpy().copy() for p in module.parameters()]
    module(library.tensor(np.ones((7, 3), "float32"))).sum().backward()
    optimizer.step()
    changed = [
        not np.array_equal(a, p.detach().numpy()) for a, p in zip(before, module.parameters(), strict=True)
    ]
    assert changed == [True] * 4
    module.zero_grad()
    assert all(p.grad is None or not p.grad.numpy().any() for p in module.parameters())


@pytest.mark.parametrize("name", ["torch.nn.Module", "torch.nn.Sequential"])
def test_hooks_of_the_outer_module(name):
    module, seen = MAKERS[name](), []
    module.register_forward_hook(lambda m, given, result: seen.append(tuple(result.shape)))
    module(qkv.torch.ones(7, 3))
    assert seen == [(7, 2)]


@pytest.mark.parametrize("name", ["nn.Module", "nn.Sequential"])
def test_hooks_of_the_inner_module(name):
    module, seen = MAKERS[name](), []
    _, inner = module.children()
    inner.register_forward_hook(lambda m, given, result: seen.append(tuple(result.shape)))
    module(qkv.torch.ones(7, 3))
    assert seen == [(7, 2)]


class Own(torch_nn.Module):
    """Parameters before, between and after parts, buffers of both sorts."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(2, 3)
        self.scale = torch_nn.Parameter(qkv.torch.ones(3))
        self.register_buffer("kept", qkv.torch.arange(3))
        self.register_buffer("passing", qkv.torch.zeros(1), persistent=False)
        self.second = torch_nn.Linear(3, 1)
        self.shift = torch_nn.Parameter(qkv.torch.zeros(1))
        self.absent = None
        self.register_parameter("bias", None)


def test_names_stand_in_pytorchs_order():
    names = ["scale", "shift", "first.weight", "first.bias", "second.weight", "second.bias"]
    module = Own()
    assert [n for n, _ in module.named_parameters()] == names
    assert list(module.state_dict()) == ["scale", "shift", "kept", *names[2:]]
    assert [n for n, _ in nn.Sequential(module).named_parameters()] == ["0." + n for n in names]
    module.scale = torch_nn.Parameter(qkv.torch.zeros(3))  # in its place
    assert [n for n, _ in module.named_parameters()] == names
    module.first = torch_nn.Parameter(qkv.torch.zeros(1))  # another kind: at the end of its own
    assert [n for n, _ in module.named_parameters()] == ["scale", "shift", "first", *names[4:]]
    assert list(module._modules) == ["second"]


@pytest.mark.parametrize(
    "make", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))], ids=["copy", "pickle"]
)
def test_copies_keep_kinds_places_and_sharing(make):
    module = Own()
    module.again = module.first
    module.second.weight.requires_grad = False
    other = make(nn.Sequential(module))[0]
    assert list(other.state_dict()) == list(module.state_dict())
    assert isinstance(other.scale, torch_nn.Parameter)
    assert other.kept.dtype == qkv.torch.int64
    assert [n for n, _ in other.named_buffers()] == ["kept", "passing"]
    assert other.again is other.first
    assert not other.second.weight.requires_grad
    assert other.bias is None
    with pytest.raises(TypeError, match="bias must be a Parameter"):
        other.bias = qkv.torch.ones(1)


def test_tables_are_views_of_the_registry():
    module = Own()
    module._modules["third"] = nn.Linear(1, 1)
    assert module.third.weight.shape == (1, 1)
    del module._parameters["scale"]
    assert not hasattr(module, "scale")
    assert module._parameters["bias"] is None
    assert len(module._buffers) == 2
    module._buffers.clear()
    assert list(module.state_dict()) == [n for n, _ in module.named_parameters()]


def test_results_are_of_the_class_of_the_call():
    inner = nn.MultiHeadAttention(4, 2)
    x = qkv.torch.ones(2, 3, 4)
    assert type(inner(x)) is qkv.torch.Tensor
    output, weights = inner(queries=x, keys=x, values=x, return_weights=True)
    assert type(output) is type(weights) is qkv.torch.Tensor
    assert output.dim() == 3
    assert type(inner(np.ones((2, 3, 4), "float32"))) is qkv.Tensor
    assert type(inner(torch_nn.Parameter(x))) is qkv.torch.Tensor
    seen = []

    class Looks(torch_nn.Module):
        def forward(self, x):
            seen.append(type(x))
            return x

    nn.Sequential(nn.Linear(4, 4), Looks(), nn.Linear(4, 4))(np.ones((2, 4), "float32"))
    assert seen == [qkv.torch.Tensor]


def test_functions_over_all_parts_reach_those_of_the_core():
    module = Own()
    seen = []
    module.apply(lambda part: seen.append(type(part).__name__))
    assert seen == ["Linear", "Linear", "Own"]
    module.requires_grad_(False)
    assert not any(p.requires_grad for p in module.parameters())
    assert [n for n, _ in module.named_modules()] == ["", "first", "second"]
    assert "first): Linear(in_features=2" in repr(module)
    assert "in_features=5, out_features=2, bias=True" in repr(Inside())
    held = module.passing
    module.double()
    assert held.dtype == qkv.torch.float32
    assert module.passing.dtype == module.first(qkv.torch.ones(1, 2, dtype=qkv.torch.float64)).dtype
    assert module.kept.dtype == qkv.torch.int64


def test_the_core_trains_and_steps_modules_of_both(tmp_path):
    x = np.random.default_rng(0).normal(size=(8, 3)).astype("float32")
    qkv.manual_seed(0)
    model = Outside()
    trainer = qkv.training.Trainer(
        model,
        qkv.optim.Adam(model.parameters(), 0.05),
        lambda m, rows: (m(qkv.torch.tensor(x[rows])) ** 2).mean(),
        checkpoint=tmp_path / "run.npz",
    )
    history = trainer.fit([np.arange(8)], steps=20)
    assert history.loss[-1] < 0.5 * history.loss[0]
    norm = torch_nn.utils.clip_grad_norm_(model.parameters(), 1e-3)
    assert float(norm) > 1e-3
    assert np.sqrt(sum((p.grad.numpy() ** 2).sum() for p in model.parameters())) < 1.01e-3


def test_abstract_modules():
    class Base(torch_nn.Module, abc.ABC):
        @abc.abstractmethod
        def score(self): ...

    class Whole(Base):
        def score(self):
            return 1

    assert Whole().score() == 1
    with pytest.raises(TypeError, match="abstract"):
        Base()


def test_pickles_of_older_versions():
    net = pickle.loads((DATA / "torch_module_older.pickle").read_bytes())
    assert list(net.state_dict()) == ["kept", "a.weight", "a.bias", "b.0.weight", "b.0.bias"]
    assert net.kept.dtype == qkv.torch.int64
    assert net.passing.tolist() == [1.0]
    assert net.note == "text"
    assert not net.training
    assert not net.b[0].training
    assert net.a(qkv.torch.ones(2)).shape == (3,)
    assert "(act): ReLU()" in repr(net)
    assert all(isinstance(p, torch_nn.Parameter) for p in net.parameters())
