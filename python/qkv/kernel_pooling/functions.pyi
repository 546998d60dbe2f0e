"""Types of functions.py. Written by tools/function_stubs.py; change that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, overload

from numpy.typing import ArrayLike, NDArray

from .._core import Tensor
from .._types import Arrays, Numbers, Result

Kernel = str | Callable[[Any], Any]

@overload
def kernel_values(u: Tensor, kernel: Kernel = "gaussian") -> Tensor: ...
@overload
def kernel_values(u: ArrayLike, kernel: Kernel = "gaussian") -> NDArray[Any]: ...
def _called(operation: str, kernel: Callable[[Any], Any], u: Any) -> Any: ...
@overload
def kernel_attention(
    queries: Tensor,
    keys: Numbers,
    values: Numbers,
    kernel: Kernel = "gaussian",
    bandwidth: Numbers = 1.0,
    *,
    valid_lens: ArrayLike | None = None,
    return_weights: Literal[False] = False,
) -> Tensor: ...
@overload
def kernel_attention(
    queries: Arrays,
    keys: Arrays,
    values: Arrays,
    kernel: Kernel = "gaussian",
    bandwidth: Arrays = 1.0,
    *,
    valid_lens: ArrayLike | None = None,
    return_weights: Literal[False] = False,
) -> NDArray[Any]: ...
@overload
def kernel_attention(
    queries: Tensor,
    keys: Numbers,
    values: Numbers,
    kernel: Kernel = "gaussian",
    bandwidth: Numbers = 1.0,
    *,
    valid_lens: ArrayLike | None = None,
    return_weights: Literal[True],
) -> tuple[Tensor, Tensor]: ...
@overload
def kernel_attention(
    queries: Arrays,
    keys: Arrays,
    values: Arrays,
    kernel: Kernel = "gaussian",
    bandwidth: Arrays = 1.0,
    *,
    valid_lens: ArrayLike | None = None,
    return_weights: Literal[True],
) -> tuple[NDArray[Any], NDArray[Any]]: ...
@overload
def kernel_attention(
    queries: Numbers,
    keys: Numbers,
    values: Numbers,
    kernel: Kernel = "gaussian",
    bandwidth: Numbers = 1.0,
    *,
    valid_lens: ArrayLike | None = None,
    return_weights: bool = False,
) -> Result: ...
