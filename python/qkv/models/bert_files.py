"""BERT's family in a folder, in Hugging Face's format: config.json and model.safetensors."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from .._core import Module
from .changes import check_changes
from .config import BertConfig
from .files import Weights, check_shape, checked_folder, read_json, write_model

# What files hold beside the parameters of a model: buffers, and the heads of other models.
BUFFERS = re.compile(r"^(bert\.)?embeddings\.(position_ids|token_type_ids)$")
PASSED_OVER = re.compile(BUFFERS.pattern + r"|^(cls|classifier|qa_outputs|dropout)\.|^(bert\.)?pooler\.")
BODY = re.compile(r"^(embeddings|encoder|pooler)\.")


class BertPretrained(Module):
    """A model of BERT's family: the body of one with a head has the prefix ``bert.``."""

    config: BertConfig
    has_classes: ClassVar[bool] = False
    prefix: ClassVar[str] = "bert."

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True) -> None:
        """Load parameters, which may have old names; the numbers of positions that old files hold are passed over."""
        state = {self._modern(n): value for n, value in state_dict.items() if not BUFFERS.match(n)}
        super().load_state_dict(state, strict)

    @classmethod
    def from_pretrained(
        cls, folder: str | os.PathLike[str], *, new_head: bool = False, **changes: Any
    ) -> Any:
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
        TypeError
            If a change is no entry of :class:`BertConfig`.
        ValueError
            If a file is damaged, or its numbers do not fit the configuration; the message names the file.

        Examples
        --------
        >>> sizes = dict(vocab_size=30, hidden_size=8, num_hidden_layers=2, num_attention_heads=2)
        >>> qkv.models.BertModel(qkv.models.BertConfig(**sizes)).save_pretrained("tiny")  # doctest: +SKIP
        >>> qkv.models.BertModel.from_pretrained("tiny").config.hidden_size  # doctest: +SKIP
        8
        """
        check_changes(f"{cls.__name__}.from_pretrained", changes, BertConfig.known)
        path = checked_folder("from_pretrained", folder)
        entries = read_json(path / "config.json")
        if "num_labels" in changes:
            entries.pop("id2label", None)
        try:
            config = BertConfig.from_dict({**entries, **changes})
        except (ValueError, TypeError) as error:
            raise ValueError(f"{path / 'config.json'}: {error}") from None
        weights = Weights(path)
        names = cls._named(weights)
        _check_sizes(weights, names, config)
        if cls.has_classes and not new_head:
            _check_classes(weights, names, config)
        pooled = bool(cls.prefix) or any(own.startswith("pooler.") for own in names)
        kind: Any = cls
        made = kind(config, values=False, **({} if pooled else {"add_pooling_layer": False}))
        chosen = {own: name for own, name in names.items() if not made._passed_over(own)}
        missing = {name for name, _ in made.named_parameters()} - {cls._modern(name) for name in chosen}
        head = {name for name in missing if not name.startswith("bert.") and cls.prefix}
        if new_head and head == missing and head:
            made = kind(config)  # drawn
        arrays = dict(weights.read(chosen))
        if new_head:
            arrays |= {name: np.asarray(p) for name, p in made.named_parameters() if name in head}
        try:
            made.load_state_dict(arrays)
        except (ValueError, TypeError) as error:
            raise ValueError(f"{weights.path}: {error}") from None
        return made.eval()

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
        arrays = {name: np.ascontiguousarray(p.numpy()) for name, p in self.named_parameters()}
        write_model(folder, {**self.config.to_dict(), "architectures": [type(self).__name__]}, arrays)

    @classmethod
    def _named(cls, weights: Weights) -> dict[str, str]:
        """Give the file's name of each tensor by the model's."""
        names: dict[str, str] = {}
        for name in sorted(weights.shapes):
            own = name.removeprefix("bert.") if not cls.prefix else name
            own = cls.prefix + own if BODY.match(own) else own
            if own in names:
                raise ValueError(f"{weights.path}: must hold each tensor once; got {names[own]} and {name}")
            names[own] = name
        return names

    @staticmethod
    def _modern(name: str) -> str:
        """Give the model's name of a parameter that old files call otherwise."""
        name = re.sub(r"LayerNorm\.gamma$", "LayerNorm.weight", name)
        name = re.sub(r"LayerNorm\.beta$", "LayerNorm.bias", name)
        return {"cls.predictions.decoder.bias": "cls.predictions.bias"}.get(name, name)

    def _passed_over(self, own: str) -> bool:
        """Say whether the file holds this tensor for another model."""
        model: Any = self
        if not PASSED_OVER.match(own):
            return False
        if BUFFERS.match(own):
            return True
        if re.match(r"(bert\.)?pooler\.", own):
            return getattr(model, "bert", model).pooler is None
        if own.startswith("cls.seq_relationship."):
            cls = getattr(model, "cls", None)
            return cls is None or cls.seq_relationship is None
        return own.split(".")[0] not in {part.split(".")[0] for part, _ in model.named_parameters()}


def _check_classes(weights: Weights, names: dict[str, str], config: BertConfig) -> None:
    """Compare the number of classes with the file before so many are made."""
    if "classifier.weight" not in names:
        raise ValueError(
            f"{weights.path}: must hold classifier.weight, or new_head=True be given; there is none"
        )
    held = weights.shapes[names["classifier.weight"]]
    check_shape(weights.path, "classifier.weight", held, (config.num_labels, config.hidden_size))


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
        check_shape(weights.path, name, weights.shapes[names[prefix + name]], shape)
    layers = {
        int(m[1]) for m in (re.match(r"(?:bert\.)?encoder\.layer\.(\d{1,9})\.", own) for own in names) if m
    }
    if len(layers) != config.num_hidden_layers or (layers and max(layers) >= config.num_hidden_layers):
        raise ValueError(
            f"{weights.path}: must hold num_hidden_layers = {config.num_hidden_layers} layers as config.json says; "
            f"got {len(layers)}"
        )
