"""Modules of `qkv.nn` inside those of `qkv.torch.nn` and the reverse: nothing of the inner one is lost."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import qkv.torch
from qkv import nn
from qkv.torch import nn as torch_nn

LOST = pytest.mark.xfail(
    raises=(AssertionError, TypeError, AttributeError, KeyError, RuntimeError, ValueError),
    reason="two registries of modules",
)


class Outside(torch_nn.Module):
    """PyTorch's module around one of the core."""

    def __init__(self):
        super().__init__()
        self.first = torch_nn.Linear(3, 5)
        self.inner = nn.Linear(5, 2)

    def forward(self, x):
        return qkv.torch.as_tensor(self.inner(self.first(x)))


class Inside(nn.Module):
    """The core's module around one of PyTorch's."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 5)
        self.inner = torch_nn.Linear(5, 2)

    def forward(self, x):
        return self.inner(qkv.torch.as_tensor(self.first(x)))


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


@LOST
@pytest.mark.parametrize("name", MAKERS)
def test_parameters(name):
    assert shapes(MAKERS[name]().parameters()) == SHAPES


@LOST
@pytest.mark.parametrize("name", MAKERS)
def test_names(name):
    module = MAKERS[name]()
    names = [n for n, _ in module.named_parameters()]
    assert len(names) == 4
    assert list(module.state_dict()) == names
    assert [n.rpartition(".")[2] for n in names] == ["weight", "bias"] * 2


@LOST
@pytest.mark.parametrize("name", MAKERS)
def test_state_goes_back(name):
    one, other = MAKERS[name](), MAKERS[name]()
    other.load_state_dict(one.state_dict())
    assert len(list(one.parameters())) == 4
    for a, b in zip(one.parameters(), other.parameters(), strict=True):
        np.testing.assert_array_equal(a.detach().numpy(), b.detach().numpy())


@LOST
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


@LOST
@pytest.mark.parametrize("name", MAKERS)
def test_modes(name):
    module = MAKERS[name]()
    _, inner = module.children()
    module.eval()
    assert inner.training is False
    module.train()
    assert inner.training is True


@LOST
@pytest.mark.parametrize("name", MAKERS)
def test_dtypes(name):
    module = MAKERS[name]()
    module.to(qkv.torch.float64 if "torch" in name else "float64")
    assert {str(p.dtype).removeprefix("torch.") for p in module.parameters()} == {"float64"}
    assert len(list(module.parameters())) == 4


@LOST
@pytest.mark.parametrize("name", CALLED)
def test_training(name):
    module = MAKERS[name]()
    library = qkv.torch if "torch" in name else qkv
    optimizer = library.optim.SGD(module.parameters(), lr=0.1)
    before = [p.detach().numpy().copy() for p in module.parameters()]
    module(library.ones(7, 3)).sum().backward()
    optimizer.step()
    changed = [
        not np.array_equal(a, p.detach().numpy()) for a, p in zip(before, module.parameters(), strict=True)
    ]
    assert changed == [True] * 4
    module.zero_grad()
    assert all(p.grad is None or not p.grad.numpy().any() for p in module.parameters())


@pytest.mark.parametrize("name", ["torch.nn.Module", pytest.param("torch.nn.Sequential", marks=LOST)])
def test_hooks_of_the_outer_module(name):
    module, seen = MAKERS[name](), []
    module.register_forward_hook(lambda m, given, result: seen.append(tuple(result.shape)))
    module(qkv.torch.ones(7, 3))
    assert seen == [(7, 2)]


@LOST
@pytest.mark.parametrize("name", ["nn.Module", "nn.Sequential"])
def test_hooks_of_the_inner_module(name):
    module, seen = MAKERS[name](), []
    _, inner = module.children()
    inner.register_forward_hook(lambda m, given, result: seen.append(tuple(result.shape)))
    module(qkv.torch.ones(7, 3))
    assert seen == [(7, 2)]
