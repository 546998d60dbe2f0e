"""What a training does by itself, which several processes do together (:mod:`qkv.distributed.data_parallel`)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np

from .._core import Tensor
from .._errors import shown

T = TypeVar("T")


class OneProcess:
    """One process with the whole of each batch."""

    is_main = True

    @contextmanager
    def working(self, trainer: Any, facts: dict[str, Any]) -> Iterator[None]:
        """Surround a training; `facts` are the arguments that all processes must have been given."""
        yield

    def from_main(self, compute: Callable[[], T]) -> T:
        """Give ``compute()``, which one process calls for all."""
        return compute()

    def before_update(self, trainer: Any) -> None:
        """Prepare for the next update."""

    def after_update(self, trainer: Any) -> None:
        """Look at the parameters that an update made."""

    def gradients(self, trainer: Any, batches: Sequence[Any]) -> tuple[float, float]:
        """Leave the gradients of the mean loss of some batches; give the loss's sum and what it is divided by."""
        total = count = 0.0
        for batch in batches:
            value, size = loss_of(trainer, batch)
            total, count = total + float(value), count + (1.0 if size is None else size)
            check_finite(trainer, total, value)
            if len(batches) == 1:
                value = value / max(count, 1.0)
            value.backward()
        if len(batches) > 1:
            for parameter in trainer.optimizer.params:
                if parameter.grad is not None:
                    gradient = np.asarray(parameter.grad)
                    np.divide(gradient, gradient.dtype.type(max(count, 1.0)), out=gradient)
        return total, count

    def interrupted(self, asked: bool) -> bool:
        """Say whether any process was asked to end after the last update."""
        return asked


def loss_of(trainer: Any, batch: Any) -> tuple[Any, float | None]:
    """Give the loss of a batch and what it is to be divided by; None if it is a mean already."""
    value = trainer.loss(trainer.model, batch)
    value, size = value if isinstance(value, tuple) and len(value) == 2 else (value, None)
    if not isinstance(value, Tensor):
        raise TypeError(
            "Trainer.fit: loss must return a Tensor, or a Tensor and a count, because gradients come from it; "
            f"got {shown(value)}"
        )
    return value, None if size is None else float(size)


def check_finite(trainer: Any, total: float, value: Any) -> None:
    """Raise a FloatingPointError unless the sum of the losses is a number."""
    if not math.isfinite(total):
        raise FloatingPointError(
            f"Trainer.fit: the loss must be finite because no step can be made from it; "
            f"got {float(value)} in update {len(trainer.history) + 1}"
        )
