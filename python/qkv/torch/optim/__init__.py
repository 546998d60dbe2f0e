"""``torch.optim``: optimizers with groups of parameters, and schedules in `lr_scheduler`."""

from __future__ import annotations

from typing import Any

from .._tensor import refuse_attribute
from . import lr_scheduler
from ._optimizers import SGD, Adagrad, Adam, AdamW, Optimizer, RMSprop

__all__ = ["SGD", "Adagrad", "Adam", "AdamW", "Optimizer", "RMSprop", "lr_scheduler"]


def __getattr__(name: str) -> Any:
    refuse_attribute("torch.optim", name)
