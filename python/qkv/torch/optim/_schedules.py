"""Schedules of the learning rate, computed step from step as PyTorch does."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
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

    def _set(self, rates: Iterable[float]) -> None:
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            group["lr"] = rate
        self._last_lr = self._rates()

    def step(self, epoch=None) -> None:
        """Move on to the next rate, or to that of an epoch."""
        self._step_count += 1
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        self._set(self.get_lr() if epoch is None else self._closed())

    def _closed(self) -> list[float]:
        """The rates of `last_epoch`, whatever those before it were."""
        return self.get_lr()

    def state_dict(self) -> dict[str, Any]:
        """Where the schedule stands."""
        return {k: v for k, v in self.__dict__.items() if k != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue where the schedule stood that gave `state_dict`."""
        self.__dict__.update(state_dict)


def per_group(optimizer, value, name: str) -> list[Any]:
    """A value for each group of parameters: one for all, or a list."""
    count = len(optimizer.param_groups)
    values = list(value) if isinstance(value, (list, tuple)) else [value] * count
    if len(values) != count:
        raise ValueError(f"Expected {count} {name}, but got {len(values)}")
    return values


class LambdaLR(LRScheduler):
    """The first rate times a function of the epoch."""

    __init__ = constructor("optimizer, lr_lambda, last_epoch=-1")

    def _configure(self, optimizer, lr_lambda, last_epoch: int) -> None:
        self.lr_lambdas = per_group(optimizer, lr_lambda, "lr_lambdas")
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
        if self._step_count == 1:
            return self._rates()
        return [rate * f(self.last_epoch) for f, rate in zip(self.lr_lambdas, self._rates(), strict=True)]


class _Rule(LRScheduler):
    """A schedule that goes from the first rate to a last one, ``eta_min``, as a function of the epoch says.

    At each step the rate of now is changed by what the function changed, so that several schedules may act together.
    """

    eta_min = 0.0
    _jumps = False  # whether a schedule that begins at a later epoch does that epoch's change

    def _configure(self, optimizer, last_epoch: int, **settings) -> None:
        vars(self).update(settings)
        super().__init__(optimizer, last_epoch)

    def step(self, epoch=None) -> None:
        """Move on to the next rate, or to that of an epoch."""
        try:
            super().step(epoch)
        except ZeroDivisionError:
            raise ValueError(
                f"{type(self).__name__}: a number of epochs must not be 0 because it is divided by"
            ) from None

    def _way(self, n: int) -> float:
        """The share of `total_iters` that is behind it at an epoch."""
        return min(n, self.total_iters) / self.total_iters if self.total_iters else 0.0

    _share = undefined("_share")  # of the first rate, at an epoch

    def _closed(self) -> list[float]:
        return [self.eta_min + (base - self.eta_min) * self._share(self.last_epoch) for base in self.base_lrs]

    def _ratio(self, n: int) -> float:
        """By what the rate is multiplied at an epoch."""
        return self._share(n) / self._share(n - 1)

    def get_lr(self) -> list[float]:
        """The rates of now."""
        n, rates, least = self.last_epoch, self._rates(), self.eta_min
        before, now = self._share(n - 1) if n else 1.0, self._share(n)
        if before in (now, 0) or (n and self._step_count == 1 and not self._jumps):
            return rates
        ratio = self._ratio(n) if n else now
        return [ratio * (rate - least) + least for rate in rates]


class _Powers(_Rule):
    """Times ``gamma`` at some epochs; a subclass says how often until an epoch."""

    def _share(self, n: int) -> float:
        return self._power(self._times(n))

    def _ratio(self, n: int) -> float:
        return self._power(self._times(n) - self._times(n - 1))

    def _power(self, times: int) -> float:
        try:
            return float(float(self.gamma) ** times)
        except OverflowError:
            return math.inf


class StepLR(_Powers):
    """Times ``gamma`` every ``step_size`` epochs."""

    _jumps = True
    __init__ = constructor("optimizer, step_size, gamma=0.1, last_epoch=-1")

    def _times(self, n: int) -> int:
        return n // self.step_size


class MultiStepLR(_Powers):
    """Times ``gamma`` at each milestone."""

    _jumps = True
    __init__ = constructor("optimizer, milestones, gamma=0.1, last_epoch=-1")

    def _configure(self, optimizer, milestones: Iterable[int], **settings) -> None:
        super()._configure(optimizer, milestones=Counter(milestones), **settings)

    def _times(self, n: int) -> int:
        return bisect_right(sorted(self.milestones.elements()), n)


class ExponentialLR(_Powers):
    """Times ``gamma`` each epoch."""

    __init__ = constructor("optimizer, gamma, last_epoch=-1")

    def _times(self, n: int) -> int:
        return n


class ConstantLR(_Rule):
    """Times ``factor`` for the first ``total_iters`` epochs."""

    _jumps = True
    __init__ = constructor("optimizer, factor=1.0 / 3, total_iters=5, last_epoch=-1")

    def _configure(self, optimizer, factor: float, **settings) -> None:
        if not 0 <= factor <= 1:
            raise ValueError(f"ConstantLR: factor must be between 0 and 1; got {factor}")
        super()._configure(optimizer, factor=factor, **settings)

    def _share(self, n: int) -> float:
        return self.factor if n < self.total_iters else 1.0


class LinearLR(_Rule):
    """Linearly from ``start_factor`` to ``end_factor`` of the rate in ``total_iters`` epochs."""

    __init__ = constructor("optimizer, start_factor=1.0 / 3, end_factor=1.0, total_iters=5, last_epoch=-1")

    def _configure(self, optimizer, start_factor: float, end_factor: float, **settings) -> None:
        if not 0 < start_factor <= 1:
            raise ValueError(f"LinearLR: start_factor must be above 0 and at most 1; got {start_factor}")
        if not 0 <= end_factor <= 1:
            raise ValueError(f"LinearLR: end_factor must be between 0 and 1; got {end_factor}")
        super()._configure(optimizer, start_factor=start_factor, end_factor=end_factor, **settings)

    def _share(self, n: int) -> float:
        return self.start_factor + (self.end_factor - self.start_factor) * self._way(n)

    def _ratio(self, n: int) -> float:
        rise = self.end_factor - self.start_factor
        return 1.0 + rise / (self.total_iters * self.start_factor + (n - 1) * rise)


class PolynomialLR(_Rule):
    """Down to 0 in ``total_iters`` epochs, by a power."""

    __init__ = constructor("optimizer, total_iters=5, power=1.0, last_epoch=-1")

    def _share(self, n: int) -> float:
        return (1.0 - self._way(n)) ** self.power


class CosineAnnealingLR(_Rule):
    """Half a cosine down to ``eta_min`` in ``T_max`` epochs."""

    __init__ = constructor("optimizer, T_max, eta_min=0.0, last_epoch=-1")

    def _share(self, n: int) -> float:
        return (1 + math.cos(math.pi * n / self.T_max)) / 2

    def get_lr(self) -> list[float]:
        """The rates of now."""
        if self._step_count > 1 and self._share(self.last_epoch - 1) == 0:  # up again
            step = (1 - math.cos(math.pi / self.T_max)) / 2
            rates = zip(self._rates(), self.base_lrs, strict=True)
            return [rate + (base - self.eta_min) * step for rate, base in rates]
        return super().get_lr()
