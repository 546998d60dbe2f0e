"""Results of `qkv.torch` show the memory of an argument where PyTorch's do; everything is called in both."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from sharing import answers

import qkv.torch
from qkv.torch._tensor import FUNCTIONS

torch = pytest.importorskip("torch")

# Functions that change a state, take no Tensor or draw numbers.
LEFT_OUT = """save load manual_seed seed initial_seed get_rng_state set_rng_state set_grad_enabled enable_grad no_grad
inference_mode rand randn randint randperm normal bernoulli multinomial rand_like randn_like randint_like dropout
BoolTensor ByteTensor CharTensor DoubleTensor FloatTensor IntTensor LongTensor ShortTensor broadcast_tensors"""
OF_ARRAYS = ("from_numpy", "as_tensor", "tensor")
METHODS = [
    name
    for name in dir(qkv.torch.Tensor)
    if not name.startswith("_")
    and hasattr(torch.Tensor, name)
    and (callable(getattr(qkv.torch.Tensor, name)) or name in ("T", "mT", "data"))
    and name
    not in ("backward", "bernoulli", "multinomial", "tolist", "register_hook", "retain_grad", "apply_")
]
LAYER_FUNCTIONS = [
    name
    for name, f in vars(qkv.torch.nn.functional).items()
    if inspect.isfunction(inspect.unwrap(f))
    and f.__module__.startswith("qkv.torch.nn")
    and hasattr(torch.nn.functional, name)
    and name != "dropout"
]


def compare(ours, theirs, *, method=False, copied=True):
    """Calls that are legal in both show the same."""
    make = (lambda module: lambda x: module.tensor(x)) if copied else lambda module: lambda x: x
    mine = answers(ours, make(qkv.torch), method=method)
    expected = answers(theirs, make(torch), method=method)
    differ = {call: mine[call] for call in mine.keys() & expected.keys() if mine[call] != expected[call]}
    assert not differ, {shared for shared in differ.values()}


@pytest.mark.parametrize(
    "name",
    [name for name in FUNCTIONS if name not in (*LEFT_OUT.split(), *OF_ARRAYS) and hasattr(torch, name)],
)
def test_functions(name):
    compare(FUNCTIONS[name], getattr(torch, name))


@pytest.mark.parametrize("name", LAYER_FUNCTIONS)
def test_functions_of_layers(name):
    compare(getattr(qkv.torch.nn.functional, name), getattr(torch.nn.functional, name))


@pytest.mark.parametrize("name", METHODS)
def test_methods(name):
    def call(t, *rest):
        member = getattr(t, name)
        return member(*rest) if callable(member) and not hasattr(member, "shape") else member

    compare(call, call, method=True)


@pytest.mark.parametrize("name", OF_ARRAYS)
def test_arrays_are_shared_where_pytorch_shares_them(name):
    compare(FUNCTIONS[name], getattr(torch, name), copied=False)


def test_items_and_operators():
    for name in ("__getitem__", "__add__", "__mul__", "__neg__", "__pos__", "__abs__", "__iter__"):

        def call(t, *rest, name=name):
            found = getattr(t, name)(*rest)
            return list(found) if hasattr(found, "__next__") else found

        compare(call, call, method=True)
    assert np.shares_memory(qkv.torch.ones(3)[1:].numpy(), qkv.torch.ones(3).numpy()) is False
