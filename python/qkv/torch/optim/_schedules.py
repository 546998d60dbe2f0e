"""Schedules of the learning rate, computed step from step as PyTorch does."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from typing import Any


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

    _closed: Any = None  # gives a function from a first rate to that of `last_epoch`

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

    def _times(self, factor: float) -> list[float]:
        return [rate * factor for rate in self._rates()]

    def _set(self, rates: Iterable[float]) -> None:
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            group["lr"] = rate
        self._last_lr = self._rates()

    def step(self, epoch: Any = None) -> None:
        """Move on to the next rate, or to that of an epoch."""
        self._step_count += 1
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if epoch is not None and self._closed is not None:
            self._set(map(self._closed(), self.base_lrs))
        else:
            self._set(self.get_lr())

    def state_dict(self) -> dict[str, Any]:
        """Where the schedule stands."""
        return {k: v for k, v in self.__dict__.items() if k != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue where the schedule stood that gave `state_dict`."""
        self.__dict__.update(state_dict)


class LambdaLR(LRScheduler):
    """The first rate times a function of the epoch."""

    def __init__(self, optimizer: Any, lr_lambda: Any, last_epoch: int = -1) -> None:
        count = len(optimizer.param_groups)
        self.lr_lambdas = list(lr_lambda) if isinstance(lr_lambda, (list, tuple)) else [lr_lambda] * count
        if len(self.lr_lambdas) != count:
            raise ValueError(f"Expected {count} lr_lambdas, but got {len(self.lr_lambdas)}")
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
        return self._times(self.gamma)

    def _closed(self) -> Any:
        return lambda base: base * self.gamma ** (self.last_epoch // self.step_size)


class MultiStepLR(LRScheduler):
    """Times ``gamma`` at each milestone."""

    def __init__(
        self, optimizer: Any, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.milestones, self.gamma = Counter(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The rates of now."""
        times = self.milestones[self.last_epoch]
        return self._times(self.gamma**times) if times else self._rates()

    def _closed(self) -> Any:
        passed = bisect_right(sorted(self.milestones.elements()), self.last_epoch)
        return lambda base: base * self.gamma**passed


class ExponentialLR(LRScheduler):
    """Times ``gamma`` each epoch."""

    def __init__(self, optimizer: Any, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The rates of now."""
        return self._rates() if self.last_epoch == 0 else self._times(self.gamma)

    def _closed(self) -> Any:
        return lambda base: base * self.gamma**self.last_epoch


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
            return self._times(self.factor)
        return self._times(1.0 / self.factor) if self.last_epoch == self.total_iters else self._rates()

    def _closed(self) -> Any:
        factor = self.factor + (self.last_epoch >= self.total_iters) * (1 - self.factor)
        return lambda base: base * factor


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
        if not 0 < start_factor <= 1:
            raise ValueError(f"LinearLR: start_factor must be above 0 and at most 1; got {start_factor}")
        if not 0 <= end_factor <= 1:
            raise ValueError(f"LinearLR: end_factor must be between 0 and 1; got {end_factor}")
        self.start_factor, self.end_factor, self.total_iters = start_factor, end_factor, total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The rates of now."""
        if self.last_epoch == 0:
            return self._times(self.start_factor)
        if self.last_epoch > self.total_iters:
            return self._rates()
        rise = self.end_factor - self.start_factor
        before = self.total_iters * self.start_factor + (self.last_epoch - 1) * rise
        return self._times(1.0 + rise / before)

    def _closed(self) -> Any:
        rise = (self.end_factor - self.start_factor) * min(self.total_iters, self.last_epoch)
        return lambda base: base * (self.start_factor + rise / self.total_iters)


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
        return self._times((left / (1.0 - (self.last_epoch - 1) / self.total_iters)) ** self.power)

    def _closed(self) -> Any:
        left = 1.0 - min(self.total_iters, self.last_epoch) / self.total_iters
        return lambda base: base * left**self.power


class CosineAnnealingLR(LRScheduler):
    """Half a cosine down to ``eta_min`` in ``T_max`` epochs."""

    def __init__(self, optimizer: Any, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The rates of now."""
        if self.last_epoch == 0:
            return self._rates()
        if self._step_count == 1:  # resumed
            return list(map(self._closed(), self.base_lrs))
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

    def _closed(self) -> Any:
        height = 1 + math.cos(math.pi * self.last_epoch / self.T_max)
        return lambda base: self.eta_min + (base - self.eta_min) * height / 2
