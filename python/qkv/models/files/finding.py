"""Where a file keeps the tensors of a model: the prefix of the body, and names that other programs give."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..architectures.configuration import Configuration
from ..architectures.table import Architecture, Names


class Renamed:
    """The tensors of a file under other names, new to old."""

    def __init__(self, weights: Any, names: Mapping[str, str]) -> None:
        self.path: Path = weights.path
        self.told: str = weights.told
        self._weights, self._names = weights, names
        self.shapes: dict[str, tuple[int, ...]] = {new: weights.shapes[old] for new, old in names.items()}

    def shown(self, name: str) -> str:
        """Return the file's own name of a tensor."""
        shown: str = self._weights.shown(self._names.get(name, name))
        return shown

    def read(self, names: Mapping[str, str]) -> Iterator[tuple[str, np.ndarray]]:
        """Read the tensors under `names` (the model's name to the file's), one at a time."""
        found: Iterator[tuple[str, np.ndarray]] = self._weights.read(
            {own: self._names[name] for own, name in names.items()}
        )
        return found


def found_names(
    architecture: Architecture, names: Names, head: str | None, config: Configuration, weights: Any
) -> tuple[Any, str]:
    """Return the tensors under the names of the table, and the prefix of the body.

    A prefix before all names goes; a table of words that scores them, too, may have its name there alone.
    """
    prefix, own = body_prefix(architecture, names, weights), architecture.prefix
    if own and prefix.endswith(f".{own}"):
        outer = prefix.removesuffix(own)
        every = {name.removeprefix(outer): name for name in weights.shapes}
        weights, prefix = Renamed(weights, every), own
    words = f"{prefix}.{_wanted(*next(iter(names.items())))}".lstrip(".")
    table = architecture.heads.get(head or "")
    if words in weights.shapes or table is None or not table.options(config).get("tied"):
        return weights, prefix
    front = f"{prefix}." if prefix else ""
    twins = [f"{table.names['head.output']}.weight"]
    twins += [f"{front}{side}.embed_tokens.weight" for side in ("encoder", "decoder")]
    for twin in twins:
        if twin in weights.shapes:
            return Renamed(
                weights, {words if name == twin else name: name for name in weights.shapes}
            ), prefix
    return weights, prefix


def _wanted(own: str, found: Any) -> str:
    name = found if isinstance(found, str) else found.name
    return name if name.endswith((".weight", ".bias")) else f"{name}.weight"


def body_prefix(architecture: Architecture, names: Names, weights: Any) -> str:
    """Find what is before the body's names in a file, by the first one that is there."""
    body = [
        _wanted(own, found).replace("{}", "0") for own, found in names.items() if not own.startswith("head.")
    ]
    in_order = sorted(weights.shapes, key=len)
    for wanted in body:
        for name in in_order:
            if name == wanted or name.endswith("." + wanted):
                return str(name[: -len(wanted)].rstrip("."))
    raise ValueError(
        f"{weights.path}: must hold the tensors of {architecture.model_type}; missing: {weights.shown(body[0])}, "
        f"among {len(weights.shapes)} such as {', '.join(map(weights.shown, sorted(weights.shapes)[:2]))}"
    )
