"""``torch.nn.parallel``: one process computes here; :mod:`qkv.distributed` is for several."""

from __future__ import annotations

from functools import partial

from .._processes import OfSeveral
from .._tensor import refuse_attribute


class DistributedDataParallel(OfSeveral):
    """A model whose gradients several processes add: refused."""


__all__ = ["DistributedDataParallel"]


__getattr__ = partial(refuse_attribute, "torch.nn.parallel")
