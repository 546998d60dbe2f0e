"""Types of linear.py. Written by tools/function_stubs.py; change that."""

from __future__ import annotations

from typing import Any, Literal, overload

from numpy.typing import NDArray

from .._core import Tensor
from .._types import Arrays, Numbers, Result

@overload
def linear_attention(
    query: Tensor,
    key: Numbers,
    value: Numbers,
    *,
    decay: Numbers | None = None,
    beta: Numbers | None = None,
    update_rule: Literal["linear", "gated", "delta", "gated_delta"] = "linear",
    scale: float | None = None,
    state: Numbers | None = None,
    chunk_size: int = 64,
    return_state: Literal[False] = False,
) -> Tensor: ...
@overload
def linear_attention(
    query: Arrays,
    key: Arrays,
    value: Arrays,
    *,
    decay: Arrays | None = None,
    beta: Arrays | None = None,
    update_rule: Literal["linear", "gated", "delta", "gated_delta"] = "linear",
    scale: float | None = None,
    state: Arrays | None = None,
    chunk_size: int = 64,
    return_state: Literal[False] = False,
) -> NDArray[Any]: ...
@overload
def linear_attention(
    query: Tensor,
    key: Numbers,
    value: Numbers,
    *,
    decay: Numbers | None = None,
    beta: Numbers | None = None,
    update_rule: Literal["linear", "gated", "delta", "gated_delta"] = "linear",
    scale: float | None = None,
    state: Numbers | None = None,
    chunk_size: int = 64,
    return_state: Literal[True],
) -> tuple[Tensor, Tensor]: ...
@overload
def linear_attention(
    query: Arrays,
    key: Arrays,
    value: Arrays,
    *,
    decay: Arrays | None = None,
    beta: Arrays | None = None,
    update_rule: Literal["linear", "gated", "delta", "gated_delta"] = "linear",
    scale: float | None = None,
    state: Arrays | None = None,
    chunk_size: int = 64,
    return_state: Literal[True],
) -> tuple[NDArray[Any], NDArray[Any]]: ...
@overload
def linear_attention(
    query: Numbers,
    key: Numbers,
    value: Numbers,
    *,
    decay: Numbers | None = None,
    beta: Numbers | None = None,
    update_rule: Literal["linear", "gated", "delta", "gated_delta"] = "linear",
    scale: float | None = None,
    state: Numbers | None = None,
    chunk_size: int = 64,
    return_state: bool = False,
) -> Result: ...
