"""Schedules made of others, and the one that follows a measure."""

from __future__ import annotations

import math
from bisect import bisect_right
from typing import Any

from ... import _plateau
from ..._errors import shown
from .._settings import constructor
from ._schedules import LRScheduler, per_group


class _Several(LRScheduler):
    """Schedules of one optimizer."""

    def __init__(self, optimizer, schedulers) -> None:
        name = type(self).__name__
        schedulers = list(schedulers)
        if not schedulers or not all(isinstance(schedule, LRScheduler) for schedule in schedulers):
            raise TypeError(f"{name}: schedulers must be schedules of torch.optim.lr_scheduler")
        self.optimizer = schedulers[0].optimizer if optimizer is None else optimizer
        if any(schedule.optimizer is not self.optimizer for schedule in schedulers):
            raise ValueError(f"{name} expects all schedulers to belong to the same optimizer")
        self._schedulers = schedulers

    def state_dict(self) -> dict[str, Any]:
        """Where the schedules stand."""
        return {**super().state_dict(), "_schedulers": [one.state_dict() for one in self._schedulers]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue where the schedules stood that gave `state_dict`."""
        own, rest = self._schedulers, dict(state_dict)
        states = rest.pop("_schedulers", ())
        if len(states) != len(own):
            raise ValueError(
                f"load_state_dict: state_dict must be of {len(own)} schedules as there are here; got {len(states)}"
            )
        for schedule, state in zip(own, states, strict=True):
            schedule.load_state_dict(state)
        super().load_state_dict(rest)


class SequentialLR(_Several):
    """One schedule after the other, changed at the milestones."""

    def __init__(self, optimizer, schedulers: list[Any], milestones: list[int], last_epoch: int = -1) -> None:
        if len(schedulers) != len(milestones) + 1:
            raise ValueError(
                "SequentialLR: schedulers must be one more than milestones; got "
                f"{len(schedulers)} and {len(milestones)}"
            )
        super().__init__(optimizer, schedulers)
        self._milestones, self.last_epoch = milestones, last_epoch + 1
        for group in optimizer.param_groups:
            group["lr"] = group["initial_lr"]
        for schedule in schedulers:
            _undo(schedule)
        schedulers[0]._step_count = 0
        schedulers[0].step()
        self._last_lr = schedulers[0].get_last_lr()

    def step(self) -> None:
        """Move on to the next rate."""
        self.last_epoch += 1
        which = bisect_right(self._milestones, self.last_epoch)
        starts = which > 0 and self._milestones[which - 1] == self.last_epoch
        self._schedulers[which].step(*[0] * starts)
        self._last_lr = self._schedulers[which].get_last_lr()


def _undo(schedule) -> None:
    for part in schedule._schedulers if isinstance(schedule, _Several) else ():
        _undo(part)
    if hasattr(schedule, "last_epoch"):
        schedule.last_epoch -= 1


class ChainedScheduler(_Several):
    """Several schedules at the same time."""

    def __init__(self, schedulers, optimizer=None) -> None:
        super().__init__(optimizer, schedulers)
        self._last_lr = self._schedulers[-1].get_last_lr()

    def step(self) -> None:
        """Move all of them on."""
        for schedule in self._schedulers:
            schedule.step()
        self._last_lr = self._rates()


class ReduceLROnPlateau(LRScheduler):
    """Times ``factor`` when a measure has not become better for ``patience`` epochs."""

    __init__ = constructor(
        "optimizer, mode='min', factor=0.1, patience=10, threshold=1e-4, threshold_mode='rel', cooldown=0, "
        "min_lr=0, eps=1e-8"
    )

    def _configure(self, optimizer, min_lr, **settings) -> None:
        vars(self).update(settings, optimizer=optimizer)
        if self.factor >= 1.0:
            raise ValueError("Factor should be < 1.0.")
        if self.mode not in ("min", "max") or self.threshold_mode not in ("rel", "abs"):
            raise ValueError(
                "ReduceLROnPlateau: mode must be 'min' or 'max' and threshold_mode 'rel' or 'abs'; got "
                f"{shown(self.mode)} and {shown(self.threshold_mode)}"
            )
        self.min_lrs = per_group(optimizer, min_lr, "min_lrs")
        self.best = math.inf if self.mode == "min" else -math.inf
        self.num_bad_epochs = self.cooldown_counter = self.last_epoch = 0
        self._last_lr = self._rates()

    def is_better(self, a: float, best: float) -> bool:
        """Whether a measure is better by more than the threshold."""
        return _plateau.is_better(self, a, best)

    def step(self, metrics, epoch: int | None = None) -> None:
        """Tell the measure of an epoch."""
        current = float(metrics)
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        better = self.is_better(current, self.best)
        if better:
            self.best = current
        self.num_bad_epochs, self.cooldown_counter, falls = _plateau.counts_after(
            self, better, self.num_bad_epochs, self.cooldown_counter
        )
        if falls:
            for group, least in zip(self.optimizer.param_groups, self.min_lrs, strict=True):
                group["lr"] = _plateau.lowered(self, group["lr"], least)
        self._last_lr = self._rates()
