"""Models of every supported type from a folder, a GGUF file or a configuration."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .architecture import MODEL_TYPES, Architecture, HeadTable, Names, architecture_of
from .bert import (
    BertForMaskedLM,
    BertForPreTraining,
    BertForSequenceClassification,
    BertForTokenClassification,
    BertModel,
)
from .bert_files import BertPretrained
from .changes import check_changes, check_spelling, known_entries
from .config import BertConfig
from .configuration import Configuration
from .files import Weights, checked_folder, read_json
from .generation_rules import ENTRIES
from .gguf_files import read_gguf
from .image_model import ImageModel
from .language_models import CausalModel, EncoderDecoderModel
from .loading import body_prefix, check_embeddings, check_layers, read_generation, read_parameters
from .transformer_models import EncoderModel, TransformerModel

KINDS: dict[str, type[TransformerModel]] = {
    "encoder": EncoderModel,
    "causal": CausalModel,
    "encoder-decoder": EncoderDecoderModel,
    "image": ImageModel,
}
# What a file with a head of BERT's holds.
BERT: dict[type[BertPretrained], str] = {
    BertModel: "",
    BertForMaskedLM: r"cls\.predictions\.",
    BertForPreTraining: r"cls\.seq_relationship\.",
    BertForSequenceClassification: r"classifier\.",
    BertForTokenClassification: r"classifier\.",
}


def supported() -> list[str]:
    """Give the model types that :func:`from_pretrained` loads.

    Returns
    -------
    list of str

    Examples
    --------
    >>> "llama" in qkv.models.supported()
    True
    """
    return list(MODEL_TYPES)


def from_config(entries: Mapping[str, Any]) -> Any:
    """Make a model with new parameters from the entries of a configuration, to be trained.

    Parameters
    ----------
    entries : mapping
        As in a Hugging Face config.json: ``model_type``, sizes, and ``architectures`` with the name of a class where
        the model is to have a head.

    Returns
    -------
    model
        In training mode.

    Raises
    ------
    ValueError, TypeError
        If the model type is not supported, an entry does not fit, or its name is that of another but for a slip. Other
        entries, which a file may hold, change nothing.

    Examples
    --------
    >>> entries = {"model_type": "vit", "architectures": ["ViTForImageClassification"], "image_size": 8}
    >>> entries |= {"patch_size": 2, "num_channels": 1, "hidden_size": 24, "num_hidden_layers": 1}
    >>> entries |= {"num_attention_heads": 3, "intermediate_size": 40, "num_labels": 10}
    >>> qkv.models.from_config(entries).eval()(np.zeros((2, 1, 8, 8))).logits.shape
    (2, 10)
    """
    try:
        if entries.get("model_type") == "bert":
            kind: Any = bert_class(entries)
            check_spelling(entries, BertConfig.known)
            return kind(BertConfig.from_dict(entries))
        table = table_for(entries)
        config = table.configuration(entries)
        head = table.head_named(class_named(entries))
        check_spelling(entries, known_entries(table, config, head))
        return KINDS[table.kind](config, head)
    except (ValueError, TypeError) as error:
        raise type(error)(f"from_config: {error}") from None


def from_pretrained(path: str | os.PathLike[str], **changes: Any) -> Any:
    """Load a model of any supported type, as its config.json says.

    Parameters
    ----------
    path : path
        A folder as Hugging Face's libraries write it: ``config.json`` and ``model.safetensors``, or several such files
        with an index; or a ``.gguf`` file (needs the package gguf). Numbers of half width become float32.
    **changes
        Entries of the configuration to be replaced, such as ``num_labels=3`` or ``architectures=["BertModel"]``.

    Returns
    -------
    model
        Of the class that ``architectures`` names; without its head, if the file has none. In evaluation mode; gradients
        are recorded.

    Raises
    ------
    OSError
        If a file is missing.
    TypeError
        If a change is no entry that this type of model is made by.
    ValueError
        If the model type is not supported, the configuration has an option that qkv does not compute, or a file is
        damaged or does not fit. Nothing is computed before.

    See Also
    --------
    supported : The model types.

    Examples
    --------
    >>> model = qkv.models.from_pretrained("SmolLM2-135M")  # doctest: +SKIP
    >>> model([[1, 2, 3]]).shape  # doctest: +SKIP
    (1, 3, 49152)
    """
    place = Path(path)
    if place.suffix == ".gguf" and not place.is_dir():
        entries, weights = read_gguf(place)
        return _loaded(place, entries, changes, lambda: weights, None)
    folder = checked_folder("from_pretrained", path)
    if read_json(folder / "config.json").get("model_type") == "bert":
        return bert_from(folder, changes)
    entries = read_json(folder / "config.json")
    if "num_labels" in changes:
        entries.pop("id2label", None)
        entries.pop("label2id", None)
    return _loaded(folder / "config.json", entries, changes, lambda: Weights(folder), read_generation(folder))


def bert_from(folder: Path, changes: Mapping[str, Any]) -> Any:
    """Load one of BERT's own classes, whose parameters have Hugging Face's names."""
    entries = {**read_json(folder / "config.json"), **changes}
    changes = {key: value for key, value in changes.items() if key != "architectures"}
    try:
        kind: Any = bert_class(entries)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{folder / 'config.json'}: {error}") from None
    names = Weights(folder).shapes
    if not any(re.match(BERT[kind], name) for name in names):
        kind = BertModel
    return kind.from_pretrained(folder, **changes)


def bert_class(entries: Mapping[str, Any]) -> type[BertPretrained]:
    """Give the class of BERT's that a configuration asks for."""
    named = class_named(entries) or "BertModel"
    kinds = {kind.__name__: kind for kind in BERT}
    if named not in kinds:
        raise ValueError(f"architectures must name one of {', '.join(kinds)}; got {named[:100]}")
    return kinds[named]


def table_for(entries: Mapping[str, Any]) -> Architecture:
    """Give the table that a configuration asks for."""
    kind = entries.get("model_type")
    if kind not in MODEL_TYPES:
        raise ValueError(f"model_type must be one of {', '.join(MODEL_TYPES)}; got {str(kind)[:100]!r}")
    return architecture_of(kind)


def class_named(entries: Mapping[str, Any]) -> str | None:
    """Give the class that a configuration names first."""
    named = entries.get("architectures")
    if named is None or named == []:
        return None
    if not isinstance(named, (list, tuple)) or not isinstance(named[0], str):
        raise TypeError(f"architectures must be a list of names; got {str(named)[:100]}")
    return named[0]


def _loaded(
    path: Path,
    entries: dict[str, Any],
    changes: dict[str, Any],
    opened: Callable[[], Any],
    generation: dict[str, Any] | None,
) -> Any:
    entries = {**entries, **changes}
    try:
        table = table_for(entries)
        config = table.configuration(entries)
        head = table.head_named(class_named(entries))
        bodies = table.bodies(config)
        if head is not None and head == table.encoder_only:
            bodies.pop("decoder")
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path}: {error}") from None
    check_changes("from_pretrained", changes, known_entries(table, config, head))
    weights = opened()
    names = table.all_names(config, head)
    prefix = body_prefix(table, names, weights)
    counts = {name: len(options["layers"]) for name, options in bodies.items() if isinstance(options, dict)}
    check_layers(weights, names, prefix, counts)
    check_embeddings(weights, names, prefix, bodies)
    tied = table.kind == "causal" and config.tie_word_embeddings and "tie_word_embeddings" not in changes
    if tied and has_own_scores(names, weights, prefix):
        config = table.configuration({**entries, "tie_word_embeddings": False})
    if head is not None and head in table.heads and not has_head(table.heads[head], config, weights):
        head = None
    try:
        pooler = table.pooler is None or has_head(table.pooler, config, weights, prefix)
        model = KINDS[table.kind](config, head, values=False, pooler=pooler)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path}: {error}") from None
    for part in read_parameters(model._stored(), weights, prefix, config.num_attention_heads):
        model.load_state_dict(part, strict=False)
    if generation is not None:
        generation = {**generation, **{name: value for name, value in changes.items() if name in ENTRIES}}
    model.given_generation = generation
    return model.eval()


def has_own_scores(names: Names, weights: Any, prefix: str) -> bool:
    """Say whether a file scores words by other numbers than the embeddings', which then hold, as in Hugging Face's."""
    words = f"{prefix}.{names['embedding']}".lstrip(".")
    found = {name: f"{name}.weight" for name in (words, str(names.get("head.output")))}
    if not weights.shapes.keys() >= set(found.values()):
        return False
    return not np.array_equal(*(array for _, array in weights.read(found)))


def has_head(head: HeadTable, config: Configuration, weights: Any, prefix: str = "") -> bool:
    """Say whether a file has a head's own parameters. One that is the embeddings' matrix alone has none."""
    options = head.options(config)
    if options.get("tied") and not options.get("inner"):
        return True
    found = [name if isinstance(name, str) else name.name for name in head.names.values()]
    names = [f"{prefix}.{name}".lstrip(".") for name in found]
    return any(key == n or key.startswith(n + ".") for n in names for key in weights.shapes)
