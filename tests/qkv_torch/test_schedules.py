"""Schedules of the learning rate against PyTorch's: every step, steps to an epoch, momenta, and what resumes."""

from __future__ import annotations

import random

import pytest

import qkv.torch

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

SCHEDULES = {
    "LambdaLR": lambda s, o: s.LambdaLR(o, [lambda n: 0.9**n, lambda n: 1 / (n + 1)]),
    "MultiplicativeLR": lambda s, o: s.MultiplicativeLR(o, lambda n: 0.9 + n / 100),
    "StepLR": lambda s, o: s.StepLR(o, 3, 0.5),
    "MultiStepLR": lambda s, o: s.MultiStepLR(o, [2, 5, 5, 9], 0.3),
    "ExponentialLR": lambda s, o: s.ExponentialLR(o, 0.9),
    "ConstantLR": lambda s, o: s.ConstantLR(o, 0.25, 4),
    "LinearLR": lambda s, o: s.LinearLR(o, 0.25, 0.75, 6),
    "PolynomialLR": lambda s, o: s.PolynomialLR(o, 8, 1.5),
    "CosineAnnealingLR": lambda s, o: s.CosineAnnealingLR(o, 5, 0.01),
    "CosineAnnealingWarmRestarts": lambda s, o: s.CosineAnnealingWarmRestarts(o, 3, 2, 0.01),
    "OneCycleLR": lambda s, o: s.OneCycleLR(o, [0.5, 0.1], 40),
    "OneCycleLR, three phases": lambda s, o: s.OneCycleLR(
        o, 0.5, epochs=4, steps_per_epoch=10, three_phase=True, anneal_strategy="linear", pct_start=0.4
    ),
    "OneCycleLR without momentum": lambda s, o: s.OneCycleLR(o, 0.5, 40, cycle_momentum=False),
    "SequentialLR": lambda s, o: s.SequentialLR(
        o, [s.LinearLR(o, 0.1, 1.0, 4), s.CosineAnnealingLR(o, 6), s.ExponentialLR(o, 0.5)], [4, 10]
    ),
    "SequentialLR of restarts": lambda s, o: s.SequentialLR(
        o, [s.ConstantLR(o, 0.5, 2), s.CosineAnnealingWarmRestarts(o, 3)], [3]
    ),
    "ChainedScheduler": lambda s, o: s.ChainedScheduler([s.ConstantLR(o, 0.5, 3), s.ExponentialLR(o, 0.9)]),
}
OPTIMIZERS = {
    "SGD": lambda m, groups: m.optim.SGD(groups, lr=0.4, momentum=0.8),
    "Adam": lambda m, groups: m.optim.Adam(groups, lr=0.4, betas=(0.8, 0.99)),
}


def build(m, name, optimizer):
    parameters = [m.ones(2, requires_grad=True), m.zeros(3, requires_grad=True)]
    for p in parameters:
        p.grad = m.ones(*p.shape)
    o = OPTIMIZERS[optimizer](m, [{"params": parameters[:1]}, {"params": parameters[1:], "lr": 0.2}])
    return o, SCHEDULES[name](m.optim.lr_scheduler, o), parameters


def state(o, schedule, parameters):
    return (
        schedule.get_last_lr(),
        [(group["lr"], group.get("momentum"), group.get("betas")) for group in o.param_groups],
        [p.detach().tolist() for p in parameters],
    )


def same(mine, theirs):
    assert mine[0] == pytest.approx(theirs[0], rel=1e-9)
    for a, b in zip(mine[2], theirs[2], strict=True):
        assert a == pytest.approx(b, rel=2e-5, abs=1e-7)
    for (lr, momentum, betas), (lr2, momentum2, betas2) in zip(mine[1], theirs[1], strict=True):
        assert lr == pytest.approx(lr2, rel=1e-9)
        assert momentum == (None if momentum2 is None else pytest.approx(momentum2, rel=1e-9))
        assert betas == (None if betas2 is None else pytest.approx(betas2, rel=1e-9))


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("name", SCHEDULES)
def test_steps(name, optimizer):
    both = [build(m, name, optimizer) for m in (qkv.torch, torch)]
    same(state(*both[0]), state(*both[1]))
    for _ in range(20):
        for o, schedule, _ in both:
            o.step()
            schedule.step()
        same(state(*both[0]), state(*both[1]))


@pytest.mark.parametrize("name", [n for n in SCHEDULES if "Sequential" not in n and n != "ChainedScheduler"])
def test_steps_to_an_epoch(name):
    choose = random.Random(0)
    both = [build(m, name, "SGD") for m in (qkv.torch, torch)]
    for _ in range(12):
        epoch = choose.choice([None, None, choose.randrange(12)])
        for _, schedule, _ in both:
            schedule.step() if epoch is None else schedule.step(epoch)
        same(state(*both[0]), state(*both[1]))


@pytest.mark.parametrize("order", ["optimizer first", "schedule first"])
@pytest.mark.parametrize("name", SCHEDULES)
def test_what_resumes(name, order):
    """A new optimizer and schedule with the states of old ones go on as these."""
    ends = []
    for m in (qkv.torch, torch):
        o, schedule, parameters = build(m, name, "SGD")
        for _ in range(5):
            o.step()
            schedule.step()
        states = o.state_dict(), schedule.state_dict()
        again, resumed, others = build(m, name, "SGD")
        for p, q in zip(others, parameters, strict=True):
            p.data.copy_(q.data)
        if order == "optimizer first":
            again.load_state_dict(states[0])
            resumed.load_state_dict(states[1])
        else:
            resumed.load_state_dict(states[1])
            again.load_state_dict(states[0])
        assert resumed.optimizer is again
        for _ in range(9):
            again.step()
            resumed.step()
        ends.append(state(again, resumed, others))
    same(*ends)


def test_plateaus():
    for options in (
        {},
        {"mode": "max", "threshold_mode": "abs"},
        {"cooldown": 2, "patience": 1, "min_lr": [0.05, 0.1]},
    ):
        choose = random.Random(1)
        both = []
        for m in (qkv.torch, torch):
            o, _, parameters = build(m, "ConstantLR", "SGD")
            both.append(
                (o, m.optim.lr_scheduler.ReduceLROnPlateau(o, **{"patience": 2, **options}), parameters)
            )
        for _ in range(40):
            measure = choose.choice([choose.random(), float("nan"), -1.0]) if choose.random() < 0.9 else 0.5
            for _, schedule, _ in both:
                schedule.step(measure)
            same(state(*both[0]), state(*both[1]))


def test_the_momentum_of_one_cycle():
    o = qkv.torch.optim.SGD([qkv.torch.ones(1, requires_grad=True)], lr=1.0, momentum=0.9)
    schedule = qkv.torch.optim.lr_scheduler.OneCycleLR(o, 1.0, 10, pct_start=0.4, anneal_strategy="linear")
    seen = [o.param_groups[0]["momentum"]]
    for _ in range(4):
        schedule.step()
        seen.append(round(o.param_groups[0]["momentum"], 4))
    assert seen[0] == 0.95
    assert min(seen) == 0.85


def test_powers_of_far_epochs():
    s, o = qkv.torch.optim.lr_scheduler, qkv.torch.optim.SGD([qkv.torch.ones(1, requires_grad=True)], lr=1.0)
    schedule = s.ExponentialLR(o, 2)
    schedule.step(2**32)
    assert schedule.get_last_lr() == [float("inf")]


def test_refused():
    s, o = qkv.torch.optim.lr_scheduler, qkv.torch.optim.SGD([qkv.torch.ones(1, requires_grad=True)], lr=1.0)
    for call, error, text in (
        (lambda: s.LinearLR(o, 0.0), ValueError, "start_factor must be above 0"),
        (lambda: s.LambdaLR(o, [abs, abs]), ValueError, "Expected 1 lr_lambdas, but got 2"),
        (lambda: s.OneCycleLR(o, 1.0), ValueError, "total_steps, or epochs and steps_per_epoch"),
        (lambda: s.OneCycleLR(o, 1.0, 5, anneal_strategy="exp"), ValueError, "must be 'cos' or 'linear'"),
        (lambda: s.SequentialLR(o, [s.StepLR(o, 1)], [1]), ValueError, "one more than milestones"),
        (lambda: s.CosineAnnealingWarmRestarts(o, 0), ValueError, "T_0 must be an int above 0"),
        (lambda: s.ReduceLROnPlateau(o, "least"), ValueError, "mode must be 'min' or 'max'"),
        (lambda: s.StepLR(o, 1, gama=0.1), TypeError, "gama"),
        (lambda: s.CyclicLR, AttributeError, "CyclicLR"),
    ):
        with pytest.raises(error, match=text):
            call()


def test_no_epochs():
    """What divides by their number is refused; where nothing is left to change, the rate stays."""
    s, o = qkv.torch.optim.lr_scheduler, lambda: qkv.torch.optim.SGD([qkv.torch.ones(3)], 0.5)
    for cls in (s.StepLR, s.CosineAnnealingLR):
        with pytest.raises(ValueError, match=f"^{cls.__name__}: a number of epochs must not be 0"):
            cls(o(), 0)
    for cls, rate in ((s.PolynomialLR, 0.5), (s.LinearLR, 0.5 / 3)):
        schedule = cls(o(), total_iters=0)
        schedule.step()
        assert schedule.get_last_lr() == pytest.approx([rate])
