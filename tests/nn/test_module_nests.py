"""Modules in modules: deep nests, cycles, and containers that change while they run."""

import gc
import subprocess
import sys
import weakref

import numpy as np
import pytest

from qkv import nn


class Box(nn.Module):
    """Holds anything, modules as parts."""

    def __init__(self, *parts: nn.Module) -> None:
        super().__init__()
        for i, part in enumerate(parts):
            setattr(self, f"part{i}", part)


def collected(make: object) -> bool:
    """Whether what `make` gives is freed by the collector once nobody holds it."""
    reference = weakref.ref(make())  # type: ignore[operator]
    gc.collect()
    return reference() is None


def test_the_dict_is_shown_to_the_collector_once() -> None:
    box = Box()
    box.note = ["anything"]
    referents = gc.get_referents(box)
    assert sum(r is box.__dict__ for r in referents) <= 1
    assert sum(r is box.note for r in referents) <= 1


def test_cycles_are_freed() -> None:
    def itself() -> nn.Module:
        box = Box()
        box.me = [box]
        return box

    def parent() -> nn.Module:
        child = Box()
        box = Box(child)
        child.parent = [box]
        return box

    def below_a_list() -> nn.Module:
        child = Box()
        box = Box(nn.ModuleList([nn.ReLU(), child]))
        child.parent = [box]
        return box

    def deep_below() -> nn.Module:
        child = Box()
        box = Box(nn.Sequential(nn.Sequential(nn.Sequential(child))))
        child.parent = (box,)
        return box

    def around_a_list() -> nn.Module:
        child = Box()
        parts = nn.Sequential(child)
        child.parent = [parts]
        return parts

    def subclass_of_a_layer() -> nn.Module:
        class Own(nn.Linear):
            pass

        own = Own(2, 3)
        own.hook = lambda: own
        return Box(own)

    def plain_layer() -> nn.Module:
        layer = nn.Linear(2, 3)
        layer.me = [layer]
        return layer

    for make in (itself, parent, below_a_list, deep_below, around_a_list, subclass_of_a_layer, plain_layer):
        assert collected(make), make.__name__


def test_what_is_in_use_is_not_freed() -> None:
    child = Box()
    child.note = "kept"
    parts = nn.Sequential(child)
    outer = Box(parts)
    child.outer = [outer]
    reference = weakref.ref(child)
    held = outer.part0
    del child, outer, parts
    gc.collect()
    assert held[0].note == "kept"
    assert reference() is held[0]
    shared = Box()
    shared.note = "shared"
    first, second = nn.Sequential(shared), nn.Sequential(shared)
    shared.first = [first]
    del shared, first
    gc.collect()
    assert second[0].note == "shared"
    child = Box()
    child.note = "below"
    model = nn.Sequential(nn.Sequential(child))
    child.model = [model]
    inner = model[0]
    del child, model
    gc.collect()
    assert inner[0].note == "below"


def test_cycles_in_a_loop_take_no_memory() -> None:
    def count() -> int:
        gc.collect()
        return sum(type(o) is Box for o in gc.get_objects())

    before = count()
    for _ in range(50):
        child = Box(nn.Linear(3, 2))
        box = Box(nn.ModuleList([child]))
        child.parent = [box]
    del child, box
    assert count() == before


def test_deep_nests_are_made_listed_and_freed_one_level_after_the_other() -> None:
    module: nn.Module = nn.Linear(2, 3)
    for _ in range(100_003):
        module = nn.Sequential(module)
    assert [p.shape for p in module.parameters()] == [(3, 2), (3,)]
    assert module.num_parameters() == 9
    assert len(module.modules()) == 100_004
    module.eval()
    module.to("float64")
    module.zero_grad()
    with pytest.raises(RuntimeError, match="Sequential: modules must be nested at most 1000 deep"):
        module(np.ones((1, 2)))
    del module
    box: nn.Module = Box(nn.Linear(2, 3))
    for _ in range(20_011):
        box = Box(box)
    assert len(box.parameters()) == 2
    del box
    gc.collect()


def test_names_of_nested_modules() -> None:
    box = Box(nn.Sequential(nn.ReLU(), nn.Sequential(nn.Linear(2, 3))), nn.Linear(3, 5))
    names = ["", "part0", "part0.0", "part0.1", "part0.1.0", "part1"]
    assert [name for name, _ in box.named_modules()] == names
    assert [name for name, _ in box.named_parameters()] == [
        "part0.1.0.weight",
        "part0.1.0.bias",
        "part1.weight",
        "part1.bias",
    ]
    box.shared = box.part1.weight
    assert len(box.named_parameters()) == 4
    assert "shared" in box.state_dict()


def test_a_module_is_not_a_part_of_its_parts() -> None:
    inner = Box()
    outer = Box(Box(inner))
    with pytest.raises(
        ValueError, match="Module: outer must not contain the module that it becomes a part of"
    ):
        inner.outer = outer
    with pytest.raises(ValueError, match="Module: a module cannot be its own part; got itself as me"):
        inner.me = inner
    del outer.part0
    inner.outer = outer


def test_many_names() -> None:
    box = Box(*[nn.ReLU() for _ in range(37)])
    middle = box.part20
    box.part20 = nn.Linear(2, 3)
    assert len(box.children()) == 37
    assert box.part20 is not middle
    del box.part3
    assert len(box.children()) == 36
    assert box.part36 is box.children()[-1]
    with pytest.raises(AttributeError, match="part3"):
        _ = box.part3
    box.part3 = nn.Tanh()
    assert [name for name, _ in box._children()][-1] == "part3"


CHANGING = """
import numpy as np
from qkv import nn
class Changes(nn.Module):
    def __init__(self, what):
        super().__init__()
        self.what = what
    def forward(self, x):
        if self.parts:
            self.what(self.parts[0])
        return x
def append(parts):
    for _ in range(50): parts.append(nn.Linear(2, 2))
def clear(parts):
    for name, _ in list(parts.named_modules())[1:]:
        if hasattr(parts, name): delattr(parts, name)
def replace(parts):
    setattr(parts, "0", nn.ReLU()); setattr(parts, "1", nn.ReLU())
for what in (append, clear, replace):
    changes = Changes(what)
    parts = nn.Sequential(changes, *[nn.Linear(2, 2) for _ in range(5)])
    changes.parts = [parts]
    del changes
    assert parts(np.ones((3, 2))).shape == (3, 2)
    print(len(parts))
"""


def test_parts_may_change_their_sequential_while_it_runs() -> None:
    child = subprocess.run([sys.executable, "-c", CHANGING], capture_output=True, text=True, timeout=60)
    assert child.stdout.split() == ["56", "0", "6"], child.stderr


def test_a_part_that_is_none() -> None:
    parts = nn.Sequential(nn.ReLU(), nn.ReLU())
    setattr(parts, "1", None)
    with pytest.raises(TypeError, match="Sequential: its parts must be modules to be called; got None as 1"):
        parts(np.ones(3))


def test_a_lazy_layer_keeps_what_was_set_by_hand() -> None:
    layer = nn.AdditiveAttention(5)
    own = nn.Linear(7, 5, bias=False)
    layer.W_q = own
    with pytest.raises(RuntimeError, match="AdditiveAttention: its parameters do not exist yet"):
        layer.parameters()
    with pytest.raises(ValueError, match=r"AdditiveAttention: queries must be \(B, L, 7\) to match"):
        layer(np.ones((2, 3, 11)), np.ones((2, 5, 3)), np.ones((2, 5, 3)))
    y = layer(np.ones((2, 3, 7)), np.ones((2, 5, 3)), np.ones((2, 5, 3)))
    assert y.shape == (2, 3, 3)
    assert layer.W_q is own
    assert layer.W_k.weight.shape == (5, 3)
