"""Optimizers that divide by averages or sums of squares, out of operations on Tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .._grad_mode import no_grad
from .._tensor import wrap_array
from ._optimizers import Optimizer

_COMMON = {"foreach": None, "maximize": False, "capturable": False, "differentiable": False, "fused": None}


class RMSprop(Optimizer):
    """Steps by the gradient over the root of the running average of its square."""

    def __init__(
        self,
        params: Any,
        lr: float = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
    ) -> None:
        if centered:
            raise ValueError("RMSprop: centered must be False; qkv.torch knows no other")
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "alpha": alpha,
            "eps": eps,
            "centered": centered,
            "weight_decay": weight_decay,
        }
        super().__init__(params, {**defaults, **_COMMON})

    @no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter that has a gradient, in place."""
        loss = self._loss(closure)
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                g = p.grad + group["weight_decay"] * p if group["weight_decay"] else p.grad
                state = self.state[p]
                if not state:
                    state["step"], state["square_avg"] = wrap_array(np.float32(0)), p.detach() * 0
                state["step"] += 1
                square = state["square_avg"].mul_(group["alpha"]).addcmul_(g, g, value=1 - group["alpha"])
                step = g / square.sqrt().add_(group["eps"])
                if group["momentum"]:
                    last = state.get("momentum_buffer")
                    step = state["momentum_buffer"] = (
                        step if last is None else last.mul_(group["momentum"]).add_(step)
                    )
                p.add_(step, alpha=-group["lr"])
        return loss


class Adagrad(Optimizer):
    """Steps by the gradient over the root of the sum of its squares."""

    def __init__(
        self,
        params: Any,
        lr: float = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
    ) -> None:
        super().__init__(
            params,
            {
                "lr": lr,
                "lr_decay": lr_decay,
                "eps": eps,
                "weight_decay": weight_decay,
                "initial_accumulator_value": initial_accumulator_value,
                **_COMMON,
            },
        )

    @no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter that has a gradient, in place."""
        loss = self._loss(closure)
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["step"] = wrap_array(np.float32(0))
                    state["sum"] = p.detach() * 0 + group["initial_accumulator_value"]
                state["step"] += 1
                g = p.grad + group["weight_decay"] * p if group["weight_decay"] else p.grad
                lr = group["lr"] / (1 + (state["step"].item() - 1) * group["lr_decay"])
                state["sum"].addcmul_(g, g, value=1)
                p.addcdiv_(g, state["sum"].sqrt().add_(group["eps"]), value=-lr)
        return loss
