"""Models in a folder, in Hugging Face's format: config.json and model.safetensors."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from .. import _core
from .._atomic import write_files
from .config import BertConfig
from .files import Weights, checked_folder, json_writer, read_json, weights_writer

if TYPE_CHECKING:
    from .._core import Module

Model = TypeVar("Model", bound="Pretrained")

# What files hold beside the parameters of a model: buffers, and the heads of other models.
PASSED_OVER = re.compile(
    r"^(bert\.)?embeddings\.(position_ids|token_type_ids)$|^(cls|classifier|qa_outputs|dropout)\.|^(bert\.)?pooler\."
)
BODY = re.compile(r"^(embeddings|encoder|pooler)\.")


class Pretrained:
    """What all models of BERT's family share: they come from a folder and go into one."""

    config: BertConfig

    if TYPE_CHECKING:

        def __init__(self, *arguments: Any, **options: Any) -> None: ...

    @classmethod
    def from_pretrained(
        cls: type[Model], folder: str | os.PathLike[str], *, new_head: bool = False, **changes: Any
    ) -> Model:
        """Load config.json and model.safetensors of a folder.

        Parameters
        ----------
        folder : path
            As Hugging Face's libraries write it. Names may have the prefix ``bert.`` or not; the parameters of a
            LayerNorm may be called gamma and beta; buffers and the heads of other models are passed over; numbers
            become float32. A :class:`BertModel` has a pooler if the file has one.
        new_head : bool
            Draw the parameters that stand on top of the encoder afresh where the file has none, to be trained.
        **changes
            Entries of the configuration to be replaced, such as ``num_labels=3``.

        Returns
        -------
        model
            In evaluation mode; gradients are recorded.

        Raises
        ------
        OSError
            If the folder or one of its files is missing.
        ValueError
            If a file is damaged, or its numbers do not fit the configuration; the message names the file.

        Examples
        --------
        >>> sizes = dict(vocab_size=30, hidden_size=8, num_hidden_layers=2, num_attention_heads=2)
        >>> qkv.models.BertModel(qkv.models.BertConfig(**sizes)).save_pretrained("tiny")  # doctest: +SKIP
        >>> qkv.models.BertModel.from_pretrained("tiny").config.hidden_size  # doctest: +SKIP
        8
        """
        path = checked_folder("from_pretrained", folder)
        config = read_config(path, changes)
        weights = Weights(path)
        names = _named(cls, weights)
        _check_sizes(weights, names, config)
        if not new_head:
            _check_classes(cls, weights, names, config)
        options: dict[str, Any] = {}
        kind: type = cls
        if issubclass(kind, _core.BertModel) and not any(own.startswith("pooler.") for own in names):
            options["add_pooling_layer"] = False
        made: Any = cls(config, values=False, **options)
        chosen = {own: name for own, name in names.items() if not _passed_over(made, own)}
        missing = {name for name, _ in made.named_parameters()} - {_modern(name) for name in chosen}
        head = {name for name in missing if not name.startswith("bert.") and hasattr(made, "bert")}
        if new_head and head == missing and head:
            made = cls(config)  # drawn
        arrays = weights.read(chosen)
        if new_head:
            arrays |= {name: np.asarray(p) for name, p in made.named_parameters() if name in head}
        try:
            made.load_state_dict(arrays)
        except (ValueError, TypeError) as error:
            raise ValueError(f"{weights.path}: {error}") from None
        loaded: Model = made.eval()
        return loaded

    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        """Write config.json and model.safetensors, which Hugging Face's libraries and :meth:`from_pretrained` load.

        Parameters
        ----------
        folder : path
            Is made if it does not exist. Both files are written whole under other names first; then config.json takes
            its name and model.safetensors right after it. A full disk, an error or a kill before that leaves the old
            pair, and new weights never stand beside an old configuration.

        Raises
        ------
        OSError
            If the folder cannot be written.

        Examples
        --------
        >>> sizes = dict(vocab_size=30, hidden_size=8, num_hidden_layers=2, num_attention_heads=2)
        >>> qkv.models.BertModel(qkv.models.BertConfig(**sizes)).save_pretrained("tiny")  # doctest: +SKIP
        """
        path = Path(folder)
        if path.exists() and not path.is_dir():
            raise NotADirectoryError(f"save_pretrained: folder must be a folder; got the file {path}")
        path.mkdir(parents=True, exist_ok=True)
        model: Any = self
        arrays = {name: np.ascontiguousarray(p.numpy()) for name, p in model.named_parameters()}
        dtype = str(next(iter(arrays.values())).dtype)
        entries = {**self.config.to_dict(), "architectures": [type(self).__name__], "dtype": dtype}
        entries.pop("torch_dtype", None)
        write_files(
            [
                (path / "config.json", json_writer(entries)),
                (path / "model.safetensors", weights_writer(arrays)),
            ]
        )


def read_config(folder: Path, changes: dict[str, Any] | None = None) -> BertConfig:
    """Read config.json; `changes` replace some of its entries."""
    path = folder / "config.json"
    entries = read_json(path)
    changes = changes or {}
    if "num_labels" in changes:
        entries.pop("id2label", None)
    try:
        return BertConfig.from_dict({**entries, **changes})
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path}: {error}") from None


def _modern(name: str) -> str:
    name = re.sub(r"LayerNorm\.gamma$", "LayerNorm.weight", name)
    name = re.sub(r"LayerNorm\.beta$", "LayerNorm.bias", name)
    return {"cls.predictions.decoder.bias": "cls.predictions.bias"}.get(name, name)


def _named(cls: type, weights: Weights) -> dict[str, str]:
    """Give the file's name of each tensor by the model's: the body of a model with a head has the prefix ``bert.``."""
    names: dict[str, str] = {}
    for name in sorted(weights.shapes):
        own = name
        if issubclass(cls, _core.BertModel):
            own = name.removeprefix("bert.")
        elif BODY.match(name):
            own = "bert." + name
        if own in names:
            raise ValueError(f"{weights.path}: must hold each tensor once; got {names[own]} and {name}")
        names[own] = name
    return names


def _passed_over(model: Module, own: str) -> bool:
    known = {part.split(".")[0] for part, _ in model.named_parameters()}
    if not PASSED_OVER.match(own):
        return False
    if re.match(r"(bert\.)?embeddings\.", own):
        return True  # a buffer
    if re.match(r"(bert\.)?pooler\.", own):
        body: Any = getattr(model, "bert", model)
        return body.pooler is None
    if own.startswith("cls.seq_relationship."):
        cls: Any = getattr(model, "cls", None)
        return cls is None or cls.seq_relationship is None
    return own.split(".")[0] not in known


def _check_classes(cls: type, weights: Weights, names: dict[str, str], config: BertConfig) -> None:
    """Compare the number of classes with the file before so many are made."""
    if not issubclass(cls, (_core.BertForSequenceClassification, _core.BertForTokenClassification)):
        return
    expected = (config.num_labels, config.hidden_size)
    if "classifier.weight" not in names:
        raise ValueError(
            f"{weights.path}: must hold classifier.weight, or new_head=True be given; there is none"
        )
    held = weights.shapes[names["classifier.weight"]]
    if held != expected:
        raise ValueError(
            f"{weights.path}: classifier.weight must be {expected} as config.json says; got {held}"
        )


def _check_sizes(weights: Weights, names: dict[str, str], config: BertConfig) -> None:
    """Compare the configuration with the file before anything of its sizes is made."""
    prefix = "bert." if any(own.startswith("bert.") for own in names) else ""
    wide = config.hidden_size
    expected = {
        "embeddings.word_embeddings.weight": (config.vocab_size, wide),
        "embeddings.position_embeddings.weight": (config.max_position_embeddings, wide),
        "embeddings.token_type_embeddings.weight": (config.type_vocab_size, wide),
    }
    if config.num_hidden_layers > 0:
        inner = "encoder.layer.0.intermediate.dense.weight"
        expected[inner] = (config.intermediate_size, wide)
        expected["encoder.layer.0.attention.self.query.weight"] = (wide, wide)
    for name, shape in expected.items():
        if prefix + name not in names:
            raise ValueError(f"{weights.path}: must hold the tensors of BERT; missing: {name}")
        held = weights.shapes[names[prefix + name]]
        if held != shape:
            raise ValueError(f"{weights.path}: {name} must be {shape} as config.json says; got {held}")
    layers = {
        int(m[1]) for m in (re.match(r"(?:bert\.)?encoder\.layer\.(\d{1,9})\.", own) for own in names) if m
    }
    if len(layers) != config.num_hidden_layers or (layers and max(layers) >= config.num_hidden_layers):
        raise ValueError(
            f"{weights.path}: must hold num_hidden_layers = {config.num_hidden_layers} layers as config.json says; "
            f"got {len(layers)}"
        )
