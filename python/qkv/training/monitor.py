"""The metric that a training is judged by: its best value, how long ago that was, and the model at that time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._words.errors import shown
from .checkpoint import CheckpointError

BEST = "best."  # before the names of the best parameters in a checkpoint


class Monitor:
    """Takes one metric of each evaluation; without a name the only one."""

    def __init__(self, name: str | None, mode: str, patience: int | None, keeps_best: bool) -> None:
        if mode not in ("min", "max"):
            raise ValueError(f"Trainer: mode must be min or max; got {shown(mode)}")
        self.name, self.mode, self.patience, self.keeps_best = name, mode, patience, keeps_best
        self.restart()

    def restart(self) -> None:
        """Forget what was observed."""
        self.best: float | None = None
        self.bad = 0  # evaluations since the best one
        self._state: dict[str, NDArray[Any]] | None = None

    def observe(self, metrics: Mapping[str, Any], model: Any) -> float:
        """Take the metrics of an evaluation; give the one that is watched. NaN is never the best."""
        value = self._value(metrics)
        last = np.inf if self.best is None else self.best if self.mode == "min" else -self.best
        if (value if self.mode == "min" else -value) < last:
            self.best, self.bad = value, 0
            if self.keeps_best:
                self._state = {name: np.array(entry) for name, entry in model.state_dict().items()}
        else:
            self.bad += 1
        return value

    @property
    def exhausted(self) -> bool:
        """Whether the patience is at its end."""
        return self.patience is not None and self.bad >= self.patience

    def put_back(self, model: Any) -> None:
        """Set the model to its best parameters, if they are kept."""
        if self._state is not None:
            model.load_state_dict(self._state)

    def facts(self) -> dict[str, Any]:
        """Return what :meth:`restore` needs."""
        return {"metric": [self.name, self.mode], "best": self.best, "bad": self.bad}

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the best parameters."""
        return {BEST + name: entry for name, entry in (self._state or {}).items()}

    def restore(self, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any] | None) -> None:
        """Continue from a run's state; that of another metric, or without parameters, is left out."""
        if facts is None:
            return
        if facts["metric"] != [self.name, self.mode]:
            raise CheckpointError(
                f"Trainer.fit: the checkpoint must come from a run with the same monitor and mode, "
                f"{self.name} and {self.mode}; got {facts['metric']}"
            )
        state = {name.removeprefix(BEST): entry for name, entry in arrays.items() if name.startswith(BEST)}
        if state or not self.keeps_best or facts["best"] is None:  # NaN alone is no best
            self.best, self.bad, self._state = facts["best"], facts["bad"], state or None

    def _value(self, metrics: Mapping[str, Any]) -> float:
        known = [
            name
            for name, value in metrics.items()
            if isinstance(value, (int, float)) and name not in ("step", "epoch")
        ]
        if self.name is None and len(known) != 1:
            raise ValueError(f"Trainer.fit: monitor must name one of the metrics {known}; got None")
        name = known[0] if self.name is None else self.name
        if name not in known:
            raise ValueError(f"Trainer.fit: monitor must be one of the metrics {known}; got {shown(name)}")
        return float(metrics[name])
