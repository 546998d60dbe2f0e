"""Types of attention.py. Written by tools/function_stubs.py; change that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypedDict, TypeVar, overload

from numpy.typing import ArrayLike, NDArray

from .._core import Tensor
from .._types import Arrays, Numbers, Result

F = TypeVar("F", bound=Callable[..., Any])

@overload
def scaled_dot_product_attention(
    query: Tensor,
    key: Numbers,
    value: Numbers,
    attn_mask: Numbers | None = None,
    dropout_p: float = 0.0,
    is_causal: bool | Literal["upper_left", "lower_right"] = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    valid_lens: ArrayLike | None = None,
    window: tuple[int, int] | None = None,
    softcap: float = 0.0,
    alibi_slopes: Numbers | None = None,
    q_offset: ArrayLike | None = None,
    sinks: Numbers | None = None,
    masked_value: float | None = None,
    dropout_keep: ArrayLike | None = None,
    return_weights: Literal[False] = False,
    return_lse: Literal[False] = False,
    score_mod: Callable[..., Any] | None = None,
    mask_mod: Callable[..., Any] | None = None,
    normalizer: Literal["softmax", "sigmoid", "relu", "sparsemax", "entmax15"] = "softmax",
    cu_seqlens_q: ArrayLike | None = None,
    cu_seqlens_k: ArrayLike | None = None,
) -> Tensor: ...
@overload
def scaled_dot_product_attention(
    query: Arrays,
    key: Arrays,
    value: Arrays,
    attn_mask: Arrays | None = None,
    dropout_p: float = 0.0,
    is_causal: bool | Literal["upper_left", "lower_right"] = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    valid_lens: ArrayLike | None = None,
    window: tuple[int, int] | None = None,
    softcap: float = 0.0,
    alibi_slopes: Arrays | None = None,
    q_offset: ArrayLike | None = None,
    sinks: Arrays | None = None,
    masked_value: float | None = None,
    dropout_keep: ArrayLike | None = None,
    return_weights: Literal[False] = False,
    return_lse: Literal[False] = False,
    score_mod: Callable[..., Any] | None = None,
    mask_mod: Callable[..., Any] | None = None,
    normalizer: Literal["softmax", "sigmoid", "relu", "sparsemax", "entmax15"] = "softmax",
    cu_seqlens_q: ArrayLike | None = None,
    cu_seqlens_k: ArrayLike | None = None,
) -> NDArray[Any]: ...
@overload
def scaled_dot_product_attention(
    query: Tensor,
    key: Numbers,
    value: Numbers,
    attn_mask: Numbers | None = None,
    dropout_p: float = 0.0,
    is_causal: bool | Literal["upper_left", "lower_right"] = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    valid_lens: ArrayLike | None = None,
    window: tuple[int, int] | None = None,
    softcap: float = 0.0,
    alibi_slopes: Numbers | None = None,
    q_offset: ArrayLike | None = None,
    sinks: Numbers | None = None,
    masked_value: float | None = None,
    dropout_keep: ArrayLike | None = None,
    return_weights: Literal[False] = False,
    return_lse: Literal[True],
    score_mod: Callable[..., Any] | None = None,
    mask_mod: Callable[..., Any] | None = None,
    normalizer: Literal["softmax", "sigmoid", "relu", "sparsemax", "entmax15"] = "softmax",
    cu_seqlens_q: ArrayLike | None = None,
    cu_seqlens_k: ArrayLike | None = None,
) -> tuple[Tensor, Tensor]: ...
@overload
def scaled_dot_product_attention(
    query: Arrays,
    key: Arrays,
    value: Arrays,
    attn_mask: Arrays | None = None,
    dropout_p: float = 0.0,
    is_causal: bool | Literal["upper_left", "lower_right"] = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    valid_lens: ArrayLike | None = None,
    window: tuple[int, int] | None = None,
    softcap: float = 0.0,
    alibi_slopes: Arrays | None = None,
    q_offset: ArrayLike | None = None,
    sinks: Arrays | None = None,
    masked_value: float | None = None,
    dropout_keep: ArrayLike | None = None,
    return_weights: Literal[False] = False,
    return_lse: Literal[True],
    score_mod: Callable[..., Any] | None = None,
    mask_mod: Callable[..., Any] | None = None,
    normalizer: Literal["softmax", "sigmoid", "relu", "sparsemax", "entmax15"] = "softmax",
    cu_seqlens_q: ArrayLike | None = None,
    cu_seqlens_k: ArrayLike | None = None,
) -> tuple[NDArray[Any], NDArray[Any]]: ...
@overload
def scaled_dot_product_attention(
    query: Tensor,
    key: Numbers,
    value: Numbers,
    attn_mask: Numbers | None = None,
    dropout_p: float = 0.0,
    is_causal: bool | Literal["upper_left", "lower_right"] = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    valid_lens: ArrayLike | None = None,
    window: tuple[int, int] | None = None,
    softcap: float = 0.0,
    alibi_slopes: Numbers | None = None,
    q_offset: ArrayLike | None = None,
    sinks: Numbers | None = None,
    masked_value: float | None = None,
    dropout_keep: ArrayLike | None = None,
    return_weights: Literal[True],
    return_lse: Literal[False] = False,
    score_mod: Callable[..., Any] | None = None,
    mask_mod: Callable[..., Any] | None = None,
    normalizer: Literal["softmax", "sigmoid", "relu", "sparsemax", "entmax15"] = "softmax",
    cu_seqlens_q: ArrayLike | None = None,
    cu_seqlens_k: ArrayLike | None = None,
) -> tuple[Tensor, Tensor]: ...
@overload
def scaled_dot_product_attention(
    query: Arrays,
    key: Arrays,
    value: Arrays,
    attn_mask: Arrays | None = None,
    dropout_p: float = 0.0,
    is_causal: bool | Literal["upper_left", "lower_right"] = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    valid_lens: ArrayLike | None = None,
    window: tuple[int, int] | None = None,
    softcap: float = 0.0,
    alibi_slopes: Arrays | None = None,
    q_offset: ArrayLike | None = None,
    sinks: Arrays | None = None,
    masked_value: float | None = None,
    dropout_keep: ArrayLike | None = None,
    return_weights: Literal[True],
    return_lse: Literal[False] = False,
    score_mod: Callable[..., Any] | None = None,
    mask_mod: Callable[..., Any] | None = None,
    normalizer: Literal["softmax", "sigmoid", "relu", "sparsemax", "entmax15"] = "softmax",
    cu_seqlens_q: ArrayLike | None = None,
    cu_seqlens_k: ArrayLike | None = None,
) -> tuple[NDArray[Any], NDArray[Any]]: ...
@overload
def scaled_dot_product_attention(
    query: Tensor,
    key: Numbers,
    value: Numbers,
    attn_mask: Numbers | None = None,
    dropout_p: float = 0.0,
    is_causal: bool | Literal["upper_left", "lower_right"] = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    valid_lens: ArrayLike | None = None,
    window: tuple[int, int] | None = None,
    softcap: float = 0.0,
    alibi_slopes: Numbers | None = None,
    q_offset: ArrayLike | None = None,
    sinks: Numbers | None = None,
    masked_value: float | None = None,
    dropout_keep: ArrayLike | None = None,
    return_weights: Literal[True],
    return_lse: Literal[True],
    score_mod: Callable[..., Any] | None = None,
    mask_mod: Callable[..., Any] | None = None,
    normalizer: Literal["softmax", "sigmoid", "relu", "sparsemax", "entmax15"] = "softmax",
    cu_seqlens_q: ArrayLike | None = None,
    cu_seqlens_k: ArrayLike | None = None,
) -> tuple[Tensor, Tensor, Tensor]: ...
@overload
def scaled_dot_product_attention(
    query: Arrays,
    key: Arrays,
    value: Arrays,
    attn_mask: Arrays | None = None,
    dropout_p: float = 0.0,
    is_causal: bool | Literal["upper_left", "lower_right"] = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    valid_lens: ArrayLike | None = None,
    window: tuple[int, int] | None = None,
    softcap: float = 0.0,
    alibi_slopes: Arrays | None = None,
    q_offset: ArrayLike | None = None,
    sinks: Arrays | None = None,
    masked_value: float | None = None,
    dropout_keep: ArrayLike | None = None,
    return_weights: Literal[True],
    return_lse: Literal[True],
    score_mod: Callable[..., Any] | None = None,
    mask_mod: Callable[..., Any] | None = None,
    normalizer: Literal["softmax", "sigmoid", "relu", "sparsemax", "entmax15"] = "softmax",
    cu_seqlens_q: ArrayLike | None = None,
    cu_seqlens_k: ArrayLike | None = None,
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]: ...
@overload
def scaled_dot_product_attention(
    query: Numbers,
    key: Numbers,
    value: Numbers,
    attn_mask: Numbers | None = None,
    dropout_p: float = 0.0,
    is_causal: bool | Literal["upper_left", "lower_right"] = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    valid_lens: ArrayLike | None = None,
    window: tuple[int, int] | None = None,
    softcap: float = 0.0,
    alibi_slopes: Numbers | None = None,
    q_offset: ArrayLike | None = None,
    sinks: Numbers | None = None,
    masked_value: float | None = None,
    dropout_keep: ArrayLike | None = None,
    return_weights: bool = False,
    return_lse: bool = False,
    score_mod: Callable[..., Any] | None = None,
    mask_mod: Callable[..., Any] | None = None,
    normalizer: Literal["softmax", "sigmoid", "relu", "sparsemax", "entmax15"] = "softmax",
    cu_seqlens_q: ArrayLike | None = None,
    cu_seqlens_k: ArrayLike | None = None,
) -> Result: ...

class ImageOptions(TypedDict, total=False):
    """The options that :func:`qkv.attention_image` and :func:`qkv.distributed.attention` have, too."""

    attn_mask: Numbers | None
    is_causal: bool | Literal["upper_left", "lower_right"]
    scale: float | None
    enable_gqa: bool
    valid_lens: ArrayLike | None
    window: tuple[int, int] | None
    softcap: float
    alibi_slopes: Numbers | None
    q_offset: ArrayLike | None
    sinks: Numbers | None
    masked_value: float | None
    score_mod: Callable[..., Any] | None
    mask_mod: Callable[..., Any] | None
    normalizer: Literal["softmax", "sigmoid", "relu", "sparsemax", "entmax15"]

class SplitOptions(ImageOptions, total=False):
    """Those that only :func:`qkv.distributed.attention` has, too."""

    dropout_p: float
    dropout_keep: ArrayLike | None
    return_weights: bool
    return_lse: bool

def with_options(kind: type) -> Callable[[F], F]: ...
