"""Copies and pickles of every layer, and the containers Sequential and ModuleList."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from helpers import close

from qkv import nn


class Net(nn.Module):
    def __init__(self, width=5):
        super().__init__()
        self.second = nn.Linear(3, width)
        self.scale = nn.Parameter(np.full(width, 2.0, np.float32))
        self.first = nn.Linear(width, 2, bias=False)
        self.register_buffer("shift", np.arange(2, dtype=np.float32))
        self.note = "text"

    def forward(self, x):
        return self.first(self.second(x) * self.scale) + self.shift


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_are_equal_and_independent(copied):
    net = Net()
    net.eval()
    net.second.train()
    twin = copied(net)
    assert type(twin) is Net
    assert twin.note == "text"
    assert (twin.training, twin.second.training, twin.first.training) == (False, True, False)
    assert [n for n, _ in twin.named_parameters()] == [n for n, _ in net.named_parameters()]
    x = np.ones((2, 3))
    expected = net(x).numpy().tobytes()
    assert twin(x).numpy().tobytes() == expected
    twin.scale.copy_(np.zeros(5))
    twin.first.weight.copy_(np.zeros((2, 5)))
    assert net(x).numpy().tobytes() == expected
    assert all(p.requires_grad for p in twin.parameters())


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_keep_each_parts_mode_and_sharing(copied):
    net = nn.Sequential(nn.Sequential(nn.Dropout()), nn.Dropout())
    net.eval()
    net[0].train()
    net[0][0].eval()
    twin = copied(net)
    assert [m.training for m in twin.modules()] == [False, True, False, False]
    tied = nn.Sequential(nn.Linear(5, 5), nn.Linear(5, 5))
    tied[1].weight = tied[0].weight
    again = copied(tied)
    assert again[0].weight is again[1].weight
    assert again.num_parameters() == tied.num_parameters() == 35


LAYERS = [
    nn.Linear(3, 5, bias=False),
    nn.Embedding(7, 3, padding_idx=2),
    nn.LayerNorm((2, 3), eps=0.1, bias=False),
    nn.LayerNorm(3, elementwise_affine=False),
    nn.RMSNorm(3, eps=0.5),
    nn.Dropout(0.25),
    nn.ReLU(),
    nn.GELU("tanh"),
    nn.Tanh(),
    nn.Sequential(nn.Linear(3, 2), nn.Tanh()),
    nn.ModuleList([nn.ReLU()]),
    nn.Attention(0.1, masked_value=-5.0),
    nn.DotProductAttention(0.1),
    nn.AdditiveAttention(3),
    nn.AdditiveAttention(3, query_size=2, key_size=5),
    nn.SelfAttention(3, 2, True, scale=0.5, is_causal="lower_right"),
    nn.MultiHeadAttention(
        12, 4, kdim=5, vdim=7, num_kv_heads=2, head_dim=2, out_dim=3, window=(1, 2), rotary_base=100.0
    ),
    nn.PositionalEncoding(6, 0.1, 11),
    nn.PositionWiseFFN(3, 7, 0.1, "gelu"),
    nn.AddNorm(3, 0.1, 0.5),
    nn.TransformerEncoderLayer(4, 2, 3, 0.1, "gelu", 0.1, norm_first=True, bias=False),
    nn.TransformerDecoderLayer(4, 2, 3),
    nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 3), 2, nn.LayerNorm(4)),
    nn.TransformerDecoder(nn.TransformerDecoderLayer(4, 2, 3), 2),
]


@pytest.mark.parametrize("layer", LAYERS, ids=lambda m: type(m).__name__)
def test_every_layer_copies_pickles_and_prints(layer):
    lazy = isinstance(layer, nn.AdditiveAttention) and layer.W_q is None
    for twin in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer)), copy.copy(layer)):
        assert type(twin) is type(layer)
        assert repr(twin) == repr(layer)
        if not lazy:
            for (n, a), (m, b) in zip(twin.named_parameters(), layer.named_parameters(), strict=True):
                assert n == m
                assert a.numpy().tobytes() == b.numpy().tobytes()
    assert repr(layer).startswith(type(layer).__name__ + "(")


def test_containers():
    a, b, c = nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 2)
    net = nn.Sequential(a, b, c)
    assert len(net) == 3
    assert net[0] is a
    assert net[-1] is c
    assert [m for m in net] == [a, b, c]
    x = np.ones((2, 3))
    close(net(x), c(b(a(x))))
    assert list(net.state_dict()) == ["0.weight", "0.bias", "2.weight", "2.bias"]
    for bad in (3, -4):
        with pytest.raises(IndexError, match=rf"Sequential: index must be from -3 to 2; got {bad}"):
            net[bad]
    with pytest.raises(TypeError, match="index must be a number"):
        net["0"]
    with pytest.raises(TypeError, match="Sequential: modules must be Modules; got int"):
        nn.Sequential(a, 3)
    blocks = nn.ModuleList(nn.Linear(2, 2) for _ in range(3))
    blocks.append(nn.Tanh())
    assert len(blocks) == 4
    assert isinstance(blocks[3], nn.Tanh)
    holder = nn.Module()
    holder.blocks = blocks
    assert list(holder.state_dict())[:2] == ["blocks.0.weight", "blocks.0.bias"]
    with pytest.raises(AttributeError, match="'ModuleList' object has no attribute 'forward'"):
        blocks(np.ones(2))
    assert (nn.Sequential()(np.ones(3)).numpy() == 1).all()


@pytest.mark.parametrize("make", [lambda *parts: nn.ModuleList(parts), nn.Sequential])
def test_a_part_is_replaced_in_its_place(make):
    class Double(nn.Module):
        def forward(self, x):
            return x * 2

    box, kind = make(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 2)), type(make()).__name__
    last, double = nn.Linear(3, 5, bias=False), Double()
    box[-1], box[np.int64(1)] = last, double
    assert (len(box), box[2] is last, box[1] is double) == (3, True, True)
    assert list(box.state_dict()) == ["0.weight", "0.bias", "2.weight"]
    for bad in (3, -4):
        with pytest.raises(IndexError, match=rf"{kind}: index must be from -3 to 2; got {bad}"):
            box[bad] = last
    with pytest.raises(TypeError, match=f"{kind}: index must be a number; got slice"):
        box[0:1] = last
    with pytest.raises(TypeError, match=f"{kind}: modules must be Modules; got int"):
        box[0] = 3
    assert isinstance(box[0], nn.Linear)


def test_a_layer_of_a_stack_is_replaced():
    stack = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, 0.0), 2).eval()
    x = np.random.default_rng(0).normal(size=(2, 5, 8)).astype("float32")
    other = nn.TransformerEncoderLayer(8, 2, 16, 0.0).eval()
    first = stack.layers[0]
    stack.layers[1] = other
    close(stack(x), other(first(x)))


def test_sequential_runs_modules_of_python():
    class Double(nn.Module):
        def forward(self, x):
            return x * 2

    x = np.ones((2, 3), np.float32)
    close(nn.Sequential(Double(), Double())(x), 4 * x)


def test_a_state_may_hold_the_module_s_own_weights_in_other_places():
    """All are read before the first is written."""
    layer = nn.Linear(3, 3)
    twin = nn.Linear(3, 3)
    net = nn.Sequential(layer, twin)
    one, two = layer.weight.numpy().copy(), twin.weight.numpy().copy()
    state = dict(net.state_dict())
    state["0.weight"], state["1.weight"] = twin.weight, layer.weight
    net.load_state_dict(state)
    assert np.array_equal(layer.weight.numpy(), two)
    assert np.array_equal(twin.weight.numpy(), one)
    rolled = layer.weight.detach().T  # the same numbers, read in another order
    state = {**net.state_dict(), "0.weight": rolled}
    net.load_state_dict(state)
    assert np.array_equal(layer.weight.numpy(), two.T)
