"""einops' rearrange, reduce, repeat, einsum, pack and unpack on Tensors, with their gradients.

einops finds subclasses of AbstractBackend by itself; importing this module is all that it takes.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from .. import _core
from .._core import Tensor
from .._public import of_core

# By its name, because type checkers would follow einops to each framework that is installed.
AbstractBackend: Any = import_module("einops._backends").AbstractBackend


class Backend(AbstractBackend):  # type: ignore[misc]
    """For `qkv.Tensor`, whose methods are NumPy's."""

    framework_name = "qkv"

    def is_appropriate_type(self, tensor: Any) -> bool:
        return isinstance(tensor, Tensor) and of_core(type(tensor))  # other classes have methods of their own

    def from_numpy(self, x: np.ndarray) -> Any:
        return _core.tensor(x)

    def to_numpy(self, x: Any) -> Any:
        return x.numpy()

    def arange(self, start: int, stop: int) -> Any:
        return _core.tensor(np.arange(start, stop))

    def stack_on_zeroth_dimension(self, tensors: list[Any]) -> Any:
        return _core.stack(tensors, 0)

    def add_axis(self, x: Any, new_position: int) -> Any:
        return x.expand_dims(new_position)

    def add_axes(self, x: Any, n_axes: int, pos2len: dict[int, int]) -> Any:
        for position in sorted(pos2len):
            x = self.add_axis(x, position)
        return x.broadcast_to([pos2len.get(axis, size) for axis, size in enumerate(x.shape)])

    def concat(self, tensors: list[Any], axis: int) -> Any:
        return _core.concatenate(tensors, axis)

    def is_float_type(self, x: Any) -> bool:
        return bool(x.dtype.kind == "f")

    def einsum(self, pattern: str, *x: Any) -> Any:
        return _core.einsum(pattern, x)
