"""Schedules of the learning rate."""

from __future__ import annotations

from typing import Any

from .._tensor import refuse_attribute
from ._cycles import CosineAnnealingWarmRestarts, OneCycleLR
from ._schedules import (
    ConstantLR,
    CosineAnnealingLR,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    LRScheduler,
    MultiplicativeLR,
    MultiStepLR,
    PolynomialLR,
    StepLR,
)
from ._several_schedules import ChainedScheduler, ReduceLROnPlateau, SequentialLR

_LRScheduler = LRScheduler

__all__ = [
    "ChainedScheduler",
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "ExponentialLR",
    "LRScheduler",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "OneCycleLR",
    "PolynomialLR",
    "ReduceLROnPlateau",
    "SequentialLR",
    "StepLR",
]


def __getattr__(name: str) -> Any:
    refuse_attribute("torch.optim.lr_scheduler", name)
