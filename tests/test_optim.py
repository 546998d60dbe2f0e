"""Optimizers, clipping and schedules."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from helpers import close, same_bits_for_any_threads

import qkv
from qkv import optim, reference

GOLDEN = {
    "sgd_lr0.01": (optim.SGD, {"lr": 0.01}),
    "sgd_momentum": (optim.SGD, {"lr": 0.01, "momentum": 0.9}),
    "adam": (optim.Adam, {"lr": 0.05}),
    "adam_98": (optim.Adam, {"lr": 0.05, "betas": (0.9, 0.98), "eps": 1e-9}),
    "adamw": (optim.AdamW, {"lr": 0.05, "weight_decay": 0.1}),
}
REFERENCE = {
    "plain": (optim.SGD, reference.sgd_step, {"lr": 0.1}),
    "decay": (optim.SGD, reference.sgd_step, {"lr": 0.1, "weight_decay": 0.3}),
    "momentum": (optim.SGD, reference.sgd_step, {"lr": 0.1, "momentum": 0.7, "weight_decay": 0.3}),
    "nesterov": (optim.SGD, reference.sgd_step, {"lr": 0.1, "momentum": 0.7, "nesterov": True}),
    "Adam": (optim.Adam, reference.adam_step, {"lr": 0.1, "betas": (0.8, 0.95), "weight_decay": 0.3}),
    "AdamW": (optim.AdamW, reference.adamw_step, {"lr": 0.1, "eps": 1e-3, "weight_decay": 0.3}),
    "Adam's defaults": (optim.Adam, reference.adam_step, {}),
    "AdamW's defaults": (optim.AdamW, reference.adamw_step, {}),
}


def parameter(shape=(37,), seed=0, dtype="float64"):
    return qkv.tensor(np.random.default_rng(seed).normal(size=shape).astype(dtype), requires_grad=True)


def train(optimizer, params, steps, seed):
    random = np.random.default_rng(seed)
    for _ in range(steps):
        for p in params:
            p.grad = random.normal(size=p.shape)
        optimizer.step()


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_trajectories(golden, name):
    g = golden("X-OPT")
    kind, options = GOLDEN[name]
    w = qkv.tensor(np.zeros(5), requires_grad=True)
    optimizer, path = kind([w], **options), []
    for _ in range(10):
        optimizer.zero_grad()
        residual = g["A"] @ w - g["b"]
        (0.5 * (residual * residual).sum()).backward()
        optimizer.step()
        path.append(w.numpy().copy())
    g.close(name, path)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", REFERENCE)
def test_steps(name, dtype):
    kind, step, options = REFERENCE[name]
    p = parameter((7, 19), dtype=dtype)
    optimizer = kind([p], **options)
    w, state = p.numpy().astype("float64"), None
    if "lr" not in options and step is reference.sgd_step:
        pytest.fail("SGD has no default learning rate")
    for seed in range(4):
        gradient = np.random.default_rng(seed + 1).normal(size=p.shape).astype(dtype)
        p.grad = gradient
        optimizer.step()
        w, state = step(w, gradient, state, **options)
        close(p, w, dtype)


def test_clipping(golden):
    g = golden("X-CLIP")
    p = parameter((3,))
    p.grad = g["g"]
    g.close("norm", optim.clip_grad_norm([p], 1.0))
    g.close("clipped", p.grad)
    big, small, none = parameter((70_001,), 1), parameter((2, 3), 2), parameter()
    gradients = [np.random.default_rng(s).normal(size=q.shape) for s, q in ((3, big), (4, small))]
    big.grad, small.grad = gradients
    norm, clipped = reference.clip_grad_norm(gradients, 2.0)
    before = small.grad
    close(optim.clip_grad_norm(iter([big, none, small]), 2.0), norm)
    close(big.grad, clipped[0])
    close(small.grad, clipped[1])
    close(before, gradients[1])  # what is held already stays
    assert none.grad is None
    assert optim.clip_grad_norm(small, 1e9) == pytest.approx(np.sqrt((clipped[1] ** 2).sum()))
    close(small.grad, clipped[1])
    assert optim.clip_grad_norm([], 1.0) == 0
    with pytest.raises(
        ValueError, match=r"^clip_grad_norm: max_norm must be at least 0 .* got max_norm = -1$"
    ):
        optim.clip_grad_norm([p], -1)


def test_the_parameter_changes_in_place():
    p = parameter()
    view, alias, version = p.numpy(), p.detach(), p.version
    p.grad = np.ones(37)
    before = view.copy()
    optim.SGD([p], lr=0.5).step()
    close(view, before - 0.5)
    close(alias, before - 0.5)
    assert p.version > version


def test_a_gradient_that_needs_the_old_value_is_refused():
    p, x = parameter(), parameter(seed=1)
    y = (p * x).sum()
    p.grad = np.ones(37)
    optim.SGD([p], lr=0.5).step()
    with pytest.raises(RuntimeError, match="changed by copy_, load_state_dict or an optimizer"):
        y.backward()


def test_parameters_without_gradient_and_zero_lr():
    with_gradient, without, frozen = parameter(), parameter(seed=1), qkv.tensor(np.ones(3))
    optimizer = optim.AdamW([with_gradient, without, frozen], lr=0.1)
    expected = [p.numpy().copy() for p in (with_gradient, without, frozen)]
    with_gradient.grad = np.ones(37)
    optimizer.step()
    assert (with_gradient.numpy() != expected[0]).all()
    close(without, expected[1])
    close(frozen, expected[2])
    assert list(optimizer.state_dict()["state"]) == [0]
    optimizer.lr = 0
    now = with_gradient.numpy().copy()
    optimizer.step()
    assert (with_gradient.numpy() == now).all()
    assert optimizer.lr == 0
    optimizer.zero_grad()
    assert with_gradient.grad is None


@pytest.mark.parametrize("name", REFERENCE)
def test_exact_resumption(name):
    kind, _, options = REFERENCE[name]
    params = [parameter((5, 7)), parameter((3,), 1)]
    optimizer = kind(params, **options)
    train(optimizer, params, 3, seed=5)
    saved = pickle.loads(pickle.dumps(optimizer.state_dict()))
    copies = [qkv.tensor(p.numpy(), requires_grad=True) for p in params]
    train(optimizer, params, 3, seed=6)
    resumed = kind(copies, **({"lr": 123.0} if "lr" in options else {}))
    resumed.load_state_dict(saved)
    train(resumed, copies, 3, seed=6)
    for a, b in zip(params, copies, strict=True):
        assert a.numpy().tobytes() == b.numpy().tobytes()
    assert resumed.lr == optimizer.lr


def test_state_is_a_copy_and_moments_are_the_reference_s():
    p = parameter()
    optimizer = optim.Adam([p], betas=(0.5, 0.75))
    p.grad = np.arange(37.0)
    optimizer.step()
    state = optimizer.state_dict()
    close(state["state"][0]["exp_avg"], np.arange(37.0) * 0.5)
    close(state["state"][0]["exp_avg_sq"], np.arange(37.0) ** 2 * 0.25)
    assert state["state"][0]["step"] == 1
    assert state["param_groups"][0]["betas"] == (0.5, 0.75)
    state["state"][0]["exp_avg"][:] = 0
    close(optimizer.state_dict()["state"][0]["exp_avg"], np.arange(37.0) * 0.5)


def test_loading_rejections():
    p = parameter()
    optimizer = optim.Adam([p])
    with pytest.raises(
        ValueError, match=r"^Adam.load_state_dict: state_dict must hold 'state' and .* got keys \['a'\]"
    ):
        optimizer.load_state_dict({"a": 1})
    other = optim.Adam([parameter(), parameter(seed=1)])
    with pytest.raises(ValueError, match="must be of 1 parameters because the optimizer has as many; got 2"):
        optimizer.load_state_dict(other.state_dict())
    q = parameter((3,))
    wrong = optim.Adam([q])
    train(wrong, [q], 1, 0)
    with pytest.raises(ValueError, match=r"exp_avg of params\[0\] must be \(37,\) .* got \(3,\)"):
        optimizer.load_state_dict(wrong.state_dict())
    sgd = optim.SGD([q], lr=0.1, momentum=0.5)
    train(sgd, [q], 1, 0)
    with pytest.raises(
        ValueError, match=r"^Adam.load_state_dict: a group must hold betas; got keys \['lr', "
    ):
        wrong.load_state_dict(sgd.state_dict())
    with pytest.raises(ValueError, match=r"must hold 'exp_avg' and 'exp_avg_sq'; got keys \['step', 'mom"):
        wrong.load_state_dict({**wrong.state_dict(), "state": sgd.state_dict()["state"]})
    assert list(wrong.state_dict()["state"][0]) == ["step", "exp_avg", "exp_avg_sq"]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"state": []}, "state must be a dict; got "),
        ({"param_groups": 3}, "param_groups must be a list; got 3"),
        ({"param_groups": [3]}, "a group must be a dict; got 3"),
        (
            {"param_groups": [{"lr": 1.0, "weight_decay": 0, "momentum": 0, "nesterov": False}]},
            "params of a group",
        ),
        ({"state": {0: 3}}, r"state of params\[0\] must be a dict; got 3"),
        ({"state": {0: {"step": -1}}}, r"step of params\[0\] must be a number of steps; got -1"),
        ({"state": {0: {"step": "many"}}}, r"step of params\[0\] must be a number of steps; got 'many'"),
        (
            {"state": {"0": {}}},
            "state must have the numbers .* got 0 of 1 keys that are such numbers",
        ),  # of JSON
    ],
)
def test_states_of_another_form_are_refused(change, text):
    optimizer = optim.SGD([parameter()], lr=0.5)
    with pytest.raises((TypeError, ValueError), match=f"^SGD.load_state_dict: {text}"):
        optimizer.load_state_dict({**optimizer.state_dict(), **change})


def test_a_rate_may_be_whatever_holds_one_number():
    optimizer = optim.SGD([parameter()], lr=0.5)
    for rate in (1, np.float32(2.0), np.array(3.0), qkv.tensor(4.0)):
        optimizer.lr = rate
        assert optimizer.lr == float(rate)
        optimizer.param_groups[0]["lr"] = rate
        assert optimizer.lr == float(rate)
    with pytest.raises(TypeError, match=r"^SGD: lr must be a number; got '0.1'$"):
        optimizer.lr = "0.1"
    with pytest.raises(TypeError, match=r"^clip_grad_norm: max_norm must be a number; got None$"):
        optim.clip_grad_norm(optimizer.params, None)


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda p: optim.SGD([], lr=1), ValueError, "^SGD: params must hold at least one Tensor; got none$"),
        (
            lambda p: optim.SGD(p, lr=1),
            TypeError,
            "^SGD: params must be an iterable of Tensors; got a Tensor$",
        ),
        (
            lambda p: optim.Adam({"w": p}),
            TypeError,
            "^Adam: params must be an iterable of Tensors; got dict$",
        ),
        (lambda p: optim.Adam(3), TypeError, "^Adam: params must be an iterable of Tensors; got int$"),
        (
            lambda p: optim.Adam([p, "w"]),
            TypeError,
            r"^Adam: params must be Tensors; got params\[1\] of type str$",
        ),
        (lambda p: optim.Adam([p, p]), ValueError, r"distinct .* got params\[0\] again as params\[1\]$"),
        (
            lambda p: optim.Adam([p * 2]),
            ValueError,
            r"^Adam: params must be leaves .* got params\[0\] \(37,\)$",
        ),
        (
            lambda p: optim.Adam([qkv.tensor([1, 2])]),
            TypeError,
            r"must be floating .* got params\[0\] of int64$",
        ),
        (lambda p: optim.AdamW([p], lr=-1), ValueError, "^AdamW: lr must be at least 0 .* got lr = -1$"),
        (lambda p: optim.SGD([p], lr=np.nan), ValueError, "^SGD: lr must be at least 0 .* got lr = nan$"),
        (lambda p: optim.SGD([p], lr=1, momentum=-1), ValueError, "momentum must be at least 0 .* = -1$"),
        (
            lambda p: optim.SGD([p], lr=1, nesterov=True),
            ValueError,
            "momentum must be above 0 because nesterov",
        ),
        (
            lambda p: optim.SGD([p], lr=1, weight_decay=-2),
            ValueError,
            "weight_decay must be at least 0 .* = -2$",
        ),
        (lambda p: optim.Adam([p], betas=(0.9, 1.0)), ValueError, r"betas must .* got betas = \(0.9, 1\)$"),
        (lambda p: optim.Adam([p], eps=-1), ValueError, "^Adam: eps must be at least 0 .* got eps = -1$"),
    ],
)
def test_rejections(make, error, text):
    with pytest.raises(error, match=text):
        make(parameter())


def test_a_bad_lr_leaves_the_old_one():
    optimizer = optim.SGD([parameter()], lr=0.5)
    with pytest.raises(ValueError, match="lr must be at least 0"):
        optimizer.lr = -1
    assert optimizer.lr == 0.5


def test_any_number_of_threads():
    def run():
        p = parameter((70_003,), dtype="float32")
        optimizer = optim.AdamW([p], lr=0.1)
        p.grad = np.random.default_rng(1).normal(size=70_003)
        norm = optim.clip_grad_norm([p], 1.0)
        optimizer.step()
        return [p.numpy(), np.array(norm)]

    same_bits_for_any_threads(run)


def rates(schedule, count):
    optimizer, found = schedule.optimizer, []
    for _ in range(count):
        found.append(optimizer.lr)
        schedule.step()
    return found


def test_noam():
    schedule = optim.NoamSchedule(optim.Adam([parameter()]), d_model=64, warmup_steps=4, factor=2.0)
    n = np.arange(1, 10)
    close(rates(schedule, 9), 2 * 64**-0.5 * np.minimum(n**-0.5, n * 4**-1.5))


def test_the_other_schedules():
    optimizer = optim.SGD([parameter()], lr=2.0)
    close(rates(optim.ConstantSchedule(optimizer, 4), 6), [0.5, 1, 1.5, 2, 2, 2])
    optimizer.lr = 2.0
    close(rates(optim.ConstantSchedule(optimizer), 3), [2, 2, 2])
    close(rates(optim.LinearSchedule(optimizer, 6, 2), 8), [1, 2, 1.5, 1, 0.5, 0, 0, 0])
    optimizer.lr = 2.0
    close(rates(optim.LinearSchedule(optimizer, 3, final=0.5), 4), [2, 1.5, 1, 1])
    optimizer.lr = 2.0
    cosine = 1 + np.cos(np.pi * np.array([0, 0.25, 0.5, 0.75, 1, 1]))
    close(rates(optim.CosineSchedule(optimizer, 6, 2), 7), [1.0, *cosine])
    optimizer.lr = 2.0
    close(rates(optim.CosineSchedule(optimizer, 6, 2, final=0.1), 7), [1.0, *(0.2 + 0.9 * cosine)])


def test_schedules_resume():
    optimizer = optim.SGD([parameter()], lr=2.0)
    schedule = optim.CosineSchedule(optimizer, 10, 2)
    rates(schedule, 4)
    other = optim.SGD([parameter()], lr=7.0)
    resumed = optim.CosineSchedule(other, 10, 2)
    resumed.load_state_dict(schedule.state_dict())
    assert rates(resumed, 5) == rates(schedule, 5)


def test_schedule_rejections():
    optimizer = optim.SGD([parameter()], lr=2.0)
    with pytest.raises(
        ValueError, match=r"NoamSchedule: warmup_steps must be at least 1 .* got warmup_steps = 0"
    ):
        optim.NoamSchedule(optimizer, 64, 0)
    with pytest.raises(
        ValueError, match=r"LinearSchedule: total_steps must be at least 6 .* total_steps = 5"
    ):
        optim.LinearSchedule(optimizer, 5, 5)
    with pytest.raises(ValueError, match="ConstantSchedule: warmup_steps must be at least 0"):
        optim.ConstantSchedule(optimizer, -1)
    with pytest.raises(TypeError, match=r"^LinearSchedule: total_steps must be a number; got '10'$"):
        optim.LinearSchedule(optimizer, "10")
    with pytest.raises(
        TypeError, match=r"^LinearSchedule: optimizer must be one of qkv.optim .*; got \[Tensor\]$"
    ):
        optim.LinearSchedule(optimizer.params, 10).step()
    text = (
        r"^LinearSchedule.load_state_dict: state_dict must hold 'count' and 'base_lr'; got keys \['state'\]$"
    )
    with pytest.raises(ValueError, match=text):
        optim.LinearSchedule(optim.SGD([parameter()], lr=1.0), 10).load_state_dict({"state": 1})
    with pytest.raises(NotImplementedError, match="Schedule: lr_at must be defined by the subclass"):
        optim.Schedule(optimizer)
    assert optimizer.lr == 2.0


def test_pytorch_s_layout_is_understood():
    p = parameter((3,))
    optimizer = optim.Adam([p])
    group = {
        "lr": 0.25,
        "betas": (0.5, 0.75),
        "eps": 0.0,
        "weight_decay": 0.0,
        "amsgrad": False,
        "params": [0],
    }
    moments = {"step": np.float32(3), "exp_avg": [1.0, 2.0, 3.0], "exp_avg_sq": np.ones(3)}
    optimizer.load_state_dict({"state": {0: moments}, "param_groups": [group]})
    state = {"step": 3, "m": np.array([1.0, 2, 3]), "v": np.ones(3)}
    w, _ = reference.adam_step(p.numpy(), np.ones(3), state, lr=0.25, betas=(0.5, 0.75), eps=0.0)
    p.grad = np.ones(3)
    optimizer.step()
    close(p, w)
    sgd = optim.SGD([p], lr=1.0)
    group = {"lr": 0.5, "momentum": 0.5, "nesterov": False, "weight_decay": 0.0, "params": [0]}
    sgd.load_state_dict({"state": {0: {"momentum_buffer": np.full(3, 2.0)}}, "param_groups": [group]})
    sgd.step()
    close(p, w - 0.5 * (0.5 * 2 + 1))
