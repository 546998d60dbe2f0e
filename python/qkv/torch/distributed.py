"""``torch.distributed``: one process computes here; :mod:`qkv.distributed` is for several."""

from __future__ import annotations

from functools import partial

from ._processes import of_several
from ._tensor import refuse_attribute

_REFUSED = "init_process_group destroy_process_group get_rank get_world_size barrier all_reduce"

globals().update({name: of_several(name) for name in _REFUSED.split()})


def is_available() -> bool:
    """False."""
    return False


def is_initialized() -> bool:
    """False."""
    return False


__all__ = ["is_available", "is_initialized", *_REFUSED.split()]


__getattr__ = partial(refuse_attribute, "torch.distributed")
