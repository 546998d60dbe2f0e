"""``torch.optim``: optimizers with groups of parameters, and schedules in `lr_scheduler`."""

from __future__ import annotations

from typing import Any

from .._tensor import refuse_attribute
from . import lr_scheduler
from ._averages import Adagrad, RMSprop
from ._optimizers import SGD, Adam, AdamW, Optimizer

__all__ = ["SGD", "Adagrad", "Adam", "AdamW", "Optimizer", "RMSprop", "lr_scheduler"]


def __getattr__(name: str) -> Any:
    refuse_attribute("torch.optim", name)
