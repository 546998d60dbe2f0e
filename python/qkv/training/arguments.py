"""What a training checks of its arguments."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from .._words.errors import count_of, shown
from .one_process import OneProcess


def check_parts(model: Any, optimizer: Any, schedule: Any) -> None:
    """Refuse an optimizer of another model and a schedule of another optimizer."""
    if not hasattr(optimizer, "param_groups") or isinstance(optimizer, type):
        raise TypeError(f"Trainer: optimizer must be one of qkv.optim; got {shown(optimizer)}")
    if not hasattr(model, "named_parameters") or isinstance(model, type):
        raise TypeError(f"Trainer: model must be a module; got {shown(model)}")
    if schedule is not None and getattr(schedule, "optimizer", None) is not optimizer:
        raise ValueError(
            "Trainer: schedule must be of the given optimizer because it sets its learning rate; "
            f"got {shown(schedule)}"
        )
    own, given = list(model.parameters()), list(optimizer.params)  # objects that live until they are compared
    strange = len({id(parameter) for parameter in given} - {id(parameter) for parameter in own})
    if strange:
        raise ValueError(
            f"Trainer: optimizer must be over parameters of the model because those are trained; got {strange} of "
            f"{len(given)} that are none of {type(model).__name__}'s"
        )


def team_of(
    comm: Any,
    split: Callable[[Any, int, int], Any] | None,
    sharded: bool,
    zero: bool,
    reduce_dtype: str | None,
) -> OneProcess:
    """Return what trains: this process, or the ranks of a communicator."""
    if reduce_dtype not in (None, "bfloat16"):
        raise ValueError(f"Trainer: reduce_dtype must be None or bfloat16; got {shown(reduce_dtype)}")
    if split is not None and sharded:
        raise ValueError("Trainer: split must not be given with sharded because nothing is shared; got both")
    if comm is None:
        if split is not None:
            raise ValueError(
                "Trainer: split must not be given without comm because there is nothing to share; got it"
            )
        return OneProcess()
    from .data_parallel import DataParallel

    return DataParallel(comm, split, sharded, zero, reduce_dtype)


def check_place(checkpoint: str | os.PathLike[str]) -> None:
    """Refuse a path that no checkpoint can be written to when the time has come."""
    path = Path(checkpoint)
    if path.is_dir():
        raise ValueError(f"Trainer: checkpoint must be a file to be written; got the folder {checkpoint}")
    folder = Path(os.path.realpath(path)).parent
    if not folder.exists():
        raise FileNotFoundError(f"Trainer: the folder of checkpoint must exist; there is no {folder}")
    if not folder.is_dir():
        raise NotADirectoryError(f"Trainer: checkpoint must be in a folder; got the file {folder}")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(f"Trainer: the folder of checkpoint must be writable; got {folder}")


def check_functions(loss: Any, evaluate: Any, stop_when: Any, evaluate_every: Any) -> None:
    """Refuse what cannot be called, and what acts after evaluations where there are none."""
    for name, function in (("loss", loss), ("evaluate", evaluate), ("stop_when", stop_when)):
        if not callable(function) and (function is not None or name == "loss"):
            raise TypeError(f"Trainer: {name} must be a function; got {shown(function)}")
    for name, value in (("evaluate_every", evaluate_every), ("stop_when", stop_when)):
        if evaluate is None and value is not None:
            raise ValueError(
                f"Trainer: {name} must be given with evaluate because it follows its calls; got it alone"
            )


def check_count(name: str, value: int | None) -> None:
    """Refuse anything but a count."""
    if value is not None:
        count_of("Trainer", name, value, 1)


def check_norm(max_grad_norm: Any) -> None:
    """Refuse a norm to which nothing can be clipped."""
    if max_grad_norm is None:
        return
    if not isinstance(max_grad_norm, (int, float, np.number)):
        raise TypeError(f"Trainer: max_grad_norm must be a number; got {shown(max_grad_norm)}")
    if not max_grad_norm > 0:
        raise ValueError(
            f"Trainer: max_grad_norm must be positive because gradients of norm 0 train nothing; got {max_grad_norm}"
        )
