"""Schedules of the learning rate, computed step from step as PyTorch does."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

from .._settings import constructor, undefined


class LRScheduler:
    """Base of the schedules; a subclass defines ``get_lr``, a rate for each group at ``self.last_epoch``.

    Examples
    --------
    >>> import qkv.torch as torch
    >>> optimizer = torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=1.0)
    >>> scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.1)
    >>> rates = []
    >>> for epoch in range(4):
    ...     optimizer.step()
    ...     scheduler.step()
    ...     rates.append(round(scheduler.get_last_lr()[0], 3))
    >>> rates
    [1.0, 0.1, 0.1, 0.01]
    """

    def __init__(self, optimizer, last_epoch: int = -1) -> None:
        self.optimizer = optimizer
        for group in optimizer.param_groups:
            if last_epoch == -1:
                group.setdefault("initial_lr", group["lr"])
            elif "initial_lr" not in group:
                raise KeyError(
                    "param 'initial_lr' is not specified in param_groups when resuming an optimizer"
                )
        self.base_lrs = [group["initial_lr"] for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        self._step_count = 0
        self.step()

    get_lr = undefined("get_lr")

    def get_last_lr(self) -> list[float]:
        """The rates that were set last."""
        return self._last_lr

    def _rates(self) -> list[float]:
        return [group["lr"] for group in self.optimizer.param_groups]

    def step(self) -> None:
        """Move on to the next rate."""
        self._step_count += 1
        self.last_epoch += 1
        for group, rate in zip(self.optimizer.param_groups, self.get_lr(), strict=True):
            group["lr"] = rate
        self._last_lr = self._rates()

    def state_dict(self) -> dict[str, Any]:
        """The state of the schedule."""
        return {k: v for k, v in self.__dict__.items() if k != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from the state of the schedule that returned `state_dict`."""
        self.__dict__.update(state_dict)


class LambdaLR(LRScheduler):
    """The first rate times a function of the epoch."""

    __init__ = constructor("optimizer, lr_lambda, last_epoch=-1")

    def _configure(self, optimizer, lr_lambda, last_epoch: int) -> None:
        count = len(optimizer.param_groups)
        self.lr_lambdas = list(lr_lambda) if isinstance(lr_lambda, (list, tuple)) else [lr_lambda] * count
        if len(self.lr_lambdas) != count:
            raise ValueError(f"Expected {count} lr_lambdas, but got {len(self.lr_lambdas)}")
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The rates of now."""
        return [base * f(self.last_epoch) for f, base in zip(self.lr_lambdas, self.base_lrs, strict=True)]

    def state_dict(self) -> dict[str, Any]:
        """The state of the schedule; functions are not stored."""
        return {k: v for k, v in super().state_dict().items() if k != "lr_lambdas"}


class _Rule(LRScheduler):
    """A schedule that changes the rates of now, so that what else changes them stays."""

    def _configure(self, optimizer, last_epoch: int, **settings) -> None:
        vars(self).update(settings)
        if 0 in (settings.get("step_size"), settings.get("T_max")):
            name = type(self).__name__
            raise ValueError(f"{name}: a number of epochs must not be 0 because it is divided by")
        super().__init__(optimizer, last_epoch)


class StepLR(_Rule):
    """Times ``gamma`` every ``step_size`` epochs."""

    __init__ = constructor("optimizer, step_size, gamma=0.1, last_epoch=-1")

    def get_lr(self) -> list[float]:
        """The rates of now."""
        turns = self.last_epoch > 0 and self.last_epoch % self.step_size == 0
        return [rate * self.gamma if turns else rate for rate in self._rates()]


class MultiStepLR(_Rule):
    """Times ``gamma`` at each milestone."""

    __init__ = constructor("optimizer, milestones, gamma=0.1, last_epoch=-1")

    def _configure(self, optimizer, milestones, **settings) -> None:
        super()._configure(optimizer, milestones=Counter(milestones), **settings)

    def get_lr(self) -> list[float]:
        """The rates of now."""
        return [rate * self.gamma ** self.milestones[self.last_epoch] for rate in self._rates()]


class ExponentialLR(_Rule):
    """Times ``gamma`` each epoch."""

    __init__ = constructor("optimizer, gamma, last_epoch=-1")

    def get_lr(self) -> list[float]:
        """The rates of now."""
        return [rate * self.gamma if self._step_count > 1 else rate for rate in self._rates()]


class CosineAnnealingLR(_Rule):
    """Half a cosine down to ``eta_min`` in ``T_max`` epochs, and up again."""

    __init__ = constructor("optimizer, T_max, eta_min=0.0, last_epoch=-1")

    def _height(self, n: int) -> float:
        return 1 + math.cos(math.pi * n / self.T_max)

    def get_lr(self) -> list[float]:
        """The rates of now."""
        n, least, rates = self.last_epoch, self.eta_min, self._rates()
        if self._step_count == 1:
            return rates
        if (n - 1 - self.T_max) % (2 * self.T_max) == 0:
            up = (1 - math.cos(math.pi / self.T_max)) / 2
            return [rate + (base - least) * up for rate, base in zip(rates, self.base_lrs, strict=True)]
        ratio = self._height(n) / self._height(n - 1)
        return [ratio * (rate - least) + least for rate in rates]
