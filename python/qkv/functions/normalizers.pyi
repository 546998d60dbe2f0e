"""Types of normalizers.py. Written by tools/function_stubs.py; change that."""

from __future__ import annotations

from typing import Any, overload

from numpy.typing import ArrayLike, NDArray

from .._core import Tensor

@overload
def softmax(x: Tensor, axis: int = -1, temperature: float = 1.0) -> Tensor: ...
@overload
def softmax(x: ArrayLike, axis: int = -1, temperature: float = 1.0) -> NDArray[Any]: ...
@overload
def log_softmax(x: Tensor, axis: int = -1, temperature: float = 1.0) -> Tensor: ...
@overload
def log_softmax(x: ArrayLike, axis: int = -1, temperature: float = 1.0) -> NDArray[Any]: ...
@overload
def sparsemax(x: Tensor, axis: int = -1) -> Tensor: ...
@overload
def sparsemax(x: ArrayLike, axis: int = -1) -> NDArray[Any]: ...
@overload
def entmax(x: Tensor, alpha: float = 1.5, axis: int = -1) -> Tensor: ...
@overload
def entmax(x: ArrayLike, alpha: float = 1.5, axis: int = -1) -> NDArray[Any]: ...
@overload
def masked_softmax(
    scores: Tensor,
    valid_lens: ArrayLike | None = None,
    *,
    mask: ArrayLike | None = None,
    masked_value: float | None = None,
) -> Tensor: ...
@overload
def masked_softmax(
    scores: ArrayLike,
    valid_lens: ArrayLike | None = None,
    *,
    mask: ArrayLike | None = None,
    masked_value: float | None = None,
) -> NDArray[Any]: ...
@overload
def softmax_jacobian(x: Tensor) -> Tensor: ...
@overload
def softmax_jacobian(x: ArrayLike) -> NDArray[Any]: ...
