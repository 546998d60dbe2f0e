"""Another dtype, a copy, no history; and what a Tensor says of itself."""

from __future__ import annotations

import builtins
from typing import Any

from .. import _core
from .._errors import shown
from . import _dtypes
from ._dtypes import check_device, computed, dtype, refuse_device
from ._elementwise import cast, common_dtype, result_dtype
from ._tensor import Core, Tensor, _core_leaf, _core_shape, _core_size, both, function, method


@method("to")
def to(
    t: Tensor,
    *args: Any,
    device: Any = None,
    dtype: Any = None,
    other: Any = None,
    non_blocking: builtins.bool = False,
    copy: builtins.bool = False,
    memory_format: Any = None,
) -> Tensor:
    """In another dtype; the only device is the CPU."""
    given = t
    for one in (*args, device, dtype, other):
        if isinstance(one, Tensor):
            t = cast(t, one.dtype)
        elif isinstance(one, (_dtypes.dtype, type)):
            t = cast(t, computed(one, "to"))
        elif isinstance(one, (str, _dtypes.device)):
            check_device(one, "to")
        elif one is not None and not isinstance(one, builtins.bool):
            raise TypeError(f"to: expected a dtype, a device or a Tensor; got {shown(one)}")
    return clone(t) if copy and t is given else t


@method("type")
def type_(t: Tensor, dtype: Any = None) -> Any:
    """In another dtype; without one, the name of this one's kind."""
    if dtype is None:
        return next((f"torch.{name}" for name, kind in _dtypes.TYPE_NAMES.items() if kind is t.dtype), "")
    return cast(t, computed(dtype, "type"))


@method("type_as")
def type_as(t: Tensor, other: Tensor) -> Tensor:
    """In the dtype of another."""
    return cast(t, other.dtype)


for _name, _kind in {**_dtypes.ALIASES, "bfloat16": _dtypes.bfloat16}.items():
    method(_name)(lambda t, _k=_kind, _n=_name: cast(t, computed(_k, _n)))


@method("cpu")
def cpu(t: Tensor) -> Tensor:
    """Itself."""
    return t


@method("cuda")
def cuda(t: Tensor, device: Any = None) -> Tensor:
    """Refused: qkv computes on the CPU."""
    refuse_device("cuda", "cuda")


@both("clone", label="CloneBackward0")
def clone(input: Tensor, *, memory_format: Any = None) -> Any:
    """The same numbers in memory of their own; gradients flow back."""
    return Core.copy(input)


@both("detach", label="")
def detach(input: Tensor) -> Tensor:
    """The same memory without a history."""
    return Core.detach(input)  # type: ignore[return-value]


@method("detach_")
def detach_(t: Tensor) -> Tensor:
    """Forget the history."""
    if not _core_leaf(t):
        _core.detach_in_place(t)
    else:
        t.requires_grad = False
    return t


@method("requires_grad_")
def requires_grad_(t: Tensor, requires_grad: builtins.bool = True) -> Tensor:
    """Set ``requires_grad`` and return the Tensor."""
    t.requires_grad = requires_grad
    return t


# What it is.


@method("size")
def size(t: Tensor, dim: builtins.int | None = None) -> Any:
    """The shape, or the size of one axis."""
    return t.shape if dim is None else t.shape[dim]


@method("dim", "ndimension")
def dim(t: Tensor) -> builtins.int:
    """Number of axes."""
    return len(_core_shape(t))


@both("numel")
def numel(input: Tensor) -> builtins.int:
    """Number of elements."""
    return int(_core_size(input))


method("nelement")(numel)


@method("element_size")
def element_size(t: Tensor) -> builtins.int:
    """Bytes of one number."""
    return int(t.dtype.itemsize)


@method("data_ptr")
def data_ptr(t: Tensor) -> builtins.int:
    """Where the numbers lie in memory."""
    return int(_core.address(t))


@both("is_floating_point")
def is_floating_point(input: Tensor) -> builtins.bool:
    """Whether the dtype is a floating one."""
    return bool(input.dtype.is_floating_point)


@both("is_complex")
def is_complex(input: Tensor) -> builtins.bool:
    """Always False."""
    return False


@function("is_tensor")
def is_tensor(obj: Any) -> builtins.bool:
    """Whether it is a Tensor of this module."""
    return isinstance(obj, Tensor)


@function("result_type")
def result_type(tensor1: Any, tensor2: Any) -> dtype:
    """dtype of an operation on both."""
    return result_dtype(tensor1, tensor2)


@function("promote_types")
def promote_types(type1: dtype, type2: dtype) -> dtype:
    """The dtype that holds the numbers of two others."""
    return common_dtype(type1, type2)
