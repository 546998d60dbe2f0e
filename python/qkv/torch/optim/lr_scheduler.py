"""Schedules of the learning rate, computed step from step as PyTorch does."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from .._tensor import refuse_attribute


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

    def __init__(self, optimizer: Any, last_epoch: int = -1) -> None:
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

    def get_lr(self) -> list[float]:
        """The rates of now; to be defined by the subclass."""
        raise NotImplementedError(f"{type(self).__name__} must define get_lr")

    def get_last_lr(self) -> list[float]:
        """The rates that were set last."""
        return self._last_lr

    def _rates(self) -> list[float]:
        return [group["lr"] for group in self.optimizer.param_groups]

    def _set(self, rates: Iterable[float]) -> None:
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            group["lr"] = rate
        self._last_lr = self._rates()

    def step(self, epoch: int | None = None) -> None:
        """Move on to the next rate."""
        self._step_count += 1
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        self._set(self.get_lr())

    def state_dict(self) -> dict[str, Any]:
        """Where the schedule stands."""
        return {k: v for k, v in self.__dict__.items() if k != "optimizer" and not callable(v)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue where the schedule stood that gave `state_dict`."""
        self.__dict__.update(state_dict)


class LambdaLR(LRScheduler):
    """The first rate times a function of the epoch."""

    def __init__(self, optimizer: Any, lr_lambda: Any, last_epoch: int = -1) -> None:
        count = len(optimizer.param_groups)
        self.lr_lambdas = list(lr_lambda) if isinstance(lr_lambda, (list, tuple)) else [lr_lambda] * count
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The rates of now."""
        return [base * f(self.last_epoch) for f, base in zip(self.lr_lambdas, self.base_lrs, strict=True)]

    def state_dict(self) -> dict[str, Any]:
        """Where the schedule stands; functions are not stored."""
        return {k: v for k, v in super().state_dict().items() if k != "lr_lambdas"}


class MultiplicativeLR(LambdaLR):
    """The last rate times a function of the epoch."""

    def get_lr(self) -> list[float]:
        """The rates of now."""
        if self.last_epoch == 0:
            return self._rates()
        return [rate * f(self.last_epoch) for f, rate in zip(self.lr_lambdas, self._rates(), strict=True)]


class StepLR(LRScheduler):
    """Times ``gamma`` every ``step_size`` epochs."""

    def __init__(self, optimizer: Any, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> None:
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The rates of now."""
        if self.last_epoch == 0 or self.last_epoch % self.step_size != 0:
            return self._rates()
        return [rate * self.gamma for rate in self._rates()]


class MultiStepLR(LRScheduler):
    """Times ``gamma`` at each milestone."""

    def __init__(
        self, optimizer: Any, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.milestones, self.gamma = Counter(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The rates of now."""
        if self.last_epoch not in self.milestones:
            return self._rates()
        return [rate * self.gamma ** self.milestones[self.last_epoch] for rate in self._rates()]


class ExponentialLR(LRScheduler):
    """Times ``gamma`` each epoch."""

    def __init__(self, optimizer: Any, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The rates of now."""
        return self._rates() if self.last_epoch == 0 else [rate * self.gamma for rate in self._rates()]


class ConstantLR(LRScheduler):
    """Times ``factor`` for the first ``total_iters`` epochs."""

    def __init__(
        self, optimizer: Any, factor: float = 1.0 / 3, total_iters: int = 5, last_epoch: int = -1
    ) -> None:
        self.factor, self.total_iters = factor, total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The rates of now."""
        if self.last_epoch == 0:
            return [rate * self.factor for rate in self._rates()]
        if self.last_epoch != self.total_iters:
            return self._rates()
        return [rate * (1.0 / self.factor) for rate in self._rates()]


class LinearLR(LRScheduler):
    """Linearly from ``start_factor`` to ``end_factor`` of the rate in ``total_iters`` epochs."""

    def __init__(
        self,
        optimizer: Any,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        self.start_factor, self.end_factor, self.total_iters = start_factor, end_factor, total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The rates of now."""
        if self.last_epoch == 0:
            return [rate * self.start_factor for rate in self._rates()]
        if self.last_epoch > self.total_iters:
            return self._rates()
        rise = self.end_factor - self.start_factor
        before = self.total_iters * self.start_factor + (self.last_epoch - 1) * rise
        return [rate * (1.0 + rise / before) for rate in self._rates()]


class PolynomialLR(LRScheduler):
    """Down to 0 in ``total_iters`` epochs, by a power."""

    def __init__(
        self, optimizer: Any, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1
    ) -> None:
        self.total_iters, self.power = total_iters, power
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The rates of now."""
        if self.last_epoch == 0 or self.last_epoch > self.total_iters:
            return self._rates()
        left = 1.0 - self.last_epoch / self.total_iters
        factor = (left / (1.0 - (self.last_epoch - 1) / self.total_iters)) ** self.power
        return [rate * factor for rate in self._rates()]


class CosineAnnealingLR(LRScheduler):
    """Half a cosine down to ``eta_min`` in ``T_max`` epochs."""

    def __init__(self, optimizer: Any, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The rates of now."""
        if self.last_epoch == 0:
            return self._rates()
        if (self.last_epoch - 1 - self.T_max) % (2 * self.T_max) == 0:
            step = (1 - math.cos(math.pi / self.T_max)) / 2
            return [
                rate + (base - self.eta_min) * step
                for base, rate in zip(self.base_lrs, self._rates(), strict=True)
            ]
        share = (1 + math.cos(math.pi * self.last_epoch / self.T_max)) / (
            1 + math.cos(math.pi * (self.last_epoch - 1) / self.T_max)
        )
        return [share * (rate - self.eta_min) + self.eta_min for rate in self._rates()]


class CosineAnnealingWarmRestarts(LRScheduler):
    """Half a cosine down, again and again, each ``T_mult`` times as long."""

    def __init__(
        self, optimizer: Any, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        self.T_0, self.T_i, self.T_mult, self.eta_min, self.T_cur = T_0, T_0, T_mult, eta_min, last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The rates of now."""
        height = 1 + math.cos(math.pi * self.T_cur / self.T_i)
        return [self.eta_min + (base - self.eta_min) * height / 2 for base in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:
        """Move on to the next rate."""
        if epoch is not None:
            raise ValueError("CosineAnnealingWarmRestarts: epoch must be None; qkv.torch counts for itself")
        self._step_count += 1
        self.last_epoch += 1
        self.T_cur += 1
        if self.T_cur >= self.T_i:
            self.T_cur -= self.T_i
            self.T_i *= self.T_mult
        self._set(self.get_lr())


class OneCycleLR(LRScheduler):
    """Up to ``max_lr`` and down again by half cosines, in ``total_steps`` steps."""

    def __init__(
        self,
        optimizer: Any,
        max_lr: float,
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = False,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        last_epoch: int = -1,
    ) -> None:
        if cycle_momentum:
            raise ValueError("OneCycleLR: cycle_momentum must be False; qkv.torch knows no other")
        if total_steps is None:
            if epochs is None or steps_per_epoch is None:
                raise ValueError("OneCycleLR: total_steps, or epochs and steps_per_epoch, must be given")
            total_steps = epochs * steps_per_epoch
        self.total_steps, self.anneal_strategy = total_steps, anneal_strategy
        self.top = float(pct_start * total_steps) - 1
        self.max_lr, self.start = max_lr, max_lr / div_factor
        self.end = self.start / final_div_factor
        for group in optimizer.param_groups:
            group["lr"] = group["initial_lr"] = self.start
        super().__init__(optimizer, last_epoch)

    def _between(self, a: float, b: float, share: float) -> float:
        if self.anneal_strategy == "linear":
            return (b - a) * share + a
        return b + (a - b) / 2.0 * (math.cos(math.pi * share) + 1)

    def get_lr(self) -> list[float]:
        """The rates of now."""
        n = self.last_epoch
        if n >= self.total_steps:
            raise ValueError(
                f"Tried to step {n + 1} times. The specified number of total steps is {self.total_steps}"
            )
        if n <= self.top:
            rate = self._between(self.start, self.max_lr, n / self.top)
        else:
            rate = self._between(self.max_lr, self.end, (n - self.top) / (self.total_steps - 1 - self.top))
        return [rate for _ in self.base_lrs]


class SequentialLR(LRScheduler):
    """One schedule after the other, changed at the milestones."""

    def __init__(
        self, optimizer: Any, schedulers: list[Any], milestones: list[int], last_epoch: int = -1
    ) -> None:
        if len(schedulers) != len(milestones) + 1:
            raise ValueError(
                "SequentialLR: schedulers must be one more than milestones; got "
                f"{len(schedulers)} and {len(milestones)}"
            )
        if not all(isinstance(schedule, LRScheduler) for schedule in schedulers):
            raise TypeError("SequentialLR: schedulers must be schedules of torch.optim.lr_scheduler")
        self.optimizer, self._schedulers, self._milestones = optimizer, schedulers, milestones
        self.last_epoch = last_epoch + 1
        for group in optimizer.param_groups:
            group["lr"] = group["initial_lr"]
        for schedule in schedulers:
            schedule.last_epoch -= 1
        schedulers[0].step()
        self._last_lr = self._rates()

    def step(self, epoch: int | None = None) -> None:
        """Move on to the next rate."""
        self.last_epoch += 1
        which = bisect_right(self._milestones, self.last_epoch)
        if which > 0 and self._milestones[which - 1] == self.last_epoch:
            schedule = self._schedulers[which]
            schedule.last_epoch = -1
            for group, base in zip(self.optimizer.param_groups, schedule.base_lrs, strict=True):
                group["lr"] = base
        self._schedulers[which].step()
        self._last_lr = self._rates()


class ReduceLROnPlateau:
    """Times ``factor`` when a measure has not become better for ``patience`` epochs."""

    def __init__(
        self,
        optimizer: Any,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: float = 0,
        eps: float = 1e-8,
    ) -> None:
        self.optimizer, self.mode, self.factor, self.patience = optimizer, mode, factor, patience
        self.threshold, self.threshold_mode, self.cooldown = threshold, threshold_mode, cooldown
        self.min_lr, self.eps = min_lr, eps
        self.best = math.inf if mode == "min" else -math.inf
        self.num_bad_epochs = self.cooldown_counter = self.last_epoch = 0
        self._last_lr = [group["lr"] for group in optimizer.param_groups]

    def is_better(self, a: float, best: float) -> bool:
        """Whether a measure is better by more than the threshold."""
        sign = -1 if self.mode == "min" else 1
        by = self.threshold * abs(best) if self.threshold_mode == "rel" else self.threshold
        if not math.isfinite(best):
            return a != best
        return a * sign > (best + sign * by) * sign

    def step(self, metrics: Any, epoch: int | None = None) -> None:
        """Tell the measure of an epoch."""
        current = float(metrics)
        self.last_epoch += 1
        if self.is_better(current, self.best):
            self.best, self.num_bad_epochs = current, 0
        else:
            self.num_bad_epochs += 1
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            for group in self.optimizer.param_groups:
                rate = max(group["lr"] * self.factor, self.min_lr)
                if group["lr"] - rate > self.eps:
                    group["lr"] = rate
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
        self._last_lr = [group["lr"] for group in self.optimizer.param_groups]

    get_last_lr: Callable[..., Any] = LRScheduler.get_last_lr
    state_dict: Callable[..., Any] = LRScheduler.state_dict
    load_state_dict: Callable[..., Any] = LRScheduler.load_state_dict


_LRScheduler = LRScheduler


def __getattr__(name: str) -> Any:
    refuse_attribute("torch.optim.lr_scheduler", name)
