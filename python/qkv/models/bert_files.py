"""What files of BERT's family hold, in Hugging Face's names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar

from .._core import Module
from .config import BertConfig
from .files import Weights
from .pretrained import Pretrained

# What files hold beside the parameters of a model: buffers, and the heads of other models.
BUFFERS = re.compile(r"^(bert\.)?embeddings\.(position_ids|token_type_ids)$")
PASSED_OVER = re.compile(BUFFERS.pattern + r"|^(cls|classifier|qa_outputs|dropout)\.|^(bert\.)?pooler\.")
BODY = re.compile(r"^(embeddings|encoder|pooler)\.")


class BertPretrained(Pretrained, Module):
    """A model of BERT's family: the body of one with a head has the prefix ``bert.``."""

    config: BertConfig
    config_class: ClassVar[type[Any]] = BertConfig
    has_classes: ClassVar[bool] = False
    prefix: ClassVar[str] = "bert."

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True) -> None:
        """Load parameters, which may have old names; the numbers of positions that old files hold are passed over."""
        state = {self._modern(n): value for n, value in state_dict.items() if not BUFFERS.match(n)}
        super().load_state_dict(state, strict)

    @classmethod
    def _named(cls, weights: Weights) -> dict[str, str]:
        names: dict[str, str] = {}
        for name in sorted(weights.shapes):
            own = name.removeprefix("bert.") if not cls.prefix else name
            own = cls.prefix + own if BODY.match(own) else own
            if own in names:
                raise ValueError(f"{weights.path}: must hold each tensor once; got {names[own]} and {name}")
            names[own] = name
        return names

    @classmethod
    def _check_file(cls, weights: Weights, names: dict[str, str], config: BertConfig, new_head: bool) -> None:
        _check_sizes(weights, names, config)
        if not new_head:
            _check_classes(cls, weights, names, config)

    @classmethod
    def _options(cls, names: dict[str, str]) -> dict[str, Any]:
        pooled = bool(cls.prefix) or any(own.startswith("pooler.") for own in names)
        return {} if pooled else {"add_pooling_layer": False}

    @staticmethod
    def _modern(name: str) -> str:
        name = re.sub(r"LayerNorm\.gamma$", "LayerNorm.weight", name)
        name = re.sub(r"LayerNorm\.beta$", "LayerNorm.bias", name)
        return {"cls.predictions.decoder.bias": "cls.predictions.bias"}.get(name, name)

    def _passed_over(self, own: str) -> bool:
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

    def _in_head(self, own: str) -> bool:
        return not own.startswith("bert.") and hasattr(self, "bert")


def _check_classes(
    cls: type[BertPretrained], weights: Weights, names: dict[str, str], config: BertConfig
) -> None:
    """Compare the number of classes with the file before so many are made."""
    if not cls.has_classes:
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
