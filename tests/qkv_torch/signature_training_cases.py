"""Cases of signatures as in `signature_cases`: initial values, tools, optimizers, schedules, data and modules."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from .signature_cases import CASES, CPU, GENERATOR, KIND, Case, Of, X, given, normal

W = normal(4, 3)
_INIT: dict[str, tuple[Any, ...]] = {
    "uniform_": ((W,), {"a": 0.4, "b": 0.7}),
    "normal_": ((W,), {"mean": 3.0, "std": 2.0}),
    "trunc_normal_": ((W,), {"mean": 0.5, "std": 2.0, "a": -1.0, "b": 1.0}),
    "xavier_uniform_": ((W,), {"gain": 2.0}),
    "xavier_normal_": ((W,), {"gain": 2.0}),
    "kaiming_uniform_": ((W,), {"a": 0.5, "mode": "fan_out", "nonlinearity": "linear"}),
    "kaiming_normal_": ((W,), {"a": 0.5, "mode": "fan_out", "nonlinearity": "linear"}),
    "orthogonal_": ((W,), {"gain": 2.0}),
}


def _initial(name: str) -> Callable[..., Any]:
    def call(m: Any, **options: Any) -> Any:
        return getattr(m.nn.init, name)(m.tensor(W), **{k: given(m, v) for k, v in options.items()})

    return call


for _name, (_, _changes) in _INIT.items():
    CASES[f"nn.init.{_name}"] = Case(_initial(_name), {**_changes, "generator": GENERATOR})
CASES["nn.init.calculate_gain"] = Case(
    lambda m, **o: m.nn.init.calculate_gain("leaky_relu", **o), {"param": 0.3}
)
CASES["nn.init.constant_"] = Case(lambda m: m.nn.init.constant_(m.tensor(W), 2.0))


def _clipped(name: str, *limits: Any) -> Callable[..., Any]:
    def call(m: Any, **options: Any) -> Any:
        w = m.tensor(W, requires_grad=True)
        (w * w).sum().backward()
        return getattr(m.nn.utils, name)([w], *limits, **options), w.grad

    return call


def _infinite(m: Any, **options: Any) -> Any:
    w = m.tensor(W, requires_grad=True)
    (w * float("inf")).sum().backward()
    try:
        return m.nn.utils.clip_grad_norm_([w], 1.0, **options)
    except RuntimeError as error:
        return type(error).__name__


CASES |= {
    "nn.utils.clip_grad_norm_": Case(
        _clipped("clip_grad_norm_", 1.0), {}, {"foreach": False}, {"norm_type": 1.0}
    ),
    "nn.utils.clip_grad_norm_, infinite": Case(_infinite, {"error_if_nonfinite": True}),
    "nn.utils.rnn.pad_sequence": Case(
        lambda m, **o: m.nn.utils.rnn.pad_sequence([m.tensor(X), m.tensor(W), m.tensor(W)], **o),
        {"batch_first": True, "padding_value": 3.0, "padding_side": "left"},
    ),
}


def stepped(name: str, **settings: Any) -> Callable[..., Any]:
    """Three steps of an optimizer."""

    def call(m: Any, **options: Any) -> Any:
        w = m.tensor(W, requires_grad=True)
        optimizer = getattr(m.optim, name)([w], **settings, **options)
        for i in range(3):
            optimizer.zero_grad()
            ((w - i) * w * w).sum().backward()
            optimizer.step()
        return w.detach()

    return call


_WAYS = {"foreach": True, "fused": True}
_REFUSED = {"maximize": True, "differentiable": True}
_ADAM = {"lr": 0.1, "betas": (0.5, 0.7), "eps": 0.1, "weight_decay": 0.3}
CASES |= {
    "optim.SGD": Case(
        stepped("SGD"),
        {"lr": 0.1, "momentum": 0.8, "weight_decay": 0.3},
        _WAYS,
        {"dampening": 0.5, **_REFUSED},
    ),
    "optim.SGD, with momentum": Case(stepped("SGD", momentum=0.5), {"nesterov": True}),
    "optim.Adam": Case(
        stepped("Adam"),
        _ADAM,
        _WAYS,
        {"amsgrad": True, "capturable": True, **_REFUSED},
    ),
    "optim.Adam, with decay": Case(stepped("Adam", weight_decay=0.5), {"decoupled_weight_decay": True}),
    "optim.AdamW": Case(stepped("AdamW"), _ADAM, _WAYS, {"amsgrad": True, "capturable": True, **_REFUSED}),
}


_RESUMED = {"initial_lr": 0.9, "max_lr": 0.7, "min_lr": 0.01, "max_momentum": 0.9, "base_momentum": 0.8}


def rates(name: str, *arguments: Any, steps: int = 8, **settings: Any) -> Callable[..., Any]:
    """The rates and momenta under a schedule."""

    def call(m: Any, **options: Any) -> Any:
        w = m.tensor(W, requires_grad=True)
        optimizer = m.optim.SGD([{"params": [w], **_RESUMED}], lr=0.5, momentum=0.9)
        schedule = getattr(m.optim.lr_scheduler, name)(optimizer, *arguments, **{**settings, **options})
        found = []
        for _ in range(steps):
            group = optimizer.param_groups[0]
            found += [group["lr"], group["momentum"]]
            optimizer.step()
            schedule.step()
        return found

    return call


_SCHEDULES: dict[str, tuple[Any, ...]] = {
    "LambdaLR": ((lambda n: 0.9**n,), {"last_epoch": 3}),
    "StepLR": ((3,), {"gamma": 0.5, "last_epoch": 3}),
    "MultiStepLR": (([2, 4],), {"gamma": 0.5, "last_epoch": 3}),
    "ExponentialLR": ((0.8,), {}),
    "CosineAnnealingLR": ((4,), {"eta_min": 0.1, "last_epoch": 3}),
}
for _name, (_arguments, _changes) in _SCHEDULES.items():
    CASES[f"optim.lr_scheduler.{_name}"] = Case(rates(_name, *_arguments), _changes)
# From an epoch on, the ratio of the rates is the same: what the schedule says of itself differs.
CASES["optim.lr_scheduler.ExponentialLR"] = Case(
    lambda m, **o: (
        m.optim.lr_scheduler.ExponentialLR(
            m.optim.SGD([{"params": [m.tensor(W, requires_grad=True)], "initial_lr": 0.9}], lr=0.5), 0.8, **o
        ).last_epoch
    ),
    {"last_epoch": 3},
)


def _base_schedule(m: Any, **options: Any) -> Any:
    class Halves(m.optim.lr_scheduler.LRScheduler):
        def get_lr(self) -> list[float]:
            return [0.5**self.last_epoch for _ in self.base_lrs]

    w = m.tensor(W, requires_grad=True)
    optimizer = m.optim.SGD([{"params": [w], **_RESUMED}], lr=0.5)
    return Halves(optimizer, **options).get_last_lr()


CASES |= {
    "optim.lr_scheduler.LRScheduler": Case(_base_schedule, {"last_epoch": 3}),
}


def batches(m: Any, iterable: bool = False, **options: Any) -> Any:
    """What a loader gives, and the next random number."""
    if options.get("num_workers") and os.environ.get("QKV_SANITIZER") == "thread":
        pytest.skip("ThreadSanitizer ends a child that begins a thread where its parent had one")
    data = m.utils.data.TensorDataset(m.arange(10.0), m.arange(10))
    loader = m.utils.data.DataLoader(data, **{k: given(m, v) for k, v in options.items()})
    return list(loader), m.rand(1)


def drawn(name: str, *arguments: Any) -> Callable[..., Any]:
    def call(m: Any, **options: Any) -> Any:
        made = getattr(m.utils.data, name)(*arguments, **{k: given(m, v) for k, v in options.items()})
        return [list(part) for part in made] if name == "random_split" else list(made)

    return call


CASES |= {
    "utils.data.DataLoader": Case(
        batches,
        {
            "batch_size": 3,
            "shuffle": True,
            "sampler": Of(lambda m: [3, 1, 2]),
            "collate_fn": Of(lambda m: lambda entries: len(entries)),
            "drop_last": True,
            "generator": Of(lambda m: m.Generator().manual_seed(3)),
        },
        {
            "num_workers": 1, "worker_init_fn": print, "in_order": False, "pin_memory": True, "pin_memory_device": "",
        },
        {"prefetch_factor": 2, "persistent_workers": True, "multiprocessing_context": "fork", "timeout": -1},
        base={"batch_size": 4, "shuffle": None},
    ),
    "utils.data.DataLoader, with workers": Case(
        batches,
        {},
        {"timeout": 5, "prefetch_factor": 3, "persistent_workers": True, "multiprocessing_context": "fork"},
        {"worker_init_fn": print},
        base={"num_workers": 1},
    ),
    "utils.data.DataLoader, batch_sampler": Case(
        batches, {"batch_sampler": Of(lambda m: [[3, 1], [2]])}
    ),
    "utils.data.RandomSampler": Case(
        drawn("RandomSampler", range(9)), {"replacement": True, "num_samples": 4, "generator": GENERATOR}
    ),
"utils.data.random_split": Case(drawn("random_split", range(9), [4, 5]), {"generator": GENERATOR}),
}  # fmt: skip


def net(m: Any) -> Any:
    """Parts that occur twice, a buffer and a parameter."""
    part = m.nn.Linear(3, 3)
    made = m.nn.Sequential(part, m.nn.Dropout(0.5), part)
    made.register_buffer("mean", m.ones(3))
    return made


def told(name: str, **settings: Any) -> Callable[..., Any]:
    """What a method that walks a module gives: names, or how many there are."""

    def call(m: Any, **options: Any) -> Any:
        made = getattr(net(m), name)(**{**settings, **{k: given(m, v) for k, v in options.items()}})
        found = list(made.items() if isinstance(made, dict) else made)
        return [
            one[0] if isinstance(one, tuple) else one for one in found if name.startswith(("named", "state"))
        ], len(found)

    return call


def _gradients_forgotten(m: Any, **options: Any) -> Any:
    made = net(m)
    made(m.tensor(X)).sum().backward()
    made.zero_grad(**options)
    return made[0].weight.grad


def _loaded(m: Any, **options: Any) -> Any:
    made = m.nn.Linear(3, 2)
    weight = m.nn.Parameter(m.ones(2, 3))
    state = {"weight": weight} if "strict" in options else {"weight": weight, "bias": m.zeros(2)}
    try:
        made.load_state_dict(state, **options)
    except RuntimeError as error:
        return type(error).__name__
    return made.weight, made.weight is weight


def _kept(m: Any, **options: Any) -> Any:
    return net(m).state_dict(**options)["0.weight"].requires_grad


def _unseen(m: Any, **options: Any) -> Any:
    made = net(m)
    return [name for name, _ in made.named_modules(**({"memo": {made[0]}} if options else {}))]


_NAMED = {"prefix": "a", "recurse": False, "remove_duplicate": False}
_HOOK = {"prepend": True, "with_kwargs": True}
CASES |= {
    "nn.Module.train": Case(lambda m, **o: net(m).train(**o).training, {"mode": False}),
    "nn.Module.requires_grad_": Case(
        lambda m, **o: next(net(m).requires_grad_(**o).parameters()).requires_grad, {"requires_grad": False}
    ),
    "nn.Module.to": Case(
        lambda m, **o: list(net(m).to(**{k: given(m, v) for k, v in o.items()}).parameters()),
        KIND,
        {**CPU, "non_blocking": True},
        {"memory_format": None, "dtpe": None},
    ),
    "nn.Module.to, of a Tensor": Case(lambda m: list(net(m).to(m.ones(1, dtype=m.float64)).parameters())),
    "nn.Module.zero_grad": Case(_gradients_forgotten, {"set_to_none": False}),
    "nn.Module.named_parameters": Case(told("named_parameters"), _NAMED),
    "nn.Module.named_buffers": Case(
        told("named_buffers"), {"prefix": "a"}, {"recurse": False, "remove_duplicate": False}
    ),
    "nn.Module.named_modules": Case(
        told("named_modules"),
        {"prefix": "a", "remove_duplicate": False},
    ),
    "nn.Module.named_modules, seen": Case(_unseen, {"memo": "first"}),
    "nn.Module.modules": Case(told("modules"), {"remove_duplicate": False}),
    "nn.Module.parameters": Case(told("parameters"), {"recurse": False}),
    "nn.Module.buffers": Case(told("buffers"), {}, {"recurse": False}),
    "nn.Module.state_dict": Case(told("state_dict"), {"prefix": "a."}, {}, {"destination": {}}),
    "nn.Module.state_dict, variables": Case(_kept, {"keep_vars": True}),
    "nn.Module.load_state_dict": Case(_loaded, {"assign": True}),
    "nn.Module.load_state_dict, strictly": Case(_loaded, {"strict": False}, base={"strict": True}),
    "nn.Module.register_buffer": Case(
        lambda m, **o: (made := net(m), made.register_buffer("b", m.ones(1), **o), list(made.state_dict()))[
            2
        ],
        {"persistent": False},
    ),
    "nn.Module.register_forward_hook": Case(
        lambda m, **o: net(m).register_forward_hook(lambda *a: None, **o) and 0,
        {},
        {},
        {**_HOOK, "always_call": True},
    ),
    "nn.Module.register_forward_pre_hook": Case(
        lambda m, **o: net(m).register_forward_pre_hook(lambda *a: None, **o) and 0, {}, {}, _HOOK
    ),
    "nn.Parameter": Case(
        lambda m, **o: m.nn.Parameter(m.ones(2), **o).requires_grad, {"requires_grad": False}
    ),
    "nn.Parameter, empty": Case(
        lambda m, **o: m.nn.Parameter(**{k: given(m, v) for k, v in o.items()}), {"data": np.ones(2)}
    ),
}
