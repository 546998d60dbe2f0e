"""Types of reductions.py. Written by tools/function_stubs.py; change that."""

from __future__ import annotations

from typing import Any, overload

from numpy.typing import ArrayLike, NDArray

from .._core import Tensor

__all__ = ["cumprod", "cumsum", "logsumexp", "normalize"]

@overload
def logsumexp(x: Tensor, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Tensor: ...
@overload
def logsumexp(
    x: ArrayLike, axis: int | tuple[int, ...] | None = None, keepdims: bool = False
) -> NDArray[Any]: ...
@overload
def cumsum(x: Tensor, axis: int | None = None) -> Tensor: ...
@overload
def cumsum(x: ArrayLike, axis: int | None = None) -> NDArray[Any]: ...
@overload
def cumprod(x: Tensor, axis: int | None = None) -> Tensor: ...
@overload
def cumprod(x: ArrayLike, axis: int | None = None) -> NDArray[Any]: ...
@overload
def normalize(
    x: Tensor, p: float = 2.0, axis: int | tuple[int, ...] | None = -1, eps: float = 1e-12
) -> Tensor: ...
@overload
def normalize(
    x: ArrayLike, p: float = 2.0, axis: int | tuple[int, ...] | None = -1, eps: float = 1e-12
) -> NDArray[Any]: ...
