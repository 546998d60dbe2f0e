"""Schedules that restart, or move the momentum too."""

from __future__ import annotations

import math
from bisect import bisect_left

from ..._errors import shown
from .._settings import constructor
from ._schedules import LRScheduler, per_group


class CosineAnnealingWarmRestarts(LRScheduler):
    """Half a cosine down, again and again, each ``T_mult`` times as long."""

    __init__ = constructor("optimizer, T_0, T_mult=1, eta_min=0.0, last_epoch=-1")

    def _configure(self, optimizer, T_0: int, T_mult: int, eta_min: float, last_epoch: int) -> None:
        for name, value in (("T_0", T_0), ("T_mult", T_mult)):
            if not isinstance(value, int) or value < 1:
                raise ValueError(
                    f"CosineAnnealingWarmRestarts: {name} must be an int above 0; got {shown(value)}"
                )
        self.T_0, self.T_i, self.T_mult, self.eta_min, self.T_cur = T_0, T_0, T_mult, eta_min, last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The rates of now."""
        height = 1 + math.cos(math.pi * self.T_cur / self.T_i)
        return [self.eta_min + (base - self.eta_min) * height / 2 for base in self.base_lrs]

    def step(self, epoch=None) -> None:
        """Move on to the next rate, or to that of an epoch, which may be a fraction."""
        self._step_count += 1
        if epoch is None and self.last_epoch >= 0:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            turns = self.T_cur >= self.T_i  # once a step, as there
        else:
            epoch = 0 if epoch is None else epoch
            if epoch < 0:
                raise ValueError(f"CosineAnnealingWarmRestarts: epoch must be at least 0; got {epoch}")
            self.T_i, self.T_cur = self.T_0, epoch % self.T_0 if self.T_mult == 1 else epoch
            turns = int(math.log(epoch / self.T_0 * (self.T_mult - 1) + 1, max(self.T_mult, 2)))
        self.last_epoch = math.floor(epoch)
        for _ in range(turns):
            self.T_cur, self.T_i = self.T_cur - self.T_i, self.T_i * self.T_mult
        self._set(self.get_lr())


class OneCycleLR(LRScheduler):
    """Up to ``max_lr`` and down again in ``total_steps`` steps, while the momentum goes down and up."""

    __init__ = constructor(
        "optimizer, max_lr, total_steps=None, epochs=None, steps_per_epoch=None, pct_start=0.3, "
        "anneal_strategy='cos', cycle_momentum=True, base_momentum=0.85, max_momentum=0.95, "
        "div_factor=25.0, final_div_factor=1e4, three_phase=False, last_epoch=-1"
    )

    def _configure(
        self, optimizer, last_epoch, total_steps, epochs, steps_per_epoch, pct_start, **given
    ) -> None:
        total, strategy, start = total_steps, given["anneal_strategy"], pct_start
        if total is None:
            if epochs is None or steps_per_epoch is None:
                raise ValueError("OneCycleLR: total_steps, or epochs and steps_per_epoch, must be given")
            total = epochs * steps_per_epoch
        if not isinstance(total, int) or total < 1:
            raise ValueError(f"OneCycleLR: total_steps must be an int above 0; got {shown(total)}")
        if not 0 <= start <= 1:
            raise ValueError(f"OneCycleLR: pct_start must be between 0 and 1; got {start}")
        if strategy not in ("cos", "linear"):
            raise ValueError(f"OneCycleLR: anneal_strategy must be 'cos' or 'linear'; got {shown(strategy)}")
        self.total_steps, self.anneal_strategy, self.cycle_momentum = total, strategy, given["cycle_momentum"]
        groups = optimizer.param_groups
        if self.cycle_momentum and not {"momentum", "betas"} & groups[0].keys():
            raise ValueError("optimizer must support momentum or beta1 with `cycle_momentum` option enabled")
        top, last = float(start * total) - 1, total - 1
        down, ends = ("base_momentum", "max_momentum"), [(top, "max_lr"), (last, "min_lr")]
        if given["three_phase"]:
            ends.insert(1, (2 * start * total - 2, "initial_lr"))
        momenta = [down[::-1], down, ("max_momentum", "max_momentum")]
        rates = ["initial_lr", *(name for _, name in ends)]
        self._phases = [(at, rates[i], name, *momenta[i]) for i, (at, name) in enumerate(ends)]
        names = ("max_lr", "base_momentum", "max_momentum")
        values = zip(*(per_group(optimizer, given[name], name) for name in names), strict=True)
        for group, own in zip(groups, values, strict=True) if last_epoch == -1 else ():
            group.update(zip(names, own, strict=True))
            group["initial_lr"] = group["max_lr"] / given["div_factor"]
            group["min_lr"] = group["initial_lr"] / given["final_div_factor"]
            if self.cycle_momentum:
                self._set_momentum(group, group["max_momentum"])
        super().__init__(optimizer, last_epoch)

    @staticmethod
    def _set_momentum(group, momentum: float) -> None:
        if "betas" in group:
            group["betas"] = (momentum, *group["betas"][1:])
        else:
            group["momentum"] = momentum

    def _between(self, a: float, b: float, share: float) -> float:
        if self.anneal_strategy == "linear":
            return (b - a) * share + a
        return b + (a - b) / 2.0 * (math.cos(math.pi * share) + 1)

    def get_lr(self) -> list[float]:
        """The rates of now; sets the momentum."""
        n, rates = self.last_epoch, []
        if n > self.total_steps:
            raise ValueError(
                f"Tried to step {n} times. The specified number of total steps is {self.total_steps}"
            )
        ends = [phase[0] for phase in self._phases]
        which = min(bisect_left(ends, n), len(ends) - 1)
        start, (end, *names) = [0.0, *ends][which], self._phases[which]
        share = (n - start) / (end - start)
        for group in self.optimizer.param_groups:
            a, b, c, d = (group[name] for name in names)
            rates.append(self._between(a, b, share))
            if self.cycle_momentum:
                self._set_momentum(group, self._between(c, d, share))
        return rates
