"""``torch.utils``: data sets and loaders."""

from __future__ import annotations

from typing import Any

from .._tensor import refuse_attribute
from . import data

__all__ = ["data"]


def __getattr__(name: str) -> Any:
    refuse_attribute("torch.utils", name)
