"""Another dtype, a copy, no history; and what a Tensor says of itself.

type_as: In the dtype of another.
cpu: Itself.
clone: The same numbers in memory of their own; gradients flow back.
detach: The same memory without a history.
cuda: Refused: qkv computes on the CPU.
size: The shape, or the size of one axis.
dim: Number of axes.
numel: Number of elements.
nelement: Number of elements.
element_size: Bytes of one number.
data_ptr: Where the numbers lie in memory.
is_floating_point: Whether the dtype is a floating one.
is_tensor: Whether it is a Tensor of this module.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from typing import Any

from .. import _core
from .._words.errors import shown
from . import _dtypes
from ._dtypes import check_device, computed, refuse_device
from ._elementwise import cast
from ._tensor import FUNCTIONS, Core, Tensor, _core_leaf, _core_shape, _core_size, define, named


def kinds_in(*given) -> Iterator[Any]:
    """The dtypes that arguments of `to` ask for, in themselves or in a Tensor; the only device is the CPU."""
    for one in given:
        if isinstance(one, (Tensor, _dtypes.dtype, type)):
            yield one.dtype if isinstance(one, Tensor) else computed(one, "to")
        elif isinstance(one, (str, _dtypes.device)):
            check_device(one, "to")
        elif one is not None and not isinstance(one, builtins.bool):
            raise TypeError(f"to: expected a dtype, a device or a Tensor; got {shown(one)}")


@named(".to")
def to(t, *args, device=None, dtype=None, other=None, non_blocking=False, copy=False, memory_format=None):
    """In another dtype; the only device is the CPU."""
    result = t
    for kind in kinds_in(*args, device, dtype, other):
        result = cast(result, kind)
    return clone(t) if copy and result is t else result


@named(".type")
def type_(t, dtype=None):
    """In another dtype; without one, the name of this one's kind."""
    if dtype is None:
        return next((f"torch.{name}" for name, kind in _dtypes.TYPE_NAMES.items() if kind is t.dtype), "")
    return cast(t, computed(dtype, "type"))


@named(".detach_")
def detach_(t) -> Tensor:
    """Forget the history."""
    if _core_leaf(t):
        t.requires_grad = False
    else:
        _core.detach_in_place(t)
    return t


@named(".requires_grad_")
def requires_grad_(t, requires_grad: builtins.bool = True) -> Tensor:
    """Set ``requires_grad`` and return the Tensor."""
    t.requires_grad = requires_grad
    return t


def _conversion(kind):
    return lambda t, *, memory_format=None: cast(t, computed(kind, kind.name))


for _name, _kind in {**_dtypes.ALIASES, "bfloat16": _dtypes.bfloat16}.items():
    named(f".{_name}")(_conversion(_kind))
_TABLE = {
    ".type_as": lambda t, other: cast(t, other.dtype),
    ".cpu": lambda t: t,
    ".cuda": lambda t, device=None: refuse_device("cuda", "cuda"),
    "clone: Clone": lambda input, *, memory_format=None: Core.copy(input),
    "detach:": lambda input: Core.detach(input),
    ".size": lambda t, dim=None: t.shape if dim is None else t.shape[dim],
    ".dim": lambda t: len(_core_shape(t)),
    "numel": lambda input: int(_core_size(input)),
    ".nelement": lambda t: int(_core_size(t)),
    ".element_size": lambda t: int(t.dtype.itemsize),
    ".data_ptr": lambda t: int(_core.fixed_address(t)),
    "is_floating_point": lambda input: bool(input.dtype.is_floating_point),
    "torch.is_tensor": lambda obj: isinstance(obj, Tensor),
}
define(_TABLE)
clone = FUNCTIONS["clone"]
