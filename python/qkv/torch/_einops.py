"""einops on Tensors of this module, whose methods are PyTorch's."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

import numpy as np

from ._tensor import Tensor

# By its name, because type checkers would follow einops to each framework that is installed.
AbstractBackend: Any = import_module("einops._backends").AbstractBackend


class Backend(AbstractBackend):  # type: ignore[misc]
    """einops finds it by itself."""

    framework_name = "qkv.torch"

    def __init__(self) -> None:
        self.torch: Any = sys.modules[__package__]

    def is_appropriate_type(self, tensor: Any) -> bool:
        return isinstance(tensor, Tensor)

    def from_numpy(self, x: np.ndarray) -> Any:
        return self.torch.from_numpy(x)

    def to_numpy(self, x: Any) -> Any:
        return x.detach().numpy()

    def arange(self, start: int, stop: int) -> Any:
        return self.torch.arange(start, stop)

    def transpose(self, x: Any, axes: Any) -> Any:
        return x.permute(axes)

    def reduce(self, x: Any, operation: str, axes: Any) -> Any:
        if operation in ("sum", "mean"):
            return getattr(x, operation)(dim=tuple(axes))
        if operation in ("min", "max"):
            return getattr(x, "a" + operation)(dim=tuple(axes))
        for axis in sorted(axes, reverse=True):  # one at a time
            x = getattr(x, operation)(dim=axis)
        return x

    def stack_on_zeroth_dimension(self, tensors: list[Any]) -> Any:
        return self.torch.stack(tensors)

    def add_axis(self, x: Any, new_position: int) -> Any:
        return x.unsqueeze(new_position)

    def add_axes(self, x: Any, n_axes: int, pos2len: dict[int, int]) -> Any:
        for position in sorted(pos2len):
            x = self.add_axis(x, position)
        return x.expand([pos2len.get(axis, -1) for axis in range(n_axes)])

    def concat(self, tensors: list[Any], axis: int) -> Any:
        return self.torch.cat(tensors, dim=axis)

    def is_float_type(self, x: Any) -> bool:
        return bool(x.is_floating_point())

    def einsum(self, pattern: str, *x: Any) -> Any:
        return self.torch.einsum(pattern, *x)
