"""Objects whose ``__init__`` has not finished: every use is a TypeError that says so, no crash."""

import gc
import subprocess
import sys

import pytest

import qkv
import qkv.torch
from qkv import nn

UNFINISHED = r"super\(\).__init__\(\) must be called before"

# Each line runs with `made` = cls.__new__(cls); a crash ends the process, whose output then lacks the line.
USES = {
    "Module": [
        "made.parameters()",
        "made.state_dict()",
        "made.to('float64')",
        "made.zero_grad()",
        "made.train()",
        "made(np.ones((1, 2, 4)))",
        "made.forward(np.ones((1, 2, 4)))",
        "made.weight",
        "made.weight = nn.Parameter(np.ones(3))",
        "copy.deepcopy(made)",
        "pickle.dumps(made)",
        "nn.Sequential(made)",
        "nn.ModuleList().append(made)",
        "nn.Module().part = made",
        "list(made.named_modules())",
    ],
    "Tensor": [
        "repr(made)",
        "made.shape",
        "made.numpy()",
        "made + 1",
        "np.ones(3) + made",
        "made.backward()",
        "copy.deepcopy(made)",
        "pickle.dumps(made)",
        "qkv.softmax(made)",
        "qkv.tensor(made)",
        "nn.Linear(3, 3)(made)",
        "qkv.optim.SGD([made], 0.1)",
        "qkv.grad(made, [made])",
        "qkv.tensor([1.0]).backward(made)",
        "nn.Embedding(3, 2)(made)",
    ],
    "Generator": [
        "made.get_state()",
        "made.manual_seed(1)",
        "qkv.randn(3, rng=made)",
        "qkv.randperm(3, rng=made)",
        "pickle.dumps(made)",
    ],
    "Optimizer": [
        "made.step()",
        "made.zero_grad()",
        "made.lr",
        "made.params",
        "made.param_groups",
        "made.add_param_group({'params': [qkv.tensor([1.0])]})",
        "made.state_dict()",
        "made.load_state_dict({})",
    ],
    "ParameterGroup": ["made['lr']", "made['lr'] = 1", "made.keys()", "repr(made)", "made.update(lr=1)"],
    "KVCache": ["len(made)", "made.reset()", "nn.MultiHeadAttention(4, 2)(np.ones((1, 2, 4)), cache=made)"],
}
CLASSES = {
    "Module": [
        "nn.Module",
        "nn.Linear",
        "nn.MultiHeadAttention",
        "nn.GRU",
        "nn.Sequential",
        "qkv.models.BertModel",
        "Net",
    ],
    "Tensor": ["qkv.Tensor", "nn.Parameter"],
    "Generator": ["qkv.Generator"],
    "Optimizer": ["qkv.optim.SGD", "qkv.optim.AdamW"],
    "ParameterGroup": ["qkv.optim.ParameterGroup"],
    "KVCache": ["nn.KVCache"],
}
CHILD = """
import copy, pickle, sys
import numpy as np
import qkv, qkv.models
from qkv import nn
class Net(nn.Module):
    pass
made = {cls}.__new__({cls})
for use in {uses!r}:
    try:
        exec(use)
        print(use, "->", "nothing", flush=True)
    except (TypeError, AttributeError) as error:
        print(use, "->", error, flush=True)
dir(made), repr(type(made))
del made
"""


def run(code: str) -> str:
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert child.returncode == 0, child.stdout + child.stderr
    return child.stdout


@pytest.mark.parametrize(
    ("kind", "cls"), [(kind, cls) for kind, classes in CLASSES.items() for cls in classes]
)
def test_uses_before_init_are_errors(kind: str, cls: str) -> None:
    lines = run(CHILD.format(cls=cls, uses=USES[kind])).splitlines()
    assert len(lines) == len(USES[kind])
    for line in lines:
        assert "super().__init__() must be called before" in line, line


def test_methods_before_super_init_and_after_a_failed_one() -> None:
    class Early(nn.Linear):
        def __init__(self) -> None:
            self.parameters()

    class Failed(nn.Linear):
        def __init__(self) -> None:
            super().__init__(0, 3)

    with pytest.raises(TypeError, match="Early: " + UNFINISHED):
        Early()
    kept: list[nn.Linear] = []

    class Kept(nn.Linear):
        def __init__(self) -> None:
            kept.append(self)
            super().__init__(0, 3)

    for cls in (Failed, Kept):
        with pytest.raises(ValueError, match="Linear: in_features must be at least 1; got 0"):
            cls()
    with pytest.raises(TypeError, match="Kept: " + UNFINISHED):
        kept[0].state_dict()


def test_unfinished_modules_can_be_shown() -> None:
    made = nn.Linear.__new__(nn.Linear)
    assert repr(made) == "Linear(not initialised)"
    assert "forward" in dir(made)


def test_the_class_of_an_object_stays_of_its_kind() -> None:
    class Own(nn.Module):
        pass

    class Other(nn.Module):
        pass

    layer = nn.Linear(2, 3)
    for change in (setattr, object.__setattr__):
        with pytest.raises(
            TypeError, match=r"__class__ must be derived from the same class of qkv; got qkv\._core\.GRU"
        ):
            change(layer, "__class__", nn.GRU)
    with pytest.raises(TypeError, match="__class__ must be derived from the same class"):
        qkv.Generator().__class__ = nn.GRU
    with pytest.raises(TypeError, match="__class__ must be a class"):
        layer.__class__ = 3  # type: ignore[assignment]
    assert type(layer) is nn.Linear
    assert layer.__class__ is nn.Linear
    own = Own()
    own.__class__ = Other  # type: ignore[assignment]
    assert type(own) is Other
    assert own.parameters() == []


def test_an_object_of_two_classes_needs_both_of_its_inits():
    class Both(nn.Linear, nn.GRU):
        pass

    both = Both.__new__(Both)
    nn.Linear.__init__(both, 2, 3)
    for use in (
        lambda: nn.GRU.forward(both, [[[1.0, 2.0]]]),
        lambda: both.parameters(),
        lambda: nn.Sequential(both),
    ):
        with pytest.raises(TypeError, match=f"Both: {UNFINISHED}"):
            use()


def test_the_collector_may_come_while_the_first_object_of_a_class_is_made():
    before = gc.get_threshold()
    gc.set_threshold(1, 1, 1)
    try:
        for base in (nn.Linear, nn.Module, nn.MultiHeadAttention, qkv.torch.nn.Module):
            for _ in range(5):
                first = type("New", (base,), {})
                first.__new__(first)
    finally:
        gc.set_threshold(*before)
