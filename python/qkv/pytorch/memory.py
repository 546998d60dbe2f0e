"""The memory of torch tensors as Tensors of qkv, and the other way."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch

from .. import _core

SHARED = frozenset([torch.float32, torch.float64, torch.int64, torch.bool])
HALF = frozenset([torch.float16, torch.bfloat16])
_CONVERTED = dict.fromkeys(HALF, torch.float32) | dict.fromkeys(
    [torch.int32, torch.int16, torch.int8, torch.uint8], torch.int64
)


def shared(t: torch.Tensor, name: str = "tensors") -> _core.Tensor:
    """Return a Tensor in the memory of a torch tensor with any strides; other dtypes are converted once."""
    if t.device.type != "cpu" or t.layout != torch.strided or t.is_nested:
        kind = "nested" if t.is_nested else str(t.layout)
        raise TypeError(f"qkv.pytorch: {name} must be strided and on the CPU; got {kind} on {t.device}")
    t = t.detach()
    if t.dtype not in SHARED:
        if t.dtype not in _CONVERTED:
            raise TypeError(
                f"qkv.pytorch: {name} must be of floats, integers or booleans that qkv has; got {t.dtype}"
            )
        t = t.to(_CONVERTED[t.dtype])
    found = _core.shared(t.resolve_neg().numpy())
    assert found is not None
    return found


def to_torch(y: Any, dtype: torch.dtype | None, inputs: Iterable[_core.Tensor]) -> torch.Tensor:
    """Return a result as a torch tensor in memory of its own."""
    array = np.asarray(y.detach() if isinstance(y, _core.Tensor) else y)
    if not array.flags.writeable or any(np.may_share_memory(array, np.asarray(x.detach())) for x in inputs):
        array = array.copy()
    t = torch.from_numpy(array)
    return t if dtype is None or not t.is_floating_point() else t.to(dtype)
