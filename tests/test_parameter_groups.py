"""Groups of parameters: each with options of its own, in steps, schedules, states, copies and the training loop."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from helpers import close
from test_optim import parameter, train

import qkv
from qkv import nn, optim, reference, training

SIZES = ((5, 7), (3,), (11,), (2, 13))
# The optimizer, its options, those of the second group, and how the reference takes a step.
CASES = {
    "SGD": (
        optim.SGD,
        {"lr": 0.1, "momentum": 0.7, "weight_decay": 0.3},
        {"lr": 0.02, "momentum": 0.5, "nesterov": True, "weight_decay": 0.0},
        reference.sgd_step,
    ),
    "Adam": (
        optim.Adam,
        {"lr": 0.1, "weight_decay": 0.3},
        {"lr": 0.05, "betas": (0.8, 0.95), "eps": 1e-3, "weight_decay": 0.0},
        reference.adam_step,
    ),
    "AdamW": (optim.AdamW, {"lr": 0.1, "weight_decay": 0.3}, {"weight_decay": 0.0}, reference.adamw_step),
}


def parameters():
    return [parameter(size, seed) for seed, size in enumerate(SIZES)]


def grouped(name, params):
    kind, options, second, _ = CASES[name]
    return kind([{"params": params[:2]}, {"params": params[2:], **second}], **options)


@pytest.mark.parametrize("name", CASES)
def test_each_group_steps_by_its_own_options(name):
    _, options, second, step = CASES[name]
    params = parameters()
    expected = [(p.numpy().copy(), None) for p in params]
    optimizer = grouped(name, params)
    for seed in range(4):
        gradients = [np.random.default_rng((seed, i)).normal(size=size) for i, size in enumerate(SIZES)]
        for p, gradient in zip(params, gradients, strict=True):
            p.grad = gradient
        optimizer.step()
        for i, (w, state) in enumerate(expected):
            expected[i] = step(w, gradients[i], state, **(options | (second if i >= 2 else {})))
    for p, (w, _) in zip(params, expected, strict=True):
        close(p, w)


@pytest.mark.parametrize("name", CASES)
def test_the_numbers_are_pytorch_s(name):
    torch = pytest.importorskip("torch")
    _, options, second, _ = CASES[name]
    params = parameters()
    theirs = [torch.tensor(p.numpy().copy(), requires_grad=True) for p in params]
    groups = [{"params": theirs[:2]}, {"params": theirs[2:], **second}]
    other = getattr(torch.optim, name)(groups, **options)
    optimizer = grouped(name, params)

    def together(steps, seed):
        random = np.random.default_rng(seed)
        for _ in range(steps):
            for p, q in zip(params, theirs, strict=True):
                p.grad = random.normal(size=p.shape)
                q.grad = torch.tensor(p.grad.numpy().copy())
            optimizer.step()
            other.step()
        for p, q in zip(params, theirs, strict=True):
            close(p, q.detach().numpy())

    together(3, 1)
    for groups in (optimizer.param_groups, other.param_groups):
        groups[0]["lr"] *= 0.5
        groups[1]["weight_decay"] = 0.2
    together(3, 2)
    ours = grouped(name, params)
    ours.load_state_dict(other.state_dict())  # PyTorch's, with all its other keys
    optimizer = ours
    together(3, 3)
    other.load_state_dict(
        {
            "state": {
                i: {k: torch.tensor(v) for k, v in entry.items()}
                for i, entry in optimizer.state_dict()["state"].items()
            },
            "param_groups": [
                {**their, **our}
                for their, our in zip(
                    other.state_dict()["param_groups"], optimizer.state_dict()["param_groups"], strict=True
                )
            ],
        }
    )
    together(3, 4)


def test_what_params_may_be():
    layer = nn.Linear(3, 2)
    weight, bias = layer.parameters()
    for params, sizes in (
        (layer.named_parameters(), [2]),
        (iter([{"params": weight}, {"params": (p for p in [bias])}]), [1, 1]),
        ([{"params": layer.named_parameters()[:1]}, {"params": [bias], "lr": 1}], [1, 1]),
        ({"a": weight, "b": bias}.values(), [2]),
        ({"a": {"params": [weight, bias]}}.values(), [2]),
    ):
        optimizer = optim.SGD(params, lr=0.5)
        assert [len(group["params"]) for group in optimizer.param_groups] == sizes
        assert [p is q for p, q in zip(optimizer.params, (weight, bias), strict=True)] == [True, True]


def test_a_group_is_read_and_assigned_like_a_dict():
    w, b = parameters()[:2]
    optimizer = optim.AdamW([{"params": [w]}, {"params": [b], "lr": np.float32(0.25)}], lr=1)
    first, second = optimizer.param_groups
    assert list(first) == ["params", "lr", "weight_decay", "betas", "eps"] == first.keys()
    assert len(first) == 5
    assert dict(second) == {**second} == dict(second.items())
    assert dict(second) == {
        "params": (b,),
        "lr": 0.25,
        "weight_decay": 0.01,
        "betas": (0.9, 0.999),
        "eps": 1e-8,
    }
    assert second.values() == [second[name] for name in second]
    assert (first.get("lr"), first.get("momentum"), first.get("momentum", 3)) == (1.0, None, 3)
    assert "lr" in first
    assert "momentum" not in first
    assert optimizer.param_groups[0] is first
    first["lr"] *= 0.5
    first.update({"betas": [0.5, 0.75]}, eps=0)
    assert (first["lr"], first["betas"], first["eps"]) == (0.5, (0.5, 0.75), 0.0)
    with pytest.raises(ValueError, match="eps must be at least 0"):
        first.update(lr=2.0, eps=-1)
    assert first["lr"] == 0.5  # all or nothing
    assert repr(second) == (
        "ParameterGroup(1 parameter, lr=0.25, weight_decay=0.01, betas=(0.9, 0.999), eps=1e-08)"
    )
    del optimizer
    assert second["lr"] == 0.25  # a group keeps its optimizer


def test_a_momentum_that_nesterov_needs_goes_with_it():
    (group,) = optim.SGD([parameter()], lr=1, momentum=0.5, nesterov=True).param_groups
    with pytest.raises(ValueError, match="momentum must be above 0 because nesterov"):
        group["momentum"] = 0.0
    group.update(momentum=0.0, nesterov=False)
    assert not group["nesterov"]


def test_lr_is_that_of_all_groups_or_an_error():
    params = parameters()
    optimizer = optim.SGD([{"params": params[:2]}, {"params": params[2:]}], lr=0.5)
    assert optimizer.lr == 0.5
    optimizer.lr = 0.25
    assert [group["lr"] for group in optimizer.param_groups] == [0.25, 0.25]
    with pytest.raises(ValueError, match="lr must be at least 0"):
        optimizer.lr = -1
    assert optimizer.lr == 0.25
    optimizer.param_groups[1]["lr"] = 0.1
    text = (
        r"^SGD.lr: groups must have one rate because this is the rate of all; got 0.25 and 0.1; read or assign "
        r'group\["lr"\] for group in optimizer.param_groups$'
    )
    with pytest.raises(ValueError, match=text):
        assert optimizer.lr
    with pytest.raises(ValueError, match=text):
        optimizer.lr = 1.0
    assert [group["lr"] for group in optimizer.param_groups] == [0.25, 0.1]


@pytest.mark.parametrize("name", CASES)
def test_a_group_that_is_added_has_the_options_of_the_start(name):
    kind, options, second, _ = CASES[name]
    params = parameters()
    optimizer = kind(params[:2], **options)
    optimizer.param_groups[0]["weight_decay"] = 9.0
    train(optimizer, params, 2, seed=1)
    moved, rest = params[0].numpy().copy(), params[2].numpy().copy()
    optimizer.add_param_group({"params": (p for p in params[2:]), **second})
    assert [len(group["params"]) for group in optimizer.param_groups] == [2, 2]
    added = dict(optimizer.param_groups[1])
    del added["params"]
    assert added == {**added, **options, **second}
    train(optimizer, params, 1, seed=2)
    assert (params[0].numpy() != moved).all()
    assert (params[2].numpy() != rest).all()
    steps = [entry["step"] for entry in optimizer.state_dict()["state"].values()]
    assert steps == [3, 3, 1, 1]


@pytest.mark.parametrize("twin", [lambda both: pickle.loads(pickle.dumps(both)), copy.deepcopy])
@pytest.mark.parametrize("name", CASES)
def test_states_and_copies_go_on_to_the_bit(name, twin):
    params = parameters()
    optimizer = grouped(name, params)
    train(optimizer, params, 3, seed=5)
    optimizer.param_groups[1]["lr"] = 0.03
    saved = pickle.loads(pickle.dumps(optimizer.state_dict()))
    assert [group["params"] for group in saved["param_groups"]] == [[0, 1], [2, 3]]
    assert [group["lr"] for group in saved["param_groups"]] == [0.1, 0.03]
    copies = [qkv.tensor(p.numpy(), requires_grad=True) for p in params]
    its, copied = twin((params, optimizer))
    assert repr(copied) == repr(optimizer)
    assert all(a is b for a, b in zip(copied.params, its, strict=True))
    train(optimizer, params, 3, seed=6)
    resumed = grouped(name, copies)
    resumed.load_state_dict(saved)
    train(resumed, copies, 3, seed=6)
    train(copied, its, 3, seed=6)
    for one, two, three in zip(params, copies, its, strict=True):
        assert one.numpy().tobytes() == two.numpy().tobytes() == three.numpy().tobytes()
    extra = [parameter(), parameter()]
    for o, p in zip((optimizer, copied), extra, strict=True):
        o.add_param_group({"params": p})  # with the options of the start, which a copy knows too
    assert repr(copied) == repr(optimizer)


def test_an_optimizer_shows_its_groups():
    assert repr(grouped("SGD", parameters())) == (
        "SGD(\n"
        "  group 0: 2 parameters, lr=0.1, weight_decay=0.3, momentum=0.7, nesterov=False\n"
        "  group 1: 2 parameters, lr=0.02, weight_decay=0.0, momentum=0.5, nesterov=True\n"
        ")"
    )


class TestSchedules:
    def optimizer(self, rates=(0.5, 2.0, 0.0)):
        groups = [{"params": p, "lr": lr} for p, lr in zip(parameters(), rates, strict=False)]
        return optim.SGD(groups, lr=7.0)

    @pytest.mark.parametrize(
        "make",
        [
            lambda o: optim.ConstantSchedule(o, 3),
            lambda o: optim.LinearSchedule(o, 7, 2),
            lambda o: optim.CosineSchedule(o, 7, 2, final=0.1),
        ],
    )
    def test_each_group_from_its_own_rate(self, make):
        optimizer = self.optimizer()
        schedule = make(optimizer)
        alone = [make(optim.SGD([parameter()], lr=lr)) for lr in (0.5, 2.0, 0.0)]
        for _ in range(9):
            expected = [single.optimizer.lr for single in alone]
            assert [group["lr"] for group in optimizer.param_groups] == pytest.approx(expected, rel=1e-15)
            for one in (schedule, *alone):
                one.step()

    def test_noam_keeps_proportions(self):
        optimizer = self.optimizer((0.5, 2.0))
        schedule = optim.NoamSchedule(optimizer, 64, 4)
        schedule.step()
        assert [g["lr"] for g in optimizer.param_groups] == [schedule.lr_at(2) / 4, schedule.lr_at(2)]
        still = self.optimizer((0.0, 0.0))
        schedule = optim.NoamSchedule(still, 64, 4)
        assert still.lr == schedule.lr_at(1)

    def test_resumed(self):
        optimizer = self.optimizer()
        schedule = optim.CosineSchedule(optimizer, 10, 2)
        for _ in range(4):
            schedule.step()
        other = self.optimizer((3.0, 3.0, 3.0))
        resumed = optim.CosineSchedule(other, 10, 2)
        assert "shares=[1.0, 1.0, 1.0]" in repr(resumed)
        resumed.load_state_dict(schedule.state_dict())
        for _ in range(4):
            assert [g["lr"] for g in other.param_groups] == [g["lr"] for g in optimizer.param_groups]
            schedule.step()
            resumed.step()

    def test_a_group_that_comes_later_is_an_error(self):
        optimizer = self.optimizer()
        schedule = optim.ConstantSchedule(optimizer)
        optimizer.add_param_group({"params": parameter()})
        text = (
            r"^ConstantSchedule: the optimizer must have the 3 groups with which the schedule was made; got 4; add "
            r"groups first, or make a new schedule$"
        )
        with pytest.raises(ValueError, match=text):
            schedule.step()


def test_clipping_zeroing_and_training_with_groups(tmp_path):
    def build(checkpoint=None):
        qkv.manual_seed(3)
        model = nn.Sequential(nn.Linear(5, 7), nn.LayerNorm(7), nn.Linear(7, 1))
        decayed = [p for p in model.parameters() if p.ndim > 1]
        rest = [p for p in model.parameters() if p.ndim == 1]
        optimizer = optim.AdamW(
            [{"params": decayed, "weight_decay": 0.5}, {"params": rest, "weight_decay": 0.0, "lr": 0.3}],
            lr=0.1,
        )
        schedule = optim.LinearSchedule(optimizer, 11)
        return training.Trainer(
            model,
            optimizer,
            lambda m, rows: (qkv.losses.mse(m(rows), rows[:, :1], reduction="sum"), len(rows)),
            schedule=schedule,
            max_grad_norm=0.5,
            checkpoint=checkpoint,
        )

    rows = [np.random.default_rng(i).normal(size=(6, 5)).astype("float32") for i in range(3)]
    whole = build()
    history = whole.fit(rows, steps=7, progress=False)
    assert history.lr == pytest.approx([0.1 * (1 - i / 10) for i in range(7)])  # of the first group
    assert [g["lr"] for g in whole.optimizer.param_groups] == pytest.approx([0.03, 0.09])
    path = tmp_path / "checkpoint"
    build(path).fit(rows, steps=4, progress=False)
    resumed = build(path)
    resumed.fit(rows, steps=7, progress=False)
    for p, q in zip(whole.model.parameters(), resumed.model.parameters(), strict=True):
        assert p.numpy().tobytes() == q.numpy().tobytes()
    for p in whole.optimizer.params:
        p.grad = np.full(p.shape, 3.0, "float32")
    whole.optimizer.zero_grad()
    assert all(p.grad is None for p in whole.model.parameters())
