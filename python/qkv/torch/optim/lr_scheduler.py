"""Schedules of the learning rate."""

from __future__ import annotations

from functools import partial

from .._tensor import refuse_attribute
from ._schedules import CosineAnnealingLR as CosineAnnealingLR
from ._schedules import ExponentialLR as ExponentialLR
from ._schedules import LambdaLR as LambdaLR
from ._schedules import LRScheduler as LRScheduler
from ._schedules import MultiStepLR as MultiStepLR
from ._schedules import StepLR as StepLR

_LRScheduler = LRScheduler

__all__ = [name for name in dir() if name[0].isupper()]


__getattr__ = partial(refuse_attribute, "torch.optim.lr_scheduler")
