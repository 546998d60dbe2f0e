"""Optimizers, schedules and caches are pickled, copied and printed; what they share with a module stays shared."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import qkv
from qkv import models, nn, optim

X = np.random.default_rng(0).standard_normal((5, 3)).astype("float32")
OPTIMIZERS = {
    "SGD": lambda p: optim.SGD(p, 0.1, momentum=0.9, weight_decay=0.01, nesterov=True),
    "Adam": lambda p: optim.Adam(p, 0.1, (0.7, 0.8), 1e-5, 0.02),
    "AdamW": lambda p: optim.AdamW(p, 0.1),
}
SCHEDULES = {
    "ConstantSchedule": lambda o: optim.ConstantSchedule(o, 3),
    "LinearSchedule": lambda o: optim.LinearSchedule(o, 11, 3),
    "CosineSchedule": lambda o: optim.CosineSchedule(o, 11, final=0.1),
    "NoamSchedule": lambda o: optim.NoamSchedule(o, 16, 3),
}


def pickled(x):
    return pickle.loads(pickle.dumps(x))


BERT = dict(vocab_size=5, hidden_size=4, num_hidden_layers=1, num_attention_heads=2, intermediate_size=3)
MODELS = {
    "CausalLM": lambda: models.CausalLM(11, 8, 2, 1),
    "Transformer": lambda: models.Transformer(7, 7, 8, 2, 1, 1, 16),
    "EncoderDecoder": lambda: models.EncoderDecoder(
        models.Seq2SeqEncoder(3, 4, 5, 1), models.Seq2SeqAttentionDecoder(3, 4, 5, 1)
    ),
    **{
        name: lambda name=name: getattr(models, name)(models.BertConfig(**BERT))
        for name in (
            "BertModel",
            "BertForPreTraining",
            "BertForMaskedLM",
            "BertForSequenceClassification",
            "BertForTokenClassification",
            "BertForQuestionAnswering",
        )
    },
}


def train(model, optimizer, schedule=None, steps=3):
    for _ in range(steps):
        optimizer.zero_grad()
        (model(X) ** 2).sum().backward()
        optimizer.step()
        if schedule is not None:
            schedule.step()
    return [p.numpy().copy() for p in model.parameters()]


@pytest.mark.parametrize("twin", [pickled, copy.copy, copy.deepcopy])
@pytest.mark.parametrize("name", MODELS)
def test_a_model(name, twin):
    model = MODELS[name]().eval()
    its = twin(model)
    assert type(its) is type(model)
    assert repr(its) == repr(model)
    assert [m.training for m in its.modules()] == [False] * len(model.modules())
    for (key, a), (same, b) in zip(model.named_parameters(), its.named_parameters(), strict=True):
        assert key == same
        np.testing.assert_array_equal(a.numpy(), b.numpy())
        assert (a is b) == (twin is copy.copy)


@pytest.mark.parametrize("twin", [pickled, copy.deepcopy])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_optimizer_with_its_module(name, twin):
    model = nn.Sequential(nn.Linear(3, 7), nn.Tanh(), nn.Linear(7, 2)).to(
        "float64" if name == "SGD" else "float32"
    )
    optimizer = OPTIMIZERS[name](model.parameters())
    before = train(model, optimizer)
    copied, its = twin((model, optimizer))
    assert type(its) is type(optimizer)
    assert repr(its) == repr(optimizer)
    assert all(a is b for a, b in zip(its.params, copied.parameters(), strict=True))
    assert not any(a is b for a, b in zip(its.params, model.parameters(), strict=True))
    after = train(copied, its)
    for kept, p in zip(before, model.parameters(), strict=True):
        np.testing.assert_array_equal(kept, p.numpy())  # the first model has not moved
    for expected, actual in zip(train(model, optimizer), after, strict=True):
        np.testing.assert_array_equal(actual, expected)  # both continue with the same bits


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_shallow_copy_trains_the_same_parameters(name):
    model = nn.Linear(3, 2)
    optimizer = OPTIMIZERS[name](model.parameters())
    train(model, optimizer)
    twin = copy.copy(optimizer)
    assert all(a is b for a, b in zip(twin.params, model.parameters(), strict=True))
    twin.lr = 0.5
    assert optimizer.lr == 0.1


def test_optimizers_print_their_settings():
    p = nn.Linear(3, 2).parameters()
    assert (
        repr(OPTIMIZERS["SGD"](p))
        == "SGD(2 parameters, lr=0.1, weight_decay=0.01, momentum=0.9, nesterov=True)"
    )
    assert repr(OPTIMIZERS["AdamW"](p)) == (
        "AdamW(2 parameters, lr=0.1, weight_decay=0.01, betas=(0.9, 0.999), eps=1e-08)"
    )


@pytest.mark.parametrize("twin", [pickled, copy.deepcopy])
@pytest.mark.parametrize("name", SCHEDULES)
def test_a_schedule_with_its_optimizer_and_module(name, twin):
    model = nn.Linear(3, 2)
    optimizer = optim.Adam(model.parameters(), 0.1)
    schedule = SCHEDULES[name](optimizer)
    train(model, optimizer, schedule)
    copied, its, plan = twin((model, optimizer, schedule))
    assert plan.optimizer is its
    assert repr(plan) == repr(schedule)
    assert repr(plan).startswith(f"{name}(update 4, ")
    after = train(copied, its, plan)
    assert its.lr != optimizer.lr or name == "ConstantSchedule"
    for expected, actual in zip(train(model, optimizer, schedule), after, strict=True):
        np.testing.assert_array_equal(actual, expected)
    assert its.lr == optimizer.lr


@pytest.mark.parametrize("twin", [pickled, copy.copy, copy.deepcopy])
@pytest.mark.parametrize("capacity", [None, 7])
def test_a_cache_goes_on_by_itself(twin, capacity):
    layer = nn.MultiHeadAttention(4, 2, is_causal=True)
    x = np.random.default_rng(1).standard_normal((2, 7, 4)).astype("float32")
    cache = nn.KVCache(capacity)
    with qkv.no_grad():
        assert len(twin(cache)) == 0
        layer(x[:, :3], cache=cache)
        its = twin(cache)
        assert repr(its) == repr(cache)
        assert (len(its), its.capacity) == (3, capacity)
        expected = layer(x[:, 3:5], cache=cache).numpy()
        layer(x[:, 5:], cache=cache)
        np.testing.assert_array_equal(layer(x[:, 3:5], cache=its).numpy(), expected)
        assert (len(its), len(cache)) == (5, 7)
        if capacity:
            with pytest.raises(
                ValueError, match="capacity must hold all tokens; got capacity = 7 with 5 tokens"
            ):
                layer(x[:, :3], cache=its)


def test_a_cache_that_records_is_copied_as_numbers():
    layer = nn.MultiHeadAttention(4, 2, is_causal=True)
    cache = nn.KVCache()
    layer(np.ones((1, 3, 4)), cache=cache)
    its = pickled(cache)
    with qkv.no_grad():
        np.testing.assert_allclose(
            layer(np.ones((1, 1, 4)), cache=its).numpy(),
            layer(np.ones((1, 1, 4)), cache=cache).numpy(),
            rtol=1e-6,
        )


def test_states_go_to_parameters_of_the_same_names():
    def build(names):
        return optim.Adam([(n, qkv.nn.Parameter([float(len(n))])) for n in names], 0.1)

    one, other = build(["a", "bb", "ccc"]), build(["ccc", "a", "bb"])
    (one.param_groups[0]["params"][1] * 2).backward()
    one.step()
    state = one.state_dict()
    assert list(state["param_groups"][0]["param_names"]) == ["a", "bb", "ccc"]
    other.load_state_dict(state)
    assert list(other.state_dict()["state"]) == [2]
    other.load_state_dict(pickle.loads(pickle.dumps(one)).state_dict())
    assert list(other.state_dict()["state"]) == [2]
    plain = optim.Adam([qkv.nn.Parameter([float(i)]) for i in range(3)], 0.1)
    plain.load_state_dict(state)  # by position where names are missing
    assert list(plain.state_dict()["state"]) == [1]
