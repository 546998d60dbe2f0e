"""The memory of torch tensors as Tensors of qkv, and the other way."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
import torch
from torch.autograd import forward_ad

from .. import _core

HALF = frozenset([torch.float16, torch.bfloat16])
_CONVERTED = dict.fromkeys(HALF, torch.float32) | dict.fromkeys(
    [torch.int32, torch.int16, torch.int8, torch.uint8], torch.int64
)
_LIKE = torch.empty(0)  # what results are like


def shared(t: torch.Tensor) -> _core.Tensor:
    """Return a Tensor in the memory of a torch tensor with any strides; other dtypes are converted once.

    Nobody but PyTorch knows of changes that are made to it there: what is saved for a gradient is given to
    ``save_for_backward``, too.
    """
    refuse_transforms(t)
    try:
        # Detached, it keeps its storage where `t.data` is set.
        return _core.shared_memory(t.detach().resolve_neg() if t.is_neg() else t.detach())
    except TypeError as error:
        if t.device.type == "cpu" and t.layout == torch.strided and not t.is_nested and t.dtype in _CONVERTED:
            return _core.shared_memory(t.detach().to(_CONVERTED[t.dtype]))
        _refuse(t, error)


def _refuse(t: torch.Tensor, error: TypeError) -> NoReturn:
    if t.device.type != "cpu" or t.layout != torch.strided or t.is_nested:
        kind = "a nested one" if t.is_nested else str(t.layout)
        raise TypeError(
            f"qkv.pytorch: a tensor must be strided and on the CPU; got {kind} on {t.device}"
        ) from error
    raise TypeError(
        f"qkv.pytorch: a tensor must have a dtype that qkv knows, of floats, integers or booleans; got {t.dtype}"
    ) from error


def refuse_transforms(*tensors: torch.Tensor) -> None:
    """Raise if a derivative goes through a tensor that autograd does not know: it would be lost in silence."""
    dual = forward_ad._current_level >= 0
    for t in tensors:
        if torch._C._functorch.is_functorch_wrapped_tensor(t) or (
            dual and forward_ad.unpack_dual(t).tangent is not None
        ):
            raise NotImplementedError(
                "qkv.pytorch: torch.func and forward-mode derivatives are not computed; use torch.autograd"
            )


def to_torch(y: Any, dtype: torch.dtype | None = None) -> torch.Tensor:
    """Return a result as a torch tensor in memory of its own."""
    t: torch.Tensor = _core.handed_over(y if isinstance(y, _core.Tensor) else np.array(y), _LIKE)
    return t if dtype is None or not t.is_floating_point() else t.to(dtype)
