"""``torch.utils.data.distributed``: one process reads here; :mod:`qkv.distributed` is for several."""

from __future__ import annotations

from functools import partial

from ..._processes import OfSeveral
from ..._tensor import refuse_attribute


class DistributedSampler(OfSeveral):
    """The share of a data set that one of several processes reads: refused."""


__all__ = ["DistributedSampler"]


__getattr__ = partial(refuse_attribute, "torch.utils.data.distributed")
