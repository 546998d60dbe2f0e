"""What happened during a training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._words.errors import counted, shown

COLUMNS = ("loss", "lr", "grad_norm", "count")
LOGGED = "logged."  # before the names of what the loss gave in a dict


class History:
    """Numbers per update and per evaluation; :func:`qkv.plot.training_curve` draws them.

    Attributes
    ----------
    loss : list of float
        Mean loss of each update, over all tokens of its batches.
    lr : list of float
        Learning rate of each update; with several groups of parameters that of the first.
    grad_norm : list of float
        Norm of all gradients before clipping; NaN where it was not asked for.
    count : list of float
        What the loss of each update was divided by, such as the number of tokens.
    epoch_ends : list of int
        Number of updates that were done at the end of each epoch.
    evaluations : list of dict
        ``{"step": ..., "epoch": ..., **metrics}``, one for each evaluation.
    logged : dict
        By name the updates and values of the numbers that the loss gave in a dict.
    seconds : float
        Time in the loop, over all resumed parts.

    Examples
    --------
    >>> history = qkv.training.History()
    >>> history.add(loss=2.0, lr=0.1, grad_norm=1.0, count=3)
    >>> history.add(loss=1.0, lr=0.1, grad_norm=0.5, count=1)
    >>> history.epoch_ends.append(2)
    >>> history, history.epoch_losses()
    (History(2 updates, 1 epoch, loss 2.0000 -> 1.0000), [1.75])
    """

    def __init__(self) -> None:
        self.loss: list[float] = []
        self.lr: list[float] = []
        self.grad_norm: list[float] = []
        self.count: list[float] = []
        self.epoch_ends: list[int] = []
        self.evaluations: list[dict[str, Any]] = []
        self.logged: dict[str, tuple[list[int], list[float]]] = {}
        self.seconds = 0.0

    def add(
        self,
        *,
        loss: float,
        lr: float,
        grad_norm: float,
        count: float,
        logged: Mapping[str, float] | None = None,
    ) -> None:
        """Append one update."""
        for column, value in zip(COLUMNS, (loss, lr, grad_norm, count), strict=True):
            getattr(self, column).append(float(value))
        for name, value in (logged or {}).items():
            steps, values = self.logged.setdefault(name, ([], []))
            steps.append(len(self))
            values.append(float(value))

    def __len__(self) -> int:
        """Return the number of updates."""
        return len(self.loss)

    def epoch_losses(self) -> list[float]:
        """Return the mean loss of each whole epoch, over its tokens."""
        loss, count = np.array(self.loss), np.array(self.count)
        starts = [0, *self.epoch_ends][:-1]
        spans = [slice(a, b) for a, b in zip(starts, self.epoch_ends, strict=True)]
        return [float((loss[s] * count[s]).sum() / max(count[s].sum(), 1.0)) for s in spans]

    def metric(self, name: str) -> tuple[list[int], list[float]]:
        """Return the updates at which a metric was measured or logged, and its values; evaluations come first.

        Before the first of them there are none; later a name that was never there is a ValueError.
        """
        found = [(e["step"], e[name]) for e in self.evaluations if name in e]
        if not found and name in self.logged:
            steps, values = self.logged[name]
            return [*steps], [*values]
        if not found and (known := self.metrics()):
            raise ValueError(f"History.metric: name must be one of {', '.join(known)}; got {shown(name)}")
        return [step for step, _ in found], [value for _, value in found]

    def metrics(self) -> list[str]:
        """Return the names of all metrics that are numbers, in order of appearance."""
        names: dict[str, None] = {}
        for evaluation in self.evaluations:
            names.update(dict.fromkeys(k for k, v in evaluation.items() if isinstance(v, (int, float))))
        names.update(dict.fromkeys(self.logged))
        return [name for name in names if name not in ("step", "epoch")]

    def arrays(self) -> dict[str, NDArray[np.float64]]:
        """Return the numbers per update, each as an array (updates,); what was logged as (2, n) with its updates."""
        tables = {name: getattr(self, name) for name in COLUMNS}
        tables.update({LOGGED + name: pair for name, pair in self.logged.items()})
        return {name: np.array(table, np.float64) for name, table in tables.items()}

    def facts(self) -> dict[str, Any]:
        """Return everything else, as JSON can hold it."""
        return {
            "epoch_ends": self.epoch_ends,
            "evaluations": self.evaluations,
            "seconds": self.seconds,
        }

    @classmethod
    def restore(cls, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> History:
        """Make a history out of what :meth:`arrays` and :meth:`facts` gave."""
        history = cls()
        for name in COLUMNS:
            setattr(history, name, arrays[name].tolist())
        for name in (name for name in arrays if name.startswith(LOGGED)):
            steps, values = arrays[name].tolist()
            history.logged[name.removeprefix(LOGGED)] = ([int(step) for step in steps], values)
        history.epoch_ends = [int(end) for end in facts["epoch_ends"]]
        history.evaluations = [dict(evaluation) for evaluation in facts["evaluations"]]
        history.seconds = float(facts["seconds"])
        return history

    def __repr__(self) -> str:
        n, epochs = len(self), len(self.epoch_ends)
        parts = [counted(n, "update"), counted(epochs, "epoch")]
        if n:
            parts.append(f"loss {self.loss[0]:.4f} -> {self.loss[-1]:.4f}")
        return f"History({', '.join(parts)})"
