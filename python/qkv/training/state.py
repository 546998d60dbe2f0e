"""Everything that decides how a training continues, as arrays and facts for a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..random import get_rng_state, set_rng_state
from .checkpoint import CheckpointError

Arrays = dict[str, NDArray[Any]]


def collect(
    model: Any, optimizer: Any, state: Mapping[str, Any], schedule: Any
) -> tuple[Arrays, dict[str, Any]]:
    """Return the state of model, optimizer (which gave `state`), schedule and common random generator."""
    arrays: Arrays = {f"model.{name}": np.asarray(value) for name, value in model.state_dict().items()}
    arrays["random"] = get_rng_state()
    scalars: dict[str, dict[str, Any]] = {}
    for index, entries in state["state"].items():
        scalars[str(index)] = {}
        for name, value in entries.items():
            if isinstance(value, (bool, int, float)) or value is None:
                scalars[str(index)][name] = value
            else:
                arrays[f"optimizer.{index}.{name}"] = np.asarray(value)
    facts = {
        "optimizer": {
            "scalars": scalars,
            "param_groups": state["param_groups"],
            "names": _names(model, optimizer),
        },
        "schedule": None if schedule is None else schedule.state_dict(),
    }
    return arrays, facts


def _names(model: Any, optimizer: Any) -> list[list[str | None]]:
    """Return the name in the model of each parameter of each group, None for a parameter that is not the model's."""
    named = list(model.named_parameters())
    name_of = {id(parameter): name for name, parameter in named}
    return [[name_of.get(id(p)) for p in group["params"]] for group in optimizer.param_groups]


def _reorder(
    groups: list[dict[str, Any]], saved: Any, in_file: list[str], model: Any, optimizer: Any
) -> None:
    """Put the numbers of saved parameters in the order of the optimizer's, which may list them otherwise by now."""
    order = [name for name, _ in model.named_parameters()]
    for i, (group, names) in enumerate(zip(groups, _names(model, optimizer), strict=False)):
        if saved is not None:
            before = saved[i]
        elif names == [name for name in order if name in names]:
            # Older files do not say; they list the state in the order that parameters had then.
            before = [name for name in (n.removeprefix("model.") for n in in_file) if name in names]
        else:
            continue
        if sorted(map(str, before)) == sorted(map(str, names)) and None not in names:
            number = dict(zip(before, group["params"], strict=False))
            group["params"] = [number[name] for name in names]
            group.pop("param_names", None)


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
    _reorder(groups, facts["optimizer"].get("names"), list(arrays), model, optimizer)
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
