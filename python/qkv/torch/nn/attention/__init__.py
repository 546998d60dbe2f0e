"""``torch.nn.attention``: attention by its formula, and the choice of a kernel, which qkv makes itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from functools import partial

from ...._words.errors import shown
from ..._tensor import refuse_attribute
from . import flex_attention as flex_attention


class SDPBackend(IntEnum):
    """PyTorch's kernels of ``scaled_dot_product_attention``."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


@contextmanager
def sdpa_kernel(backends: SDPBackend | list[SDPBackend], set_priority: bool = False) -> Iterator[None]:
    """Change nothing: there is one kernel, which computes every case.

    Examples
    --------
    >>> from qkv.torch.nn.attention import SDPBackend, sdpa_kernel
    >>> with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
    ...     pass
    """
    for backend in backends if isinstance(backends, list) else [backends]:
        if not isinstance(backend, SDPBackend):
            raise TypeError(f"sdpa_kernel: backends must be of SDPBackend, or a list; got {shown(backend)}")
    if not isinstance(set_priority, bool):
        raise TypeError(f"sdpa_kernel: set_priority must be True or False; got {shown(set_priority)}")
    yield


__all__ = ["SDPBackend", "flex_attention", "sdpa_kernel"]


__getattr__ = partial(refuse_attribute, "torch.nn.attention")
