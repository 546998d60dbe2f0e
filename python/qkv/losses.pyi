"""Types of losses.py. Written by tools/function_stubs.py; change that."""

from __future__ import annotations

from typing import Any, Literal, overload

from numpy.typing import NDArray

from ._core import Tensor
from ._types import Arrays, Numbers, Result

__all__ = ["binary_cross_entropy_with_logits", "cross_entropy", "huber", "kl_div", "l1", "mse", "nll_loss"]
Reduction = Literal["mean", "sum", "none"]

@overload
def cross_entropy(
    logits: Tensor,
    targets: Numbers,
    *,
    weight: Numbers | None = None,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    reduction: Reduction = "mean",
) -> Tensor: ...
@overload
def cross_entropy(
    logits: Numbers,
    targets: Tensor,
    *,
    weight: Numbers | None = None,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    reduction: Reduction = "mean",
) -> Tensor: ...
@overload
def cross_entropy(
    logits: Arrays,
    targets: Arrays,
    *,
    weight: Arrays | None = None,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    reduction: Reduction = "mean",
) -> NDArray[Any]: ...
@overload
def cross_entropy(
    logits: Numbers,
    targets: Numbers,
    *,
    weight: Numbers | None = None,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    reduction: Reduction = "mean",
) -> Result: ...
@overload
def nll_loss(
    log_probs: Tensor,
    targets: Numbers,
    *,
    weight: Numbers | None = None,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
) -> Tensor: ...
@overload
def nll_loss(
    log_probs: Numbers,
    targets: Tensor,
    *,
    weight: Numbers | None = None,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
) -> Tensor: ...
@overload
def nll_loss(
    log_probs: Arrays,
    targets: Arrays,
    *,
    weight: Arrays | None = None,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
) -> NDArray[Any]: ...
@overload
def nll_loss(
    log_probs: Numbers,
    targets: Numbers,
    *,
    weight: Numbers | None = None,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
) -> Result: ...
@overload
def mse(predictions: Tensor, targets: Numbers, *, reduction: Reduction = "mean") -> Tensor: ...
@overload
def mse(predictions: Numbers, targets: Tensor, *, reduction: Reduction = "mean") -> Tensor: ...
@overload
def mse(predictions: Arrays, targets: Arrays, *, reduction: Reduction = "mean") -> NDArray[Any]: ...
@overload
def mse(predictions: Numbers, targets: Numbers, *, reduction: Reduction = "mean") -> Result: ...
@overload
def l1(predictions: Tensor, targets: Numbers, *, reduction: Reduction = "mean") -> Tensor: ...
@overload
def l1(predictions: Numbers, targets: Tensor, *, reduction: Reduction = "mean") -> Tensor: ...
@overload
def l1(predictions: Arrays, targets: Arrays, *, reduction: Reduction = "mean") -> NDArray[Any]: ...
@overload
def l1(predictions: Numbers, targets: Numbers, *, reduction: Reduction = "mean") -> Result: ...
@overload
def huber(
    predictions: Tensor, targets: Numbers, *, delta: float = 1.0, reduction: Reduction = "mean"
) -> Tensor: ...
@overload
def huber(
    predictions: Numbers, targets: Tensor, *, delta: float = 1.0, reduction: Reduction = "mean"
) -> Tensor: ...
@overload
def huber(
    predictions: Arrays, targets: Arrays, *, delta: float = 1.0, reduction: Reduction = "mean"
) -> NDArray[Any]: ...
@overload
def huber(
    predictions: Numbers, targets: Numbers, *, delta: float = 1.0, reduction: Reduction = "mean"
) -> Result: ...
@overload
def binary_cross_entropy_with_logits(
    logits: Tensor,
    targets: Numbers,
    *,
    weight: Numbers | None = None,
    pos_weight: Numbers | None = None,
    reduction: Reduction = "mean",
) -> Tensor: ...
@overload
def binary_cross_entropy_with_logits(
    logits: Numbers,
    targets: Tensor,
    *,
    weight: Numbers | None = None,
    pos_weight: Numbers | None = None,
    reduction: Reduction = "mean",
) -> Tensor: ...
@overload
def binary_cross_entropy_with_logits(
    logits: Arrays,
    targets: Arrays,
    *,
    weight: Arrays | None = None,
    pos_weight: Arrays | None = None,
    reduction: Reduction = "mean",
) -> NDArray[Any]: ...
@overload
def binary_cross_entropy_with_logits(
    logits: Numbers,
    targets: Numbers,
    *,
    weight: Numbers | None = None,
    pos_weight: Numbers | None = None,
    reduction: Reduction = "mean",
) -> Result: ...
@overload
def kl_div(
    log_probs: Tensor,
    targets: Numbers,
    *,
    log_targets: bool = False,
    reduction: Literal["mean", "batchmean", "sum", "none"] = "mean",
) -> Tensor: ...
@overload
def kl_div(
    log_probs: Numbers,
    targets: Tensor,
    *,
    log_targets: bool = False,
    reduction: Literal["mean", "batchmean", "sum", "none"] = "mean",
) -> Tensor: ...
@overload
def kl_div(
    log_probs: Arrays,
    targets: Arrays,
    *,
    log_targets: bool = False,
    reduction: Literal["mean", "batchmean", "sum", "none"] = "mean",
) -> NDArray[Any]: ...
@overload
def kl_div(
    log_probs: Numbers,
    targets: Numbers,
    *,
    log_targets: bool = False,
    reduction: Literal["mean", "batchmean", "sum", "none"] = "mean",
) -> Result: ...
