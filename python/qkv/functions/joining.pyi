"""Types of joining.py. Written by tools/function_stubs.py; change that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._core import Tensor

__all__ = ["concatenate", "pad", "split", "stack"]

@overload
def concatenate(tensors: Sequence[Tensor], axis: int = 0) -> Tensor: ...
@overload
def concatenate(tensors: Sequence[ArrayLike], axis: int = 0) -> NDArray[Any]: ...
@overload
def stack(tensors: Sequence[Tensor], axis: int = 0) -> Tensor: ...
@overload
def stack(tensors: Sequence[ArrayLike], axis: int = 0) -> NDArray[Any]: ...
def _rows(x: Any, pad_width: Any) -> tuple[list[int], list[int]]: ...
@overload
def pad(
    x: Tensor,
    pad_width: ArrayLike,
    mode: Literal["constant", "edge", "reflect", "symmetric", "wrap"] = "constant",
    *,
    constant_values: float = 0,
) -> Tensor: ...
@overload
def pad(
    x: ArrayLike,
    pad_width: ArrayLike,
    mode: Literal["constant", "edge", "reflect", "symmetric", "wrap"] = "constant",
    *,
    constant_values: float = 0,
) -> NDArray[Any]: ...
@overload
def split(
    x: Tensor, indices_or_sections: int | Sequence[int] | NDArray[np.integer], axis: int = 0
) -> list[Tensor]: ...
@overload
def split(
    x: ArrayLike, indices_or_sections: int | Sequence[int] | NDArray[np.integer], axis: int = 0
) -> list[NDArray[Any]]: ...
