"""Everything that decides how a training goes on, as arrays and facts for a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..random import get_rng_state, set_rng_state
from .checkpoint import CheckpointError

Arrays = dict[str, NDArray[Any]]


def collect(model: Any, optimizer: Any, schedule: Any) -> tuple[Arrays, dict[str, Any]]:
    """Give the state of model, optimizer, schedule and common random generator."""
    arrays: Arrays = {f"model.{name}": np.asarray(value) for name, value in model.state_dict().items()}
    arrays["random"] = get_rng_state()
    state = optimizer.state_dict()
    scalars: dict[str, dict[str, Any]] = {}
    for index, entries in state["state"].items():
        scalars[str(index)] = {}
        for name, value in entries.items():
            if isinstance(value, (bool, int, float)) or value is None:
                scalars[str(index)][name] = value
            else:
                arrays[f"optimizer.{index}.{name}"] = np.asarray(value)
    facts = {
        "optimizer": {"scalars": scalars, "param_groups": state["param_groups"]},
        "schedule": None if schedule is None else schedule.state_dict(),
    }
    return arrays, facts


def apply(
    arrays: Mapping[str, Any], facts: Mapping[str, Any], model: Any, optimizer: Any, schedule: Any
) -> None:
    """Put a state that :func:`collect` gave back where it was."""
    state: dict[int, dict[str, Any]] = {
        int(index): dict(scalars) for index, scalars in facts["optimizer"]["scalars"].items()
    }
    for name, table in arrays.items():
        kind, _, rest = name.partition(".")
        if kind == "optimizer":
            index, _, entry = rest.partition(".")
            state[int(index)][entry] = table
    groups = [
        {k: tuple(v) if isinstance(v, list) and k != "params" else v for k, v in group.items()}
        for group in facts["optimizer"]["param_groups"]
    ]
    try:
        model.load_state_dict({n[len("model.") :]: t for n, t in arrays.items() if n.startswith("model.")})
        optimizer.load_state_dict({"state": state, "param_groups": groups})
    except (ValueError, TypeError, KeyError) as error:
        raise CheckpointError(
            f"Trainer.fit: the checkpoint must come from the same model and optimizer; got one for which "
            f"{' '.join(str(error).split())}"
        ) from error
    if schedule is not None:
        schedule.load_state_dict(facts["schedule"])
    set_rng_state(arrays["random"])
