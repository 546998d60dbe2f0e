"""Models of any architecture from a folder and into one, by its table."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .architecture import Architecture, Names, Piece, stored
from .configuration import Configuration
from .files import Weights, check_shape, listed, read_json

BUFFERS = re.compile(
    r"(position_ids|token_type_ids|inv_freq|masked_bias|attn\.bias|attention\.bias|embed_tokens\.weight)$"
)


class Stored:
    """Where the parameters of a model are in a file: under which names, of which shapes."""

    def __init__(
        self, architecture: Architecture, names: Names, bare: bool, shapes: Mapping[str, tuple[int, ...]]
    ) -> None:
        self.architecture, self.bare, self.shapes = architecture, bare, dict(shapes)
        self.places: dict[str, list[tuple[str, Piece]]] = {}  # of the file's name: the model's, in order
        self.layers: set[str] = set()  # what stands before the numbers of layers
        for own in shapes:
            piece, theirs = stored(own.removeprefix("body."), names)
            self.places.setdefault(theirs, []).append((own, piece))
            if "{}" in piece.name:
                self.layers.add(piece.name.partition("{}")[0])
        for parts in self.places.values():
            parts.sort(key=lambda part: part[1].number)

    def full(self, theirs: str, prefix: str) -> str:
        """Give the name with the prefix of the body, which heads do not have."""
        own = self.places[theirs][0][0]
        return theirs if own.startswith("head.") or not prefix else f"{prefix}.{theirs}"

    def held(self, theirs: str) -> tuple[int, ...]:
        """Give the shape that the file must have."""
        own, piece = self.places[theirs][0]
        return piece.held(self.shapes[own])


def body_prefix(architecture: Architecture, names: Names, weights: Weights) -> str:
    """Find what stands before the body's names in a file, by the first one's."""
    own, found = next(iter(names.items()))
    wanted = (found if isinstance(found, str) else found.name) + (
        ".weight" if own.endswith("embedding") else ""
    )
    for name in sorted(weights.shapes, key=len):
        if name == wanted or name.endswith("." + wanted):
            return name[: -len(wanted)].rstrip(".")
    raise ValueError(
        f"{weights.path}: must hold the tensors of {architecture.model_type}; missing: {wanted}, "
        f"among {len(weights.shapes)} such as {', '.join(sorted(weights.shapes)[:2])}"
    )


def check_layers(weights: Weights, names: Names, prefix: str, counts: Mapping[str, int]) -> None:
    """Compare the numbers of layers with the file before so many are made."""
    for own, found in names.items():
        name = found if isinstance(found, str) else found.name
        body = own.partition("layers.{}")[0].rstrip(".") or "body"
        if "{}" not in name or body not in counts:
            continue
        start = f"{prefix}.{name}".lstrip(".").partition("{}")[0]
        numbers = {
            int(m[1]) for m in (re.match(re.escape(start) + r"(\d{1,9})\.", n) for n in weights.shapes) if m
        }
        if numbers != set(range(counts[body])):
            raise ValueError(
                f"{weights.path}: must hold {counts[body]} layers {start}N as config.json says; got {len(numbers)}"
            )


def check_embeddings(weights: Weights, names: Names, prefix: str, bodies: Mapping[str, Any]) -> None:
    """Compare words and width with the file before a table of these sizes is made."""
    for body, options in bodies.items():
        own = "embedding" if body == "body" else f"{body}.embedding"
        if not isinstance(options, dict) or own not in names:
            continue
        name = f"{prefix}.{names[own]}.weight".lstrip(".")
        expected = (options["vocab_size"], options.get("embedding_size", options["d_model"]))
        if name in weights.shapes:
            check_shape(weights.path, name, weights.shapes[name], expected)


def read_parameters(
    stored: Stored, weights: Weights, prefix: str, heads: int
) -> Iterator[dict[str, np.ndarray]]:
    """Read all parameters of a model, a tensor of the file at a time, after a look at all names and shapes."""
    wanted, missing = {}, []
    for theirs, parts in stored.places.items():
        name = stored.full(theirs, prefix)
        if name not in weights.shapes:
            old = name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
                "LayerNorm.bias", "LayerNorm.beta"
            )
            name = old if old in weights.shapes else name
        if name in weights.shapes:
            wanted[theirs] = name
            check_shape(weights.path, name, weights.shapes[name], stored.held(theirs))
        elif not parts[0][1].optional:
            missing.append(name)
    if missing:
        raise ValueError(
            f"{weights.path}: must hold the tensors of {stored.architecture.model_type}; missing: {listed(missing)}"
        )
    front = re.escape(prefix + ".") if prefix else ""
    inside = re.compile(front + "(" + "|".join(map(re.escape, sorted(stored.layers))) + r")\d+\.")
    left = sorted(
        n for n in set(weights.shapes) - set(wanted.values()) if inside.match(n) and not BUFFERS.search(n)
    )
    if left:
        raise ValueError(
            f"{weights.path}: must hold layers of {stored.architecture.model_type} with the options of config.json; "
            f"got {listed(left)} beside them"
        )
    for theirs, array in weights.read(wanted):
        yield {own: piece.take(array, stored.shapes[own], heads) for own, piece in stored.places[theirs]}
    for theirs in stored.places.keys() - wanted.keys():
        yield {own: np.zeros(stored.shapes[own], np.float32) for own, _ in stored.places[theirs]}


def joined(
    stored: Stored, config: Configuration, parameters: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Give the arrays of a file by their names there."""
    heads, prefix = config.num_attention_heads, "" if stored.bare else stored.architecture.prefix
    arrays = {
        stored.full(theirs, prefix): parts[0][1].join([parameters[own] for own, _ in parts], heads)
        for theirs, parts in stored.places.items()
    }
    if stored.bare and stored.architecture.buffers is not None:
        arrays |= stored.architecture.buffers(config)
    return arrays


def read_generation(folder: Path) -> dict[str, Any] | None:
    """Read generation_config.json, which old folders lack."""
    path = folder / "generation_config.json"
    found: dict[str, Any] | None = read_json(path) if path.is_file() else None
    return found
