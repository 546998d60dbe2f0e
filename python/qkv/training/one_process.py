"""What a training does by itself, which several processes do together (:mod:`data_parallel`)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np

from .._core import Tensor
from .._words.errors import shown

T = TypeVar("T")
E = TypeVar("E", bound=BaseException)


class OneProcess:
    """One process with the whole of each batch."""

    is_main = True

    @contextmanager
    def working(self, trainer: Any, facts: dict[str, Any]) -> Iterator[None]:
        """Surround a training; `facts` are the arguments that all processes must have been given."""
        yield

    def from_main(self, compute: Callable[[], T]) -> T:
        """Return ``compute()``, which one process calls for all."""
        return compute()

    def before_update(self, trainer: Any, batches: Sequence[Any], among: int) -> None:
        """Prepare for the next update, with some batches of the epoch's `among`."""

    def after_update(self, trainer: Any) -> None:
        """Look at the parameters that an update made."""

    def agreed(self, error: E) -> E:
        """Return an error that all processes raise."""
        return error

    def gradients(self, trainer: Any, batches: Sequence[Any]) -> tuple[float, float, dict[str, float]]:
        """Leave the gradients of the mean loss of some batches.

        Returns the loss's sum, what it is divided by, and the means of what was logged.
        """
        total = count = 0.0
        logged = Means()
        for batch in batches:
            value, size, facts = loss_of(trainer, batch)
            total, count = total + float(value), count + (1.0 if size is None else size)
            logged.add(facts, 1.0 if size is None else size)
            check_finite(trainer, total, value)
            if len(batches) == 1:
                value = value / max(count, 1.0)
            value.backward()
        if len(batches) > 1:
            for parameter in trainer.optimizer.params:
                if parameter.grad is not None:
                    gradient = np.asarray(parameter.grad)
                    np.divide(gradient, gradient.dtype.type(max(count, 1.0)), out=gradient)
        return total, count, logged.result()

    def wishes(self, interrupt: Any) -> tuple[bool, bool]:
        """Say whether any process was asked to end after the last update, or to write the checkpoint."""
        asked, interrupt.wanted = (interrupt.asked, interrupt.wanted), False
        return asked

    def length(self, order: Sequence[Any]) -> int:
        """Return the number of batches of an epoch."""
        return len(order)

    def step(self, optimizer: Any) -> None:
        """Make a step with the gradients."""
        optimizer.step()

    def state_of(self, optimizer: Any) -> dict[str, Any]:
        """Return the whole state of the optimizer, for a checkpoint."""
        state: dict[str, Any] = optimizer.state_dict()
        return state

    def loaded(self, optimizer: Any) -> None:
        """Look at an optimizer that has got the whole state."""

    def metrics(self, found: Mapping[str, Any]) -> dict[str, Any]:
        """Return the numbers of an evaluation, in which a pair is a sum and a count."""
        check_metrics(found)
        return {
            name: plain(value[0] / value[1] if is_share(value) else value) for name, value in found.items()
        }


def check_metrics(found: Any) -> None:
    """Refuse an evaluation that is no dict."""
    if not isinstance(found, Mapping):
        raise TypeError(f"Trainer.fit: evaluate must return a dict of numbers; got {shown(found)}")


def is_share(value: Any) -> bool:
    """Say whether a metric is a sum and a count, to be divided."""
    return isinstance(value, tuple) and len(value) == 2


def plain(value: Any) -> Any:
    """Return a number as JSON can hold it; leave texts and lists as they are."""
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, (str, list, dict)) or value is None:
        return value
    return float(value)


class Means:
    """Weighted means of numbers by name."""

    def __init__(self) -> None:
        self.sums: dict[str, tuple[float, float]] = {}  # of values times weights, of weights

    def add(self, values: Mapping[str, Any], weight: float) -> None:
        """Take some numbers into the means."""
        self.add_sums({str(name): (float(value) * weight, weight) for name, value in values.items()})

    def add_sums(self, sums: Mapping[str, tuple[float, float]]) -> None:
        """Take the sums of other means into these."""
        for name, (total, weights) in sums.items():
            before = self.sums.get(name, (0.0, 0.0))
            self.sums[name] = (before[0] + total, before[1] + weights)

    def result(self) -> dict[str, float]:
        """Return the means."""
        return {name: total / (weights or 1.0) for name, (total, weights) in self.sums.items()}


def loss_of(trainer: Any, batch: Any) -> tuple[Any, float | None, Mapping[str, Any]]:
    """Return the loss of a batch, what it is to be divided by (None if it is a mean already), and what it logs."""
    given = trainer.loss(trainer.model, batch)
    parts = list(given) if isinstance(given, tuple) else [given]
    logged = parts.pop() if len(parts) > 1 and isinstance(parts[-1], Mapping) else {}
    if len(parts) not in (1, 2) or not isinstance(parts[0], Tensor):
        raise TypeError(
            "Trainer.fit: loss must return a Tensor, or a Tensor and a count, because gradients come from it; "
            f"got {shown(given)}"
        )
    if math.prod(parts[0].shape) != 1:
        raise ValueError(
            f"Trainer.fit: loss must return a Tensor of one number, such as its mean or its sum and a count; got a "
            f"Tensor {tuple(parts[0].shape)}"
        )
    if len(parts) == 1:
        return parts[0], None, logged
    try:
        count = float(parts[1])
    except (TypeError, ValueError):
        count = math.nan
    if not 0 <= count < math.inf:
        raise ValueError(f"Trainer.fit: loss must return a count of at least 0; got {shown(parts[1])}")
    return parts[0], count, logged


def check_finite(trainer: Any, total: float, value: Any) -> None:
    """Raise a FloatingPointError unless the sum of the losses is a number."""
    if not math.isfinite(total):
        raise FloatingPointError(
            f"Trainer.fit: the loss must be finite because no step can be made from it; "
            f"got {float(value)} in update {len(trainer.history) + 1}"
        )


def check_gradients(trainer: Any, team: OneProcess) -> None:
    """Raise a FloatingPointError unless all gradients are numbers."""
    parameters = list(trainer.optimizer.params)
    for name, parameter in trainer.model.named_parameters():
        if (
            any(parameter is p for p in parameters)
            and parameter.grad is not None
            and not np.isfinite(np.asarray(parameter.grad)).all()
        ):
            raise team.agreed(
                FloatingPointError(
                    f"Trainer.fit: gradients must be finite because no step can be made from them; got NaN or "
                    f"infinity for {name} in update {len(trainer.history) + 1}"
                )
            )
