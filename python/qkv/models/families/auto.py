"""Models of every supported type from a folder, a GGUF file or a configuration."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..._public import explained
from ..architectures.table import MODEL_TYPES, Architecture, architecture_of
from ..files.changes import check_spelling, known_entries
from ..files.folders import Weights, checked_folder
from ..files.gguf_weights import read_gguf
from ..files.loading import folder_entries, load_model, read_generation
from .bert_heads import BERT
from .image_model import ImageModel
from .language_models import PretrainedCausalLM, PretrainedEncoderDecoder
from .pretrained import PretrainedEncoder, PretrainedModel

KINDS: dict[str, type[PretrainedModel]] = {
    "encoder": PretrainedEncoder,
    "causal": PretrainedCausalLM,
    "encoder-decoder": PretrainedEncoderDecoder,
    "image": ImageModel,
}


@explained
def supported() -> list[str]:
    """Return the model types that :func:`from_pretrained` loads.

    Returns
    -------
    list of str

    Examples
    --------
    >>> "llama" in qkv.models.supported()
    True
    """
    return list(MODEL_TYPES)


@explained
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
        If the model type is not supported, an entry does not fit, or its name is a misspelling of another. Other
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
        table, head = chosen(entries)
        config = table.configuration(entries)
        check_spelling(entries, known_entries(table, config, head))
        return class_of(table, head)._made(config, head)
    except (ValueError, TypeError) as error:
        raise type(error)(f"from_config: {error}") from None


@explained
def from_pretrained(path: str | os.PathLike[str], *, dtype: Any = None, **changes: Any) -> Any:
    """Load a model of any supported type, as its config.json says.

    Parameters
    ----------
    path : path
        A folder as Hugging Face's libraries write it: ``config.json`` and ``model.safetensors``, or several such files
        with an index; or a ``.gguf`` file (needs the package gguf).
    dtype : str or numpy.dtype, optional
        ``"float32"``, also if it is not given, ``"float64"`` or ``"bfloat16"``: what ``model.to(dtype)`` makes of it, a
        tensor at a time, so that loading takes the memory of the result and of one tensor.
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
        If a change is not an entry of this type of model, or dtype is another.
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
        return load_model(place, entries, changes, lambda: weights, chosen, class_of, dtype=dtype)
    folder = checked_folder("from_pretrained", path)
    entries, where = folder_entries(folder, changes), folder / "config.json"
    generation = read_generation(folder)
    return load_model(
        where, entries, changes, lambda: Weights(folder), chosen, class_of, dtype=dtype, generation=generation
    )


def class_of(table: Architecture, head: str | None) -> type[PretrainedModel]:
    """Return the class of a table's models with this head."""
    return BERT[head] if table.model_type == "bert" else KINDS[table.kind]


def chosen(entries: Mapping[str, Any]) -> tuple[Architecture, str | None]:
    """Return the table that a configuration asks for, and the key of its head."""
    kind = entries.get("model_type")
    if kind not in MODEL_TYPES:
        raise ValueError(f"model_type must be one of {', '.join(MODEL_TYPES)}; got {str(kind)[:100]!r}")
    table = architecture_of(kind)
    return table, table.head_named(class_named(entries))


def class_named(entries: Mapping[str, Any]) -> str | None:
    """Return the class that a configuration names first."""
    named = entries.get("architectures")
    if named is None or named == []:
        return None
    if not isinstance(named, (list, tuple)) or not isinstance(named[0], str):
        raise TypeError(f"architectures must be a list of names; got {str(named)[:100]}")
    return named[0]
