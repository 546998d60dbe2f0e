"""``torch.nn.attention``: attention by its formula."""

from __future__ import annotations

from functools import partial

from ..._tensor import refuse_attribute
from . import flex_attention as flex_attention

__all__ = ["flex_attention"]


__getattr__ = partial(refuse_attribute, "torch.nn.attention")
