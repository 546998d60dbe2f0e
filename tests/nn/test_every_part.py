"""Every part of every public module is called, and subclasses with calls of their own: in each mode, dtype and path."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from containers import CONTAINERS, WITHOUT_PARTS, made, values
from helpers import close
from sweep import sweep

import qkv
from qkv import models, nn

# Parts that have no forward: nothing to be called.
NO_FORWARD = {nn.ModuleList: "holds others under numbers", nn.Module: "holds others under names"}


def part_of(module: nn.Module, path: str) -> nn.Module:
    return dict(module.named_modules())[path]


# The parts of `bert` are those of a BertModel: with one of its heads is enough.
PARTS = [
    (name, path)
    for name, (make, _) in CONTAINERS.items()
    for path, part in make().named_modules()
    if path and type(part) not in NO_FORWARD
    if not path.startswith("bert.") or name == "BertForPreTraining"
]


def test_all_public_modules_are_here():
    public = {
        name
        for package in (nn, models)
        for name in package.__all__
        if inspect.isclass(kind := getattr(package, name)) and issubclass(kind, nn.Module)
    }
    assert public == {name.partition(".")[0] for name in CONTAINERS} | WITHOUT_PARTS
    for name, (make, _) in CONTAINERS.items():
        assert len(make().named_modules()) > 1, name


def replaced(module: nn.Module, path: str, wrap: Callable[[type], type]) -> nn.Module:
    """Put an object of the class that `wrap` makes of its class in a part's place, with its state."""
    old = part_of(module, path)
    cls = wrap(type(old))
    new = cls.__new__(cls)
    new.__setstate__(old.__getstate__())
    parent, _, name = path.rpartition(".")
    setattr(part_of(module, parent), name, new)
    return new


def counting(method: str, change: Callable[[Any], Any] = lambda y: y) -> Callable[[type], type]:
    """Make a subclass whose method counts its calls and changes the result."""

    def wrap(kind: type) -> type:
        def call(self: Any, *arguments: Any, **options: Any) -> Any:
            cls.count += 1
            return change(getattr(super(cls, self), method)(*arguments, **options))

        cls = type(f"My{kind.__name__}", (kind,), {method: call, "count": 0})
        return cls

    return wrap


def results(module: nn.Module, calls: list[Callable[[Any], Any]]) -> list[list[np.ndarray]]:
    found = []
    for call in calls:
        qkv.manual_seed(11)
        found.append(values(call(module)))
    return found


@pytest.fixture(params=["eval", "train"])
def mode(request):
    return request.param


@pytest.fixture(params=["float32", "float64"])
def dtype(request):
    return request.param


@sweep("name, path", PARTS)
def test_a_part_that_changes_nothing_is_called_and_changes_nothing(name, path, mode, dtype):
    module, calls = made(name, dtype, mode)
    expected = results(module, calls)
    for method in ("forward", "__call__"):  # what runs hooks has a __call__ of its own
        cls = type(replaced(module, path, counting(method)))
        for number, (call, before) in enumerate(zip(calls, expected, strict=True)):
            cls.count = 0
            [found] = results(module, [call])
            assert cls.count > 0, f"{method}, call {number}"
            for a, b in zip(found, before, strict=True):
                close(a, b, dtype)


def strided(y: Any) -> Any:
    """The same numbers, which are not one after the other."""
    if isinstance(y, list):
        return list(map(strided, y))
    if isinstance(y, tuple):
        return type(y)(*map(strided, y)) if hasattr(y, "_fields") else tuple(map(strided, y))
    return y if y is None else qkv.concatenate([y, y], axis=-1)[..., : y.shape[-1]]


@sweep("name, path", PARTS)
def test_a_part_may_give_views(name, path):
    module, calls = made(name, "float64", "train")
    expected = results(module, calls)
    replaced(module, path, counting("forward", strided))
    for found, before in zip(results(module, calls), expected, strict=True):
        for a, b in zip(found, before, strict=True):
            close(a, b)


def ramp(size: int) -> np.ndarray:
    return np.linspace(0, 1, size) ** 2


def shifted(y: Any) -> Any:
    """Another result, which neither a softmax nor a norm after it takes away."""
    if isinstance(y, list):
        return list(map(shifted, y))
    if isinstance(y, tuple):
        return type(y)(*map(shifted, y)) if hasattr(y, "_fields") else tuple(map(shifted, y))
    return y if y is None else y * 1.25 + ramp(y.shape[-1]).astype(y.dtype)


def with_the_change(part: nn.Module, dtype: str) -> nn.Module | None:
    """A plain module that gives what the changed part gives, where there is one."""
    if type(part) is nn.Embedding:
        other, size = nn.Embedding(part.num_embeddings, part.embedding_dim).to(dtype), part.embedding_dim
        other.load_state_dict({"weight": part.weight.numpy() * 1.25 + ramp(size)})
        return other
    if type(part) is nn.Linear:
        other, size = nn.Linear(part.in_features, part.out_features).to(dtype), part.out_features
    elif type(part) is nn.LayerNorm:
        [size] = part.normalized_shape
        other = nn.LayerNorm(size, part.eps).to(dtype)
    else:
        return None
    bias = np.zeros(size) if part.bias is None else part.bias.numpy()
    other.load_state_dict({"weight": part.weight.numpy() * 1.25, "bias": bias * 1.25 + ramp(size)})
    return other


@sweep("name, path", PARTS)
def test_a_part_that_changes_its_result_counts(name, path, mode, dtype):
    module, calls = made(name, dtype, mode)
    before = results(module, calls)
    old = part_of(module, path)
    new = replaced(module, path, counting("forward", shifted))
    found = results(module, calls)
    for plain, other in zip(before, found, strict=True):
        assert any(
            a.shape != b.shape or np.abs(a - b).max() > 1e-6 for a, b in zip(plain, other, strict=True)
        )
    assert type(new).count > 0
    same = with_the_change(old, dtype) if dtype == "float64" else None  # rounding errors grow on their way
    # The scores of words are products with the table itself, not with what its forward gives.
    table = path.endswith("word_embeddings") and name in ("BertForPreTraining", "BertForMaskedLM")
    table = table or (name, path) == ("PretrainedEncoderDecoder", "decoder.embedding")
    if same is None or table:
        return
    parent, _, place = path.rpartition(".")
    setattr(part_of(module, parent), place, same.train(mode == "train"))
    for a, b in zip(found, results(module, calls), strict=True):
        for c, d in zip(a, b, strict=True):
            close(c, d, dtype)
