"""Types of positions.py. Written by tools/function_stubs.py; change that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from .._core import Tensor
from .._types import Arrays, Numbers, Result

__all__ = ["alibi_slopes", "apply_rotary", "relative_rotation", "rotary_tables", "sinusoidal_positions"]

def sinusoidal_positions(
    max_len: int, dim: int, base: float = 10000.0, dtype: DTypeLike = "float32"
) -> NDArray[Any]: ...
def relative_rotation(
    offset: int, dim: int, base: float = 10000.0, dtype: DTypeLike = "float32"
) -> NDArray[Any]: ...
def rotary_tables(
    positions: ArrayLike,
    dim: int,
    base: float = 10000.0,
    dtype: DTypeLike = "float32",
    *,
    scaling: Mapping[str, Any] | None = None,
) -> tuple[NDArray[Any], NDArray[Any]]: ...
@overload
def apply_rotary(x: Tensor, cos: Numbers, sin: Numbers, *, interleaved: bool = False) -> Tensor: ...
@overload
def apply_rotary(x: Numbers, cos: Tensor, sin: Numbers, *, interleaved: bool = False) -> Tensor: ...
@overload
def apply_rotary(x: Numbers, cos: Numbers, sin: Tensor, *, interleaved: bool = False) -> Tensor: ...
@overload
def apply_rotary(x: Arrays, cos: Arrays, sin: Arrays, *, interleaved: bool = False) -> NDArray[Any]: ...
@overload
def apply_rotary(x: Numbers, cos: Numbers, sin: Numbers, *, interleaved: bool = False) -> Result: ...
def _of_learned_angles(x: Any, cos: Any, sin: Any, interleaved: bool) -> Any: ...
def alibi_slopes(num_heads: int, dtype: DTypeLike = "float32") -> NDArray[Any]: ...
def _rounded(table: NDArray[np.float64], dtype: DTypeLike, operation: str) -> NDArray[Any]: ...
