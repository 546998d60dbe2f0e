"""``torch.utils``: data sets and loaders."""

from __future__ import annotations

from functools import partial

from .._tensor import refuse_attribute
from . import data

__all__ = ["data"]


__getattr__ = partial(refuse_attribute, "torch.utils")
