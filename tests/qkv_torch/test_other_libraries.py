"""Layers of einops as modules here, and modules of other libraries, which say where theirs are."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys

import numpy as np
import pytest

import qkv.torch
from qkv.torch import nn

torch = pytest.importorskip("torch")
layers = pytest.importorskip("einops.layers.torch")
own_layers = pytest.importorskip("qkv.torch.einops")

MADE = {
    "patches": lambda e, nn: nn.Sequential(
        e.Rearrange("b c (h p) (w q) -> b (h w) (p q c)", p=2, q=3), nn.Linear(18, 7)
    ),
    "mean": lambda e, nn: e.Reduce("b c (h p) w -> b h c", "mean", p=2),
    "largest": lambda e, nn: e.Reduce("b c h w -> b c", "max"),
    "product": lambda e, nn: e.EinMix("b c h w -> b h o", weight_shape="c w o", c=3, w=9, o=5),
    "bias and groups": lambda e, nn: e.EinMix(
        "b c (a h) w -> b (c a) h o", weight_shape="w o", bias_shape="a o", w=9, o=5, a=2
    ),
}


@pytest.mark.parametrize("name", MADE)
def test_layers_of_einops(name):
    found = []
    for e, m in ((layers, torch), (own_layers, qkv.torch)):
        m.manual_seed(3)
        layer = MADE[name](e, m.nn)
        x = m.randn(2, 3, 4, 9).requires_grad_()
        y = layer(x)
        y.square().sum().backward()
        numbers = [y.detach(), x.grad, *[p.grad for p in layer.parameters()]]
        found.append([repr(layer), list(layer.state_dict()), *[t.numpy() for t in numbers]])
        for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
            assert m.equal(other(x), y)
    for mine, theirs in zip(*found, strict=True):
        if isinstance(mine, np.ndarray):
            np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5)
        else:
            assert mine == theirs


def test_einops_itself_is_told_by_the_import():
    program = (
        "import qkv.torch as torch\nfrom qkv.torch.einops import Rearrange\nfrom einops import rearrange\n"
        "import sys\nassert 'torch' not in sys.modules\nprint(rearrange(torch.ones(2, 3), 'a b -> b a').shape)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stdout == "torch.Size([3, 2])\n", done.stderr


class Derived(torch.nn.Module):
    pass


@pytest.mark.parametrize(
    ("value", "instead"),
    [
        (layers.Rearrange("a b -> b a"), "write from qkv.torch.einops import Rearrange"),
        (torch.nn.Linear(2, 3), "take its name from qkv.torch"),
        (Derived(), "derive its class from qkv.torch.nn.Module"),
    ],
)
def test_modules_of_another_library_say_where_theirs_are(value, instead):
    def assign():
        nn.Module().part = value

    for put in (assign, lambda: nn.Sequential(value), lambda: nn.ModuleList([nn.ReLU(), value])):
        with pytest.raises(TypeError, match=f"one of another library, torch: {instead}$"):
            put()


def test_parameters_of_another_library_are_refused_where_they_would_not_be_trained():
    part, parameter = nn.Module(), torch.nn.Parameter(torch.ones(2))
    for put in (
        lambda: setattr(part, "weight", parameter),
        lambda: part.register_parameter("weight", parameter),
        lambda: part.register_buffer("weight", torch.ones(2)),
    ):
        with pytest.raises(TypeError, match=r"another library, torch: take its name from qkv\.torch"):
            put()
    part.weight = qkv.torch.nn.Parameter(qkv.torch.ones(2))
    part.kept = torch.ones(2)  # a Tensor that is not learned may be kept


def test_a_stand_in_for_pytorch_disturbs_nothing(monkeypatch):
    for other in (None, object(), qkv.torch):
        monkeypatch.setitem(sys.modules, "torch", other)
        part = nn.Sequential(nn.Linear(2, 3))
        part.next = nn.ReLU()
        assert len(list(part.children())) == 2
