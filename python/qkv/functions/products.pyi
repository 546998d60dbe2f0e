"""Types of products.py. Written by tools/function_stubs.py; change that."""

from __future__ import annotations

from typing import Any, overload

from numpy.typing import ArrayLike, NDArray

from .._core import Tensor
from .._types import Arrays, Numbers, Result

__all__ = ["einsum", "matmul"]

@overload
def matmul(a: Tensor, b: Numbers) -> Tensor: ...
@overload
def matmul(a: Numbers, b: Tensor) -> Tensor: ...
@overload
def matmul(a: Arrays, b: Arrays) -> NDArray[Any]: ...
@overload
def matmul(a: Numbers, b: Numbers) -> Result: ...
@overload
def einsum(subscripts: str, *operands: Tensor) -> Tensor: ...
@overload
def einsum(subscripts: str, *operands: ArrayLike) -> NDArray[Any]: ...
