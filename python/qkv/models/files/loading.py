"""Models of any architecture from a folder and into one, by its table."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from ..._core import SkipInit
from ..._words.errors import shown
from ..architectures.configuration import Configuration
from ..architectures.table import Architecture, HeadTable, Names, Piece, stored
from ..generation.settings import ENTRIES
from .changes import check_changes, known_entries
from .finding import found_names
from .folders import Weights, check_shape, listed, read_json

BUFFERS = re.compile(
    r"(position_ids|token_type_ids|inv_freq|masked_bias|attn\.bias|attention\.bias|embed_tokens\.weight)$"
)


class Stored:
    """Where the parameters of a model are in a file: under which names, of which shapes."""

    def __init__(
        self,
        architecture: Architecture,
        names: Names | None,
        head: str | None,
        shapes: Mapping[str, tuple[int, ...]],
    ) -> None:
        self.architecture, self.bare, self.shapes = architecture, head is None, dict(shapes)
        self.prefix = "" if head is None else architecture.prefix_of(head)
        self.top = architecture.heads.get(head or "")
        self.places: dict[str, list[tuple[str, Piece]]] = {}  # of the file's name: the model's, in order
        self.layers: set[str] = set()  # what is before the numbers of layers
        self.head: set[str] = set()  # the file's names of all but the body's
        for own in shapes:
            if names is None:
                front = f"{self.prefix}." if self.prefix else ""
                theirs = own.removeprefix(front)
                piece, above = Piece(re.sub(r"\.\d+\.", ".{}.", theirs, count=1)), not own.startswith(front)
            else:
                (piece, theirs), above = stored(own.removeprefix("body."), names), own.startswith("head.")
            self.places.setdefault(theirs, []).append((own, piece))
            if above:
                self.head.add(theirs)
            elif "{}" in piece.name:
                self.layers.add(piece.name.partition("{}")[0])
        for parts in self.places.values():
            parts.sort(key=lambda part: part[1].number)

    def full(self, theirs: str, prefix: str) -> str:
        """Return the name with the prefix of the body, which heads do not have."""
        return theirs if theirs in self.head or not prefix else f"{prefix}.{theirs}"

    def held(self, theirs: str) -> tuple[int, ...]:
        """Return the shape that the file must have."""
        own, piece = self.places[theirs][0]
        return piece.held(self.shapes[own])


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
                f"{weights.path}: must hold {counts[body]} layers {weights.shown(start)}N as {weights.told} says; "
                f"got {len(numbers)}"
            )


def check_sizes(weights: Weights, names: Names, prefix: str, bodies: Mapping[str, Any]) -> None:
    """Compare tables and the first layer with the file before anything of these sizes is made."""
    for body, options in bodies.items():
        if not isinstance(options, dict):
            continue
        width = options.get("embedding_size", options["d_model"])
        rows = {
            "embedding": "vocab_size",
            "position_embedding": "max_positions",
            "type_embedding": "type_vocab_size",
        }
        shapes: dict[str, Any] = {own: (options.get(size), width) for own, size in rows.items()}
        if options["layers"]:
            inner = options["layers"][0].get("dim_feedforward")
            shapes["layers.{}.linear1"] = (inner, options["d_model"])
        for own, shape in shapes.items():
            found = names.get(own if body == "body" else f"{body}.{own}")
            if found is None or not shape[0]:
                continue
            piece = Piece(found) if isinstance(found, str) else found
            name = f"{prefix}.{piece.name}.weight".lstrip(".").replace("{}", "0")
            if name in weights.shapes:
                check_shape(weights, name, piece.held(shape))


# What files call parameters otherwise.
OLD_NAMES = (
    ("LayerNorm.weight", "LayerNorm.gamma"),
    ("LayerNorm.bias", "LayerNorm.beta"),
    ("cls.predictions.bias", "cls.predictions.decoder.bias"),
)


def find_parameters(stored: Stored, weights: Weights, prefix: str, new_head: bool | None) -> dict[str, str]:
    """Return the file's names of a model's parameters, after a look at all names and shapes.

    Those of a head may be missing if `new_head` is True; None where there is no such choice.
    """
    wanted, missing = {}, []
    for theirs, parts in stored.places.items():
        name = stored.full(theirs, prefix)
        for new, old in OLD_NAMES:
            if name not in weights.shapes and name.replace(new, old) in weights.shapes:
                name = name.replace(new, old)
        if name in weights.shapes:
            wanted[theirs] = name
            check_shape(weights, name, stored.held(theirs))
        elif not parts[0][1].optional:
            missing.append(theirs)
    only_head = bool(missing) and {*missing} <= stored.head
    if missing and not (only_head and new_head):
        names = [weights.shown(stored.full(theirs, prefix)) for theirs in missing]
        if only_head and new_head is False:
            raise ValueError(
                f"{weights.path}: must hold {names[0]}, or new_head=True be given; missing: {listed(names)}"
            )
        raise ValueError(
            f"{weights.path}: must hold the tensors of {stored.architecture.model_type}; missing: {listed(names)}"
        )
    if stored.architecture.beside is not None:
        check_once(weights, wanted.values(), stored.architecture.prefix + ".")
    front = re.escape(prefix + ".") if prefix else ""
    inside = re.compile(front + "(" + "|".join(map(re.escape, sorted(stored.layers))) + r")\d+\.")
    beside = re.compile(stored.architecture.beside or "")
    left = sorted(
        n
        for n in set(weights.shapes) - set(wanted.values())
        if not (BUFFERS.search(n) if inside.match(n) else beside.match(n))
    )
    if left:
        raise ValueError(
            f"{weights.path}: must hold layers of {stored.architecture.model_type} with the options of {weights.told}; "
            f"got {listed([*map(weights.shown, left)])} beside them"
        )
    return wanted


def check_once(weights: Weights, names: Iterable[str], prefix: str) -> None:
    """Refuse a file that has a tensor with the prefix of the body and without it."""
    for name in names:
        twin = name.removeprefix(prefix) if name.startswith(prefix) else prefix + name
        if twin in weights.shapes:
            raise ValueError(f"{weights.path}: must hold each tensor once; got {name} and {twin}")


def read_parameters(
    stored: Stored, weights: Weights, wanted: Mapping[str, str], heads: int
) -> Iterator[dict[str, np.ndarray]]:
    """Read the parameters of a model, a tensor of the file at a time; those that a file may lack are zeros."""
    for theirs, array in weights.read(wanted):
        yield {own: piece.take(array, stored.shapes[own], heads) for own, piece in stored.places[theirs]}
    for theirs in stored.places.keys() - wanted.keys():
        yield {
            own: np.zeros(stored.shapes[own], np.float32)
            for own, piece in stored.places[theirs]
            if piece.optional
        }


def joined(
    stored: Stored, config: Configuration, parameters: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Return the arrays of a file by their names there."""
    heads, prefix = config.num_attention_heads, stored.prefix
    arrays = {
        stored.full(theirs, prefix): parts[0][1].join([parameters[own] for own, _ in parts], heads)
        for theirs, parts in stored.places.items()
    }
    table = stored.architecture
    copies = (
        {}
        if table.copies is None
        else {
            stored.full(name, prefix): stored.full(own, prefix) for name, own in table.copies(config).items()
        }
    )
    if stored.top is not None and not stored.top.options(config).get("tied"):
        copies |= stored.top.copies
    arrays |= {name: arrays[own] for name, own in copies.items() if own in arrays}
    if stored.bare and stored.architecture.buffers is not None:
        arrays |= stored.architecture.buffers(config)
    return arrays


def read_generation(folder: Path) -> dict[str, Any] | None:
    """Read generation_config.json, which old folders lack."""
    path = folder / "generation_config.json"
    found: dict[str, Any] | None = read_json(path) if path.is_file() else None
    return found


def folder_entries(folder: Path, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Read the entries of a folder's config.json, without the labels that a change of their number replaces."""
    entries: dict[str, Any] = read_json(folder / "config.json")
    replaced = ("id2label", "label2id") if "num_labels" in changes else ()
    return {name: value for name, value in entries.items() if name not in replaced}


DTYPES = ("float32", "float64", "bfloat16")


def dtype_named(operation: str, dtype: Any) -> str | None:
    """Return the name of a type of numbers, NumPy's or PyTorch's, that a module can be converted to."""
    if dtype is None:
        return None
    name = dtype if isinstance(dtype, str) else getattr(dtype, "name", getattr(dtype, "__name__", str(dtype)))
    name = name.removeprefix("torch.")
    if name not in DTYPES:
        raise TypeError(
            f"{operation}: dtype must be {', '.join(DTYPES[:-1])} or {DTYPES[-1]}; got {shown(dtype)}"
        )
    return str(name)


def load_model(
    path: Path,
    entries: Mapping[str, Any],
    changes: Mapping[str, Any],
    opened: Callable[[], Any],
    chosen: Callable[[Mapping[str, Any]], tuple[Architecture, str | None]],
    class_of: Callable[[Architecture, str | None], Any],
    *,
    operation: str = "from_pretrained",
    dtype: Any = None,
    new_head: bool | None = None,
    generation: Mapping[str, Any] | None = None,
) -> Any:
    """Make a model as a file's configuration says, with the file's parameters.

    Parameters
    ----------
    path : Path
        Of the configuration, for messages.
    entries, changes : mapping
        Of the configuration; what the caller replaces in them.
    opened : callable
        Opens the file with the weights.
    chosen : callable
        From the entries to the table and the key of its head.
    class_of : callable
        From a table and a head to the class of the model.
    operation : str
        For messages.
    dtype : str or numpy.dtype, optional
        As of ``to``, which each tensor becomes as it is read.
    new_head : bool, optional
        Draw the parameters of a head that the file lacks (True) or refuse (False); None: the model has no head then.
    generation : mapping, optional
        The entries of generation_config.json.
    """
    entries, kind = {**entries, **changes}, dtype_named(operation, dtype)
    try:
        table, head = chosen(entries)
        config = table.configuration(entries)
        bodies = table.made(config, head)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path}: {error}") from None
    check_changes(operation, changes, known_entries(table, config, head))
    weights = opened()
    names = table.all_names(config, head)
    weights, prefix = found_names(table, names, head, config, weights)
    counts = {name: len(options["layers"]) for name, options in bodies.items() if isinstance(options, dict)}
    check_layers(weights, names, prefix, counts)
    check_sizes(weights, names, prefix, bodies)
    top = table.heads.get(head or "")
    untied = top is not None and has_own_scores(top, config, names, weights, prefix)
    if untied and "tie_word_embeddings" not in changes:
        config = table.configuration({**entries, "tie_word_embeddings": False})
    lacking = None
    if new_head is None and top is not None and not has_head(top, config, weights):
        lacking, head = f"{top.names['head.output']}.weight", None
    pooler = table.pooler is None or has_head(table.pooler, config, weights, prefix)
    make = class_of(table, head)._made
    try:
        model = make(config, head, values=False, pooler=pooler)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path}: {error}") from None
    stored = model._stored()
    wanted = find_parameters(stored, weights, prefix, new_head)
    drawn = bool(stored.head - wanted.keys())
    if drawn:
        model = make(config, head, values=True, pooler=pooler)
    if kind is not None:
        with nullcontext() if drawn else SkipInit():
            model.to(kind)
    for part in read_parameters(stored, weights, wanted, config.num_attention_heads):
        model.load_state_dict(part, strict=False)
        if kind == "bfloat16":
            model._round_to_bfloat16(list(part))
    if generation is not None:
        generation = {**generation, **{name: value for name, value in changes.items() if name in ENTRIES}}
    model.given_generation, model.lacking = generation, lacking
    return model.eval()


def has_own_scores(head: HeadTable, config: Configuration, names: Names, weights: Any, prefix: str) -> bool:
    """Return whether a file has other scores of words than the embeddings; they hold then, as in Hugging Face's."""
    if not head.options(config).get("tied"):
        return False
    words = f"{prefix}.{next(iter(names.values()))}".lstrip(".")
    found = {name: f"{name}.weight" for name in (words, str(head.names.get("head.output")))}
    if not weights.shapes.keys() >= set(found.values()):
        return False
    return not np.array_equal(*(array for _, array in weights.read(found)))


def has_head(head: HeadTable, config: Configuration, weights: Any, prefix: str = "") -> bool:
    """Return whether a file has a head's own parameters. One that is the embeddings' matrix alone has none."""
    options = head.options(config)
    if options.get("tied") and not options.get("inner"):
        return True
    found = [name if isinstance(name, str) else name.name for name in head.names_of(config).values()]
    names = [f"{prefix}.{name}".lstrip(".") for name in found]
    return any(key == n or key.startswith(n + ".") for n in names for key in weights.shapes)
