"""Schedules of the learning rate against PyTorch's: every step, and what resumes."""

from __future__ import annotations

import pytest

import qkv.torch

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

SCHEDULES = {
    "LambdaLR": lambda s, o: s.LambdaLR(o, [lambda n: 0.9**n, lambda n: 1 / (n + 1)]),
    "StepLR": lambda s, o: s.StepLR(o, 3, 0.5),
    "MultiStepLR": lambda s, o: s.MultiStepLR(o, [2, 5, 5, 9], 0.3),
    "ExponentialLR": lambda s, o: s.ExponentialLR(o, 0.9),
    "CosineAnnealingLR": lambda s, o: s.CosineAnnealingLR(o, 5, 0.01),
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


@pytest.mark.parametrize("order", ["optimizer first", "schedule first"])
@pytest.mark.parametrize("name", SCHEDULES)
def test_what_resumes(name, order):
    """A new optimizer and schedule with the states of old ones continue as these."""
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


def test_refused():
    s, o = qkv.torch.optim.lr_scheduler, qkv.torch.optim.SGD([qkv.torch.ones(1, requires_grad=True)], lr=1.0)
    for call, error, text in (
        (lambda: s.LambdaLR(o, [abs, abs]), ValueError, "Expected 1 lr_lambdas, but got 2"),
        (lambda: s.StepLR(o, 1, gama=0.1), TypeError, "gama"),
        (lambda: s.CyclicLR, AttributeError, "CyclicLR"),
    ):
        with pytest.raises(error, match=text):
            call()


def test_no_epochs():
    """What divides by their number is refused."""
    s, o = qkv.torch.optim.lr_scheduler, lambda: qkv.torch.optim.SGD([qkv.torch.ones(3)], 0.5)
    for cls in (s.StepLR, s.CosineAnnealingLR):
        with pytest.raises(ValueError, match=f"^{cls.__name__}: a number of epochs must not be 0"):
            cls(o(), 0)
