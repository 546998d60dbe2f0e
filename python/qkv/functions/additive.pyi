"""Types of additive.py. Written by tools/function_stubs.py; change that."""

from __future__ import annotations

from typing import Any, Literal, overload

from numpy.typing import ArrayLike, NDArray

from .._core import Tensor
from .._types import Arrays, Numbers, Result

@overload
def additive_attention(
    queries: Tensor,
    keys: Numbers,
    values: Numbers,
    score_weight: Numbers,
    *,
    valid_lens: ArrayLike | None = None,
    attn_mask: Numbers | None = None,
    dropout_p: float = 0.0,
    dropout_keep: ArrayLike | None = None,
    masked_value: float | None = None,
    return_weights: Literal[False] = False,
) -> Tensor: ...
@overload
def additive_attention(
    queries: Arrays,
    keys: Arrays,
    values: Arrays,
    score_weight: Arrays,
    *,
    valid_lens: ArrayLike | None = None,
    attn_mask: Arrays | None = None,
    dropout_p: float = 0.0,
    dropout_keep: ArrayLike | None = None,
    masked_value: float | None = None,
    return_weights: Literal[False] = False,
) -> NDArray[Any]: ...
@overload
def additive_attention(
    queries: Tensor,
    keys: Numbers,
    values: Numbers,
    score_weight: Numbers,
    *,
    valid_lens: ArrayLike | None = None,
    attn_mask: Numbers | None = None,
    dropout_p: float = 0.0,
    dropout_keep: ArrayLike | None = None,
    masked_value: float | None = None,
    return_weights: Literal[True],
) -> tuple[Tensor, Tensor]: ...
@overload
def additive_attention(
    queries: Arrays,
    keys: Arrays,
    values: Arrays,
    score_weight: Arrays,
    *,
    valid_lens: ArrayLike | None = None,
    attn_mask: Arrays | None = None,
    dropout_p: float = 0.0,
    dropout_keep: ArrayLike | None = None,
    masked_value: float | None = None,
    return_weights: Literal[True],
) -> tuple[NDArray[Any], NDArray[Any]]: ...
@overload
def additive_attention(
    queries: Numbers,
    keys: Numbers,
    values: Numbers,
    score_weight: Numbers,
    *,
    valid_lens: ArrayLike | None = None,
    attn_mask: Numbers | None = None,
    dropout_p: float = 0.0,
    dropout_keep: ArrayLike | None = None,
    masked_value: float | None = None,
    return_weights: bool = False,
) -> Result: ...
