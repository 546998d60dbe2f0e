"""``torch.multiprocessing``: one process computes here; :mod:`qkv.distributed` is for several."""

from __future__ import annotations

from functools import partial

from ._processes import of_several
from ._tensor import refuse_attribute

spawn = of_several("spawn")

__all__ = ["spawn"]


__getattr__ = partial(refuse_attribute, "torch.multiprocessing")
