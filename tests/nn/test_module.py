"""Module: registration, names, state, modes, copies and containers."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref

import numpy as np
import pytest
from helpers import close

import qkv
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


def test_a_subclass_computes_and_learns():
    net = Net()
    x = np.random.default_rng(0).standard_normal((7, 3)).astype("float32")
    y = net(x)
    w = {k: v.numpy() for k, v in net.state_dict().items()}
    expected = (x @ w["second.weight"].T + w["second.bias"]) * w["scale"] @ w["first.weight"].T + w["shift"]
    close(y, expected, "float32")
    assert isinstance(y, qkv.Tensor)
    y.sum().backward()
    for name, p in net.named_parameters():
        assert p.grad.shape == p.shape, name
    assert np.abs(net.scale.grad.numpy()).max() > 0
    net.zero_grad()
    assert all(p.grad is None for p in net.parameters())


def test_names_stand_in_the_order_of_creation_a_modules_own_before_its_parts():
    net = Net()
    names = [name for name, _ in net.named_parameters()]
    assert names == ["scale", "second.weight", "second.bias", "first.weight"]
    assert list(net.state_dict()) == ["scale", "shift", *names[1:]]
    assert net.num_parameters() == 3 * 5 + 5 + 5 + 2 * 5
    assert [type(p) for p in net.parameters()] == [nn.Parameter] * 4
    assert [name for name, _ in net.named_modules()] == ["", "second", "first"]
    assert net.modules()[0] is net
    assert net.children() == [net.second, net.first]


def test_a_shared_parameter_counts_once():
    net = nn.Sequential(nn.Linear(5, 5, bias=False), nn.Linear(5, 5, bias=False))
    net[1].weight = net[0].weight
    assert net.num_parameters() == 25
    assert len(net.parameters()) == 1
    assert set(net.state_dict()) == {"0.weight", "1.weight"}
    x = np.ones((2, 5), np.float32)
    net(x).sum().backward()
    w = net[0].weight.numpy().astype("float64")
    g = np.ones((2, 5))
    close(net[0].weight.grad, g.T @ (x @ w.T) + (g @ w).T @ x, "float32 gradient")


def test_state_dicts_are_copies_and_load():
    net, other = Net(), Net()
    state = net.state_dict()
    before = state["scale"].numpy().copy()
    net.scale.copy_(np.zeros(5))
    close(state["scale"], before)
    other.load_state_dict({k: v.numpy().astype("float64") for k, v in state.items()})
    assert other.second.weight.dtype == "float32", "the layer's dtype remains"
    close(other.second.weight, state["second.weight"])
    other.load_state_dict(state)
    x = np.ones((2, 3))
    other.load_state_dict({k: v.numpy().tolist() for k, v in state.items()})
    net.load_state_dict(state)
    assert net(x).numpy().tobytes() == other(x).numpy().tobytes()


def test_everything_wrong_with_a_state_dict_is_named_at_once():
    net = Net()
    before = {k: v.numpy().copy() for k, v in net.state_dict().items()}
    state = {k: np.full(v.shape, 9.0) for k, v in before.items()}
    del state["second.bias"], state["shift"]
    state |= {"extra": np.ones(1), "more.weight": np.ones(2), "scale": np.ones((5, 1))}
    text = (
        r"load_state_dict: .* got missing: shift, second.bias; unexpected: extra, more.weight; "
        r"wrong shape: scale must be \(5,\) and is \(5, 1\)"
    )
    with pytest.raises(ValueError, match=text):
        net.load_state_dict(state)
    with pytest.raises(ValueError, match=r"wrong shape: scale") as error:
        net.load_state_dict(state, strict=False)
    assert "missing" not in str(error.value)
    for k, v in net.state_dict().items():
        assert v.numpy().tobytes() == before[k].tobytes(), "nothing is changed then"
    state["scale"] = np.full(5, 9.0)
    net.load_state_dict(state, strict=False)
    assert (net.scale.numpy() == 9).all()
    close(net.second.bias, before["second.bias"])


@pytest.mark.parametrize("bad", [None, 3, [("a", 1)]])
def test_a_state_dict_is_a_dict(bad):
    with pytest.raises(TypeError, match="load_state_dict: state_dict must be a dict"):
        Net().load_state_dict(bad)
    with pytest.raises(TypeError, match="load_state_dict: names must be strings; got 3"):
        Net().load_state_dict({3: np.ones(1)})
    with pytest.raises(TypeError, match="load_state_dict: scale must"):
        Net().load_state_dict({"scale": "text"})


class Foreign:
    """Looks like a PyTorch tensor: needs detach before its array can be had."""

    def __init__(self, array, detached=False):
        self.array, self.detached, self.dtype = array, detached, array.dtype

    def detach(self):
        return Foreign(self.array, True)

    def __array__(self, dtype=None, copy=None):
        if not self.detached:
            raise RuntimeError("requires grad")
        return self.array


def test_tensors_that_look_like_pytorchs_load():
    net = Net()
    wanted = {k: np.random.default_rng(1).standard_normal(v.shape) for k, v in net.state_dict().items()}
    net.load_state_dict({k: Foreign(v) for k, v in wanted.items()})
    for k, v in net.state_dict().items():
        close(v, wanted[k].astype("float32"))


def test_pytorchs_tensors_load():
    torch = pytest.importorskip("torch")
    linear, theirs = nn.Linear(3, 5), torch.nn.Linear(3, 5)
    linear.load_state_dict(theirs.state_dict())
    close(linear.weight, theirs.weight.detach().numpy())
    linear.load_state_dict(dict(theirs.named_parameters()))
    linear.load_state_dict(theirs.to(torch.bfloat16).state_dict())
    close(linear.bias, theirs.bias.detach().float().numpy())


def test_to_changes_the_dtype_of_what_floats():
    net = Net()
    net.register_buffer("count", np.arange(3))
    wide = net.to("float64")
    assert wide is net
    assert {p.dtype for p in net.parameters()} == {np.dtype("float64")}
    assert net.shift.dtype == "float64"
    assert net.count.dtype == "int64"
    assert net(np.ones((2, 3), np.float32)).dtype == "float64"
    assert net.to(np.float32)(np.ones((2, 3))).dtype == "float32"
    with pytest.raises(TypeError, match="to: dtype must be float32, float64 or bfloat16; got int64"):
        net.to("int64")
    with pytest.raises(TypeError, match="to: dtype must be float32, float64 or bfloat16; got None"):
        net.to(None)


def test_modes_reach_all_parts():
    net = nn.Sequential(nn.Dropout(0.5), nn.Sequential(nn.Dropout(0.5)))
    assert net.training
    assert net.eval() is net
    assert not any(m.training for m in net.modules())
    assert (net(np.ones(99)).numpy() == 1).all()
    assert net.train() is net
    assert all(m.training for m in net.modules())
    assert (net(np.ones(99)).numpy() == 0).any()
    net.train(False)
    assert not net[1][0].training
    assert (net[1].train()(np.ones(99)).numpy() == 0).any()
    assert not net.training


def test_repr_shows_arguments_and_parts():
    assert repr(nn.Linear(3, 5)) == "Linear(in_features=3, out_features=5, bias=True)"
    text = repr(nn.Sequential(nn.Linear(3, 5), nn.Dropout(0.25)))
    assert text.splitlines()[0] == "Sequential("
    assert "(0): Linear(in_features=3" in text
    assert "(1): Dropout(p=0.25)" in text
    assert "(second): Linear(" in repr(Net())


def test_attributes_can_be_replaced():
    net = Net()
    net.second = nn.Linear(3, 5, bias=False)
    assert [n for n, _ in net.named_parameters()] == ["scale", "second.weight", "first.weight"], (
        "in its place"
    )
    net.shift = qkv.tensor([1.0, 1.0])
    net.scale = nn.Parameter(np.zeros(5))
    close(net(np.ones((7, 3))), np.ones((7, 2)), "float32")
    attention = nn.MultiHeadAttention(6, 2)
    wide = nn.Linear(6, 6)
    attention.q_proj = wide
    assert attention.q_proj is wide
    wide.weight.copy_(np.zeros((6, 6)))
    wide.bias.copy_(np.zeros(6))
    attention(np.random.default_rng(0).standard_normal((1, 5, 6)))
    close(attention.attention_weights, np.full((1, 2, 5, 5), 0.2), "float32")
    linear = nn.Linear(3, 5)
    linear.bias = None
    close(linear(np.zeros(3)), np.zeros(5))
    assert list(linear.state_dict()) == ["weight"]
    del net.note
    assert not hasattr(net, "note")
    net.extra = nn.ReLU()
    del net.extra
    assert "extra" not in dict(net.named_modules())


def test_replacements_that_the_layer_cannot_compute_with_are_refused():
    attention, linear = nn.MultiHeadAttention(6, 2), nn.Linear(3, 5)
    for bad, text in ((nn.ReLU(), "q_proj must be Linear"), (nn.Parameter(np.ones(3)), "q_proj must be"),
                      (None, "q_proj must be Linear"), (3, "q_proj must be a Module")):  # fmt: skip
        with pytest.raises(TypeError, match=text):
            attention.q_proj = bad
    for bad in (None, nn.Linear(3, 5)):
        with pytest.raises(TypeError, match="weight must be a Parameter"):
            linear.weight = bad
    for bad in (np.ones((5, 3)), "x"):
        with pytest.raises(TypeError, match="weight must be a Parameter because it is one already; got"):
            linear.weight = bad
    with pytest.raises(TypeError, match="cannot be deleted because the layer computes with it"):
        del linear.weight
    for norm in (nn.RMSNorm(3), nn.Embedding(5, 3)):
        with pytest.raises(TypeError, match="weight must be a Parameter"):
            norm.weight = None
    x = np.ones((1, 5, 6))
    assert attention(x).shape == (1, 5, 6), "nothing was changed"
    assert linear(np.ones(3)).shape == (5,)


def test_projections_of_other_sizes_are_an_error_and_no_crash():
    x = np.ones((1, 5, 6))
    for name, size in (("q_proj", 4), ("k_proj", 4), ("k_proj", 600), ("v_proj", 5), ("q_proj", 5)):
        attention = nn.MultiHeadAttention(6, 2)
        setattr(attention, name, nn.Linear(6, size))
        with pytest.raises(ValueError, match="MultiHeadAttention: "):
            attention(x)
    alone = nn.SelfAttention(3, 2)
    alone.k_proj = nn.Linear(3, 7)
    with pytest.raises(ValueError, match="SelfAttention: "):
        alone(np.ones((5, 3)))
    linear = nn.Linear(3, 5)
    linear.weight = nn.Parameter(np.ones((5, 7)))
    with pytest.raises(ValueError, match="Linear"):
        linear(np.ones(3))
    linear.weight = nn.Parameter(np.ones((7, 3)))
    with pytest.raises(ValueError, match="Linear"):
        linear(np.ones(3))
    linear = nn.Linear(3, 5)
    linear.bias = nn.Parameter(np.ones(7))
    with pytest.raises(ValueError, match=r"Linear: bias must be \(out_features,\) = \(5,\); got bias \(7,\)"):
        linear(np.ones(3))
    for norm in (nn.LayerNorm(3), nn.RMSNorm(3)):
        norm.weight = nn.Parameter(np.ones(5))
        with pytest.raises(ValueError, match="norm"):
            norm(np.ones(3))


def test_parts_of_another_width_are_cast():
    linear = nn.Linear(3, 5)
    linear.bias = nn.Parameter(np.arange(5.0), dtype="float64")
    y = linear(np.zeros(3))
    assert y.dtype == "float32"
    close(y, np.arange(5.0), "float32")
    y.sum().backward()
    assert linear.bias.grad.dtype == "float64"
    attention = nn.MultiHeadAttention(6, 2)
    x = np.random.default_rng(0).standard_normal((1, 5, 6))
    expected = attention(x)
    attention.k_proj.to("float64")
    close(attention(x), expected, "float32")
    close(attention.attention_weights.sum(axis=-1), np.ones((1, 2, 5)), "float32")


def test_a_module_cannot_contain_itself():
    net = nn.Module()
    with pytest.raises(ValueError, match="a module cannot be its own part"):
        net.me = net
    part = nn.Module()
    net.part = part
    with pytest.raises(ValueError, match="owner must not contain the module that it becomes a part of"):
        part.owner = net
    assert [name for name, _ in net.named_modules()] == ["", "part"]


def test_missing_attributes_and_forgotten_init():
    with pytest.raises(AttributeError, match="'Net' object has no attribute 'nothing'"):
        Net().nothing  # noqa: B018

    class Forgot(nn.Module):
        def __init__(self):
            self.layer = nn.Linear(2, 2)

    with pytest.raises(
        AttributeError, match=r"Forgot: super\(\).__init__\(\) must be called before .* got layer"
    ):
        Forgot()
    with pytest.raises(AttributeError, match="'Module' object has no attribute 'forward'"):
        nn.Module()(np.ones(3))


def test_modules_are_freed():
    class Tracked(nn.Module):
        pass

    net = Tracked()
    net.part = nn.Linear(2, 2)
    assert net.part is net.part
    alive = weakref.ref(net)
    del net
    gc.collect()
    assert alive() is None


def test_parameters_are_copies_that_learn():
    data = np.ones(3)
    p = nn.Parameter(data)
    data[0] = 5
    close(p, np.ones(3))
    assert p.requires_grad
    assert p.dtype == "float32"
    assert nn.Parameter([1, 2]).dtype == "float32"
    assert nn.Parameter([0.5, 1]).dtype == "float32"
    wide = nn.Parameter(np.full(3, 1 / 3), dtype="float64")
    np.testing.assert_array_equal(wide.numpy(), np.full(3, 1 / 3))
    assert nn.Parameter(data, False, dtype=np.float32).dtype == "float32"
    with pytest.raises(TypeError, match=r"Parameter: dtype must be float32 or float64 because .*; got int64"):
        nn.Parameter([1], dtype="int64")


def test_a_parameter_without_dtype_follows_the_module():
    net = Net().to("float64")
    net.scale = nn.Parameter(np.zeros(5))
    net.first.weight = nn.Parameter(np.zeros(net.first.weight.shape, "float32"))
    net.narrow = nn.Parameter([1.0], dtype="float32")
    net.wide = nn.Parameter([1.0])
    assert [p.dtype for p in (net.scale, net.first.weight, net.wide)] == ["float64"] * 3
    assert net.narrow.dtype == "float32"
    for twin in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        twin.later = nn.Parameter([1.0])
        assert twin.later.dtype == "float64"
    net.to("float32").later = nn.Parameter(np.ones(2))
    assert net.later.dtype == "float32"
    shared = Net()
    shared.scale = nn.Parameter(np.full(5, 1 / 3))
    net.to("float64").scale = shared.scale  # belongs to another module, which keeps its dtype
    assert shared.scale.dtype == "float32"
    kept = Net()
    kept.scale = nn.Parameter(np.zeros(5), dtype="float64")
    assert kept.scale.dtype == "float64"


def test_apply_reaches_every_part():
    seen = []
    net = Net()
    assert net.apply(lambda m: seen.append(type(m).__name__)) is net
    assert seen == ["Net", "Linear", "Linear"]


def test_buffers_follow_state_and_copies():
    net = Net()
    data = np.ones(2, np.float32)
    net.register_buffer("shift", data)
    data[:] = 7
    close(net.shift, np.ones(2))
    assert net.num_parameters() == 35
    net.register_buffer("empty", None)
    assert "empty" not in net.state_dict()
    net.load_state_dict({**net.state_dict(), "shift": np.zeros(2)})
    close(net.shift, np.zeros(2))
    assert not net.shift.requires_grad


def test_a_module_whose_constructor_has_not_run_can_be_shown():
    assert repr(nn.Linear.__new__(nn.Linear)) == "Linear(not initialised)"


def test_of_many_missing_names_some_are_shown():
    with pytest.raises(ValueError, match=r"missing: layers\.0\.self_attn\.q_proj\.weight, .* and 22 more$"):
        nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16), 2).load_state_dict({})
