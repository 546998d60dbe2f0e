"""The sizes and options of a BERT model, as Hugging Face's config.json holds them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from ... import _core
from ..._words.errors import shown
from .configuration import MOST_LABELS, MOST_LAYERS, NEVER, Configuration

SIZES = (
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "max_position_embeddings",
    "type_vocab_size",
)
NUMBERS = ("hidden_dropout_prob", "attention_probs_dropout_prob", "initializer_range", "layer_norm_eps")


@dataclass
class BertConfig(Configuration):
    """Sizes and options of BERT; the defaults are those of BERT base, uncased.

    Parameters
    ----------
    vocab_size, hidden_size, num_hidden_layers, num_attention_heads, intermediate_size : int
        Words, width, layers, heads, inner width of the feed-forward network.
    hidden_act : {"gelu", "relu", "gelu_new"}
        ``"gelu"`` is the exact one, ``"gelu_new"`` the form with tanh.
    hidden_dropout_prob, attention_probs_dropout_prob : float
        In training only.
    max_position_embeddings, type_vocab_size : int
        Longest sequence, number of segments.
    initializer_range : float
        Standard deviation of the weights of a new model.
    layer_norm_eps : float
    pad_token_id : int, optional
        Its embedding gets no gradient from look-ups.
    classifier_dropout : float, optional
        Before the classifier; ``hidden_dropout_prob`` if not given.
    id2label : dict, optional
        Names of the classes by number; without it there are two, LABEL_0 and LABEL_1.
    num_labels : int, optional
        Instead of ``id2label``: classes LABEL_0, LABEL_1, ...
    extra : dict
        Other entries of a config.json, which are kept and written back.

    Raises
    ------
    ValueError, TypeError
        If a size is out of range, or of another type.

    References
    ----------
    Devlin et al., BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding, 2018.

    Examples
    --------
    >>> config = qkv.models.BertConfig.base()
    >>> config.hidden_size, config.num_hidden_layers, qkv.models.BertConfig(num_labels=3).id2label[2]
    (768, 12, 'LABEL_2')
    """

    vocab_size: int = 30522
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: str = "gelu"
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.1
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    initializer_range: float = 0.02
    layer_norm_eps: float = 1e-12
    pad_token_id: int | None = 0
    classifier_dropout: float | None = None
    id2label: dict[int, str] | None = None
    num_labels: int | None = None
    extra: dict[str, Any] = field(default_factory=dict)
    model_type: ClassVar[str] = "bert"

    def __post_init__(self) -> None:
        for name in (*SIZES, "pad_token_id", *NUMBERS, "classifier_dropout"):
            value = getattr(self, name)
            if value is not None or name in SIZES + NUMBERS:
                _check(name, value, int if name in (*SIZES, "pad_token_id") else float)
        if not isinstance(self.hidden_act, str):
            raise TypeError(f"BertConfig: hidden_act must be a string; got {shown(self.hidden_act)}")
        self._check_ranges()
        self._check_labels()

    def _check_ranges(self) -> None:
        for name in SIZES:
            least = 0 if name == "num_hidden_layers" else 1
            if getattr(self, name) < least:
                raise ValueError(f"BertConfig: {name} must be at least {least}; got {getattr(self, name)}")
        if self.num_hidden_layers > MOST_LAYERS:
            raise ValueError(
                f"BertConfig: num_hidden_layers must be at most {MOST_LAYERS}; got {self.num_hidden_layers}"
            )
        if self.hidden_size % self.num_attention_heads != 0:
            raise ValueError(
                "BertConfig: hidden_size must be divisible by num_attention_heads; got hidden_size = "
                f"{self.hidden_size}, num_attention_heads = {self.num_attention_heads}"
            )
        for name in ("hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout"):
            value = getattr(self, name)
            if value is not None and not 0 <= value <= 1:
                raise ValueError(f"BertConfig: {name} must be from 0 to 1; got {value}")
        for name in ("initializer_range", "layer_norm_eps"):
            value = getattr(self, name)
            if not 0 <= value < math.inf:
                raise ValueError(f"BertConfig: {name} must be a number from 0; got {value}")
            _core.check_float32("BertConfig", name, value)
        if self.pad_token_id is not None and not 0 <= self.pad_token_id < self.vocab_size:
            raise ValueError(
                f"BertConfig: pad_token_id must be from 0 to vocab_size - 1 = {self.vocab_size - 1}; "
                f"got {self.pad_token_id}"
            )
        if self.hidden_act not in ("relu", "gelu", "gelu_new"):
            raise ValueError(
                f'BertConfig: hidden_act must be "relu", "gelu" or "gelu_new"; got {shown(self.hidden_act)}'
            )

    def _check_labels(self) -> None:
        if self.id2label is None:
            count = 2 if self.num_labels is None else self.num_labels
            _check("num_labels", count, int)
            if not 1 <= count <= MOST_LABELS:
                raise ValueError(f"BertConfig: num_labels must be from 1 to {MOST_LABELS}; got {count}")
            self.id2label = {i: f"LABEL_{i}" for i in range(count)}
        if not isinstance(self.id2label, Mapping) or not self.id2label:
            raise TypeError(
                f"BertConfig: id2label must be a dict from numbers to names; got {shown(self.id2label)}"
            )
        try:
            labels = {int(k): v for k, v in self.id2label.items()}
        except (TypeError, ValueError):
            raise ValueError(
                f"BertConfig: id2label must have numbers for keys; got {list(self.id2label)[:5]}"
            ) from None
        if sorted(labels) != list(range(len(labels))):
            raise ValueError(
                f"BertConfig: id2label must number its labels 0, 1, 2, ...; got {sorted(labels)[:5]}"
            )
        if self.num_labels is not None and self.num_labels != len(labels):
            raise ValueError(
                f"BertConfig: num_labels must be {len(labels)}, the length of id2label; got {self.num_labels}"
            )
        self.id2label = {k: str(labels[k]) for k in sorted(labels)}
        self.num_labels = len(labels)

    @classmethod
    def base(cls, **changes: Any) -> BertConfig:
        """Return BERT base: 12 layers, 12 heads, 768 wide, 109 482 240 parameters.

        Examples
        --------
        >>> qkv.models.BertConfig.base(vocab_size=28996).num_attention_heads
        12
        """
        return cls(**changes)

    @classmethod
    def large(cls, **changes: Any) -> BertConfig:
        """Return BERT large: 24 layers, 16 heads, 1024 wide, 335 141 888 parameters.

        Examples
        --------
        >>> qkv.models.BertConfig.large().intermediate_size
        4096
        """
        sizes: dict[str, Any] = {"hidden_size": 1024, "num_hidden_layers": 24}
        sizes |= {"num_attention_heads": 16, "intermediate_size": 4096}
        return cls(**{**sizes, **changes})

    @property
    def label2id(self) -> dict[str, int]:
        """The numbers of the classes by name."""
        return {name: number for number, name in (self.id2label or {}).items()}

    @property
    def _values(self) -> dict[str, Any]:
        return {"tie_word_embeddings": True, **vars(self).get("extra", {}), **vars(self)}

    def get(self, name: str, otherwise: Any = None) -> Any:
        """Return an entry, or `otherwise` where there is none."""
        value = self._values.get(name)
        return otherwise if value is None else value

    @classmethod
    def from_dict(cls, entries: Mapping[str, Any]) -> BertConfig:
        """Read the entries of a config.json; those that it lacks have their defaults, others go into ``extra``.

        Raises
        ------
        ValueError, TypeError
            If an entry does not fit, or describes a model that is not BERT's encoder with absolute positions.

        Examples
        --------
        >>> qkv.models.BertConfig.from_dict({"hidden_size": 24, "id2label": {"0": "good", "1": "bad"}}).id2label
        {0: 'good', 1: 'bad'}
        """
        kind = entries.get("model_type", "bert")
        if kind != "bert":
            raise ValueError(f"BertConfig: model_type must be 'bert'; got {kind!r}")
        positions = entries.get("position_embedding_type", "absolute")
        if positions not in ("absolute", None):
            raise ValueError(f"BertConfig: position_embedding_type must be 'absolute'; got {positions!r}")
        for name in ("pruned_heads", "quantization_config"):
            if name in entries and entries[name] not in NEVER[name]:
                raise ValueError(
                    f"BertConfig: {name} must be unset because qkv has no other; got {shown(entries[name])}"
                )
        if entries.get("is_decoder") or entries.get("add_cross_attention"):
            raise ValueError("BertConfig: is_decoder and add_cross_attention must be false; got true")
        names = [f.name for f in dataclasses.fields(cls) if f.name != "extra"]
        given = {name: entries[name] for name in names if name in entries}
        if given.get("id2label") is not None:
            given.pop("num_labels", None)
        return cls(**given, extra={k: v for k, v in entries.items() if k not in names})

    def to_dict(self) -> dict[str, Any]:
        """Return the entries of a config.json that Hugging Face's libraries read.

        Examples
        --------
        >>> qkv.models.BertConfig().to_dict()["model_type"]
        'bert'
        """
        own = {
            f.name: getattr(self, f.name)
            for f in dataclasses.fields(self)
            if f.name not in ("extra", "num_labels")
        }
        own["id2label"] = {str(k): v for k, v in (self.id2label or {}).items()}
        return {**self.extra, **own, "label2id": self.label2id, "model_type": self.model_type}


_OTHERS = {"architectures", "is_decoder", "label2id", "model_type", "tie_word_embeddings", *NEVER}
BertConfig.known = frozenset({f.name for f in dataclasses.fields(BertConfig)} - {"extra"} | _OTHERS)


def _check(name: str, value: object, kind: type) -> None:
    numbers = (int,) if kind is int else (int, float)
    if isinstance(value, bool) or not isinstance(value, numbers):
        what = "an integer" if kind is int else "a number"
        raise TypeError(f"BertConfig: {name} must be {what}; got {shown(value)}")
    if isinstance(value, int) and abs(value) >= 2**62:
        raise ValueError(
            f"BertConfig: {name} must be below 2 ** 62; got a number of {len(str(value))} characters"
        )
