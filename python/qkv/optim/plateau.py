"""A learning rate that falls where a metric no longer gets better."""

from __future__ import annotations

import math
from typing import Any

from .._words.errors import shown
from .schedules import Schedule


def is_better(rule: Any, value: float, best: float) -> bool:
    """Say whether a metric is better than the best by more than the rule's threshold."""
    sign = 1.0 if rule.mode == "min" else -1.0
    step = sign * rule.threshold
    target = best * (1 - step) if rule.threshold_mode == "rel" else best - step
    return bool(sign * value < sign * target)


def counts_after(rule: Any, better: bool, bad: int, cooling: int) -> tuple[int, int, bool]:
    """Return the metrics without a new best, those that will not count, and whether the rate falls now."""
    bad = 0 if better or cooling > 0 else bad + 1
    if bad > rule.patience:
        return 0, rule.cooldown, True
    return bad, max(cooling - 1, 0), False


def lowered(rule: Any, rate: float, least: float) -> float:
    """Return the next lower rate, or the same if they hardly differ."""
    lower: float = max(rate * rule.factor, least)
    return lower if rate - lower > rule.eps else rate


class ReduceLROnPlateau(Schedule):
    """Multiply the learning rate by ``factor`` after more than ``patience`` metrics in a row without a new best.

    PyTorch's rule. :class:`qkv.training.Trainer` calls ``step(metric)`` with its ``monitor`` after each evaluation.

    Parameters
    ----------
    optimizer : SGD, Adam or AdamW
        Its ``lr`` is the first rate.
    mode : {"min", "max"}
        Whether the least or the largest metric is the best.
    factor : float
        Between 0 and 1.
    patience : int
        Number of metrics without a new best that change nothing.
    threshold : float
        How much better a new best must be: a share of the best if ``threshold_mode`` is "rel", else a difference.
    threshold_mode : {"rel", "abs"}
    cooldown : int
        Number of metrics after a reduction that do not count.
    min_lr : float
        The rate does not fall below this.
    eps : float
        Smaller reductions are left out.

    Raises
    ------
    ValueError
        If an argument is out of its range.

    Examples
    --------
    >>> optimizer = qkv.optim.SGD([qkv.tensor([1.0], requires_grad=True)], lr=1.0)
    >>> schedule = qkv.optim.ReduceLROnPlateau(optimizer, factor=0.5, patience=1)
    >>> for metric in (3.0, 2.0, 2.5, 2.0):
    ...     schedule.step(metric)
    >>> optimizer.lr
    0.5
    """

    def __init__(
        self,
        optimizer: Any,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: float = 0.0,
        eps: float = 1e-8,
    ) -> None:
        numbers = {"factor": factor, "patience": patience, "threshold": threshold}
        for name, value in {**numbers, "cooldown": cooldown, "min_lr": min_lr, "eps": eps}.items():
            self._check(name, value, 0)
        if not factor < 1:
            raise ValueError(f"ReduceLROnPlateau: factor must be below 1 because rates fall; got {factor}")
        for name, text, words in (
            ("mode", mode, ("min", "max")),
            ("threshold_mode", threshold_mode, ("rel", "abs")),
        ):
            if text not in words:
                raise ValueError(f"ReduceLROnPlateau: {name} must be {' or '.join(words)}; got {shown(text)}")
        self.mode, self.factor, self.patience, self.threshold = mode, factor, patience, threshold
        self.threshold_mode, self.cooldown, self.min_lr, self.eps = threshold_mode, cooldown, min_lr, eps
        self.rate: float | None = None
        self.best = math.inf if mode == "min" else -math.inf
        self.bad = self.cooling = 0
        super().__init__(optimizer)

    def lr_at(self, n: int) -> float:
        """Learning rate now; those of other updates depend on the metrics."""
        return self.base_lr if self.rate is None else self.rate

    def step(self, metric: Any) -> None:  # type: ignore[override]
        """Take the next metric into account."""
        value = float(metric)
        better = is_better(self, value, self.best)
        if better:
            self.best = value
        self.bad, self.cooling, falls = counts_after(self, better, self.bad, self.cooling)
        rate = self.lr_at(self.count)
        if falls and (lower := lowered(self, rate, self.min_lr)) != rate:
            self.rate = lower
        super().step()
