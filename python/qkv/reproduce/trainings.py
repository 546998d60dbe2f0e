"""Trainings of minutes: their results are stored and shown, and made again by ``qkv reproduce --full``."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from .._public import explained
from ..training import History, Trainer, load_arrays, save_arrays

STORED = Path(__file__).parent / "data" / "trainings"
VARIABLE = "QKV_REPRODUCE_FULL"  # the folder for new results; nothing is trained again without it


@explained
def trained(name: str, trainer: Trainer, batches: Any, **ends: Any) -> History:
    """Set the parameters of a trainer's model to those that its training ended with, and return the history.

    By default both are read from the results that the package stores (parameters in half precision). Under
    ``qkv reproduce --full`` it calls ``trainer.fit(batches, **ends)`` and keeps the results in the output folder.

    Parameters
    ----------
    name : str
        Of the training: letters, digits and underscores.
    trainer : qkv.training.Trainer
        Its model has the sizes of the stored one.
    batches, **ends
        As in :meth:`qkv.training.Trainer.fit`.

    Returns
    -------
    qkv.training.History

    Raises
    ------
    FileNotFoundError
        If there are no results of that name.
    CheckpointError, ValueError
        If the stored file is damaged, or of another model.
    """
    new = os.environ.get(VARIABLE)
    if new:
        history = trainer.fit(batches, progress=False, **ends)
        save(Path(new) / f"{name}.npz", trainer.model, history)
        print(f"{name}: {len(history)} updates in {history.seconds:.0f} s")
    else:
        history = load(STORED / f"{name}.npz", trainer.model)
        trainer.history = history
        print(f"{name}: stored results of {len(history)} updates, which took {history.seconds:.0f} s")
    trainer.model.eval()
    return history


@explained
def kept_tokens(name: str, tokens: Iterable[str]) -> list[str]:
    """Return the tokens that a stored model has numbers for.

    Texts out of the standard library and of Babel differ between versions, a stored model does not: by default these
    are the tokens that it was trained with. Under ``qkv reproduce --full`` they are the given ones, which are kept.

    Parameters
    ----------
    name : str
        Of the training.
    tokens : iterable of str
        Of today's text, in the order of their numbers.

    Returns
    -------
    list of str

    Raises
    ------
    FileNotFoundError
        If there is no training of that name.
    """
    new = os.environ.get(VARIABLE)
    if not new:
        stored: list[str] = json.loads((STORED / f"{name}.json").read_text(encoding="utf-8"))
        return stored
    found = list(tokens)
    Path(new).mkdir(parents=True, exist_ok=True)
    (Path(new) / f"{name}.json").write_text(json.dumps(found, ensure_ascii=False), encoding="utf-8")
    return found


def save(path: Path, model: Any, history: History) -> None:
    """Write a model's parameters, in half precision, and its history."""
    arrays = {f"model.{key}": np.asarray(value) for key, value in model.state_dict().items()}
    halves = {k: v.astype(np.float16) if v.dtype == np.float32 else v for k, v in arrays.items()}
    numbers = {f"history.{key}": value.astype(np.float32) for key, value in history.arrays().items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    save_arrays(path, {**halves, **numbers}, {"history": history.facts()})


def load(path: Path, model: Any) -> History:
    """Read what :func:`save` wrote into a model of the same sizes."""
    arrays, facts = load_arrays(path)
    model.load_state_dict({k[len("model.") :]: v for k, v in arrays.items() if k.startswith("model.")})
    numbers = {k[len("history.") :]: v for k, v in arrays.items() if k.startswith("history.")}
    return History.restore(numbers, facts["history"])


@contextmanager
def anew(folder: Path) -> Iterator[None]:
    """Let the notebooks that run in this block train, and put the results into a folder."""
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = str(folder)
    try:
        yield
    finally:
        if before is None:
            del os.environ[VARIABLE]
        else:
            os.environ[VARIABLE] = before
