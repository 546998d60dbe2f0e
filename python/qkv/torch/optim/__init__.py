"""``torch.optim``: optimizers with groups of parameters, and schedules in `lr_scheduler`."""

from __future__ import annotations

from functools import partial

from .._tensor import refuse_attribute
from . import lr_scheduler
from ._optimizers import SGD, Adam, AdamW, Optimizer

__all__ = ["SGD", "Adam", "AdamW", "Optimizer", "lr_scheduler"]


__getattr__ = partial(refuse_attribute, "torch.optim")
