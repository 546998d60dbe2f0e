"""The sizes and options of a BERT model, as Hugging Face's config.json holds them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..._words.errors import shown
from .configuration import Configuration

DEFAULTS: dict[str, Any] = {
    "vocab_size": 30522, "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12,
    "intermediate_size": 3072, "hidden_act": "gelu", "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1, "max_position_embeddings": 512, "type_vocab_size": 2,
    "layer_norm_eps": 1e-12, "pad_token_id": 0, "classifier_dropout": None, "tie_word_embeddings": True,
}  # fmt: skip
ALLOWED: dict[str, tuple[Any, ...]] = {"position_embedding_type": ("absolute", None)}
NULLS: dict[str, Any] = {"pad_token_id": None}


class BertConfig(Configuration):
    """Sizes and options of BERT; the defaults are those of BERT base, uncased.

    Parameters
    ----------
    vocab_size, hidden_size, num_hidden_layers, num_attention_heads, intermediate_size : int
        Words, width, layers, heads, inner width of the feed-forward network.
    hidden_act : str
        ``"gelu"`` is the exact one, ``"gelu_new"`` the form with tanh; ``"relu"``, ``"silu"``, ``"tanh"`` and their
        other names in Hugging Face's libraries.
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

    def __init__(
        self,
        vocab_size: int = 30522,
        hidden_size: int = 768,
        num_hidden_layers: int = 12,
        num_attention_heads: int = 12,
        intermediate_size: int = 3072,
        hidden_act: str = "gelu",
        hidden_dropout_prob: float = 0.1,
        attention_probs_dropout_prob: float = 0.1,
        max_position_embeddings: int = 512,
        type_vocab_size: int = 2,
        initializer_range: float = 0.02,
        layer_norm_eps: float = 1e-12,
        pad_token_id: int | None = 0,
        classifier_dropout: float | None = None,
        id2label: Mapping[Any, str] | None = None,
        num_labels: int | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        own = {name: value for name, value in locals().items() if name not in ("self", "extra", "__class__")}
        self.extra = dict(extra or {})
        try:
            super().__init__(
                {**self.extra, **own, "model_type": "bert"},
                {**DEFAULTS, "initializer_range": 0.02},
                ALLOWED,
                NULLS,
            )
            self.activation("hidden_act")
            if num_labels not in (None, self.num_labels):
                raise ValueError(
                    f"num_labels must be {self.num_labels}, the length of id2label; got {shown(num_labels)}"
                )
        except (ValueError, TypeError) as error:
            raise type(error)(f"BertConfig: {error}") from None

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
        own = {*DEFAULTS, "initializer_range", "id2label", "num_labels"} - {"tie_word_embeddings"}
        given = {name: value for name, value in entries.items() if name in own}
        if given.get("id2label") is not None:
            given.pop("num_labels", None)
        return cls(**given, extra={name: value for name, value in entries.items() if name not in own})

    def to_dict(self) -> dict[str, Any]:
        """Return the entries of a config.json that Hugging Face's libraries read.

        Examples
        --------
        >>> qkv.models.BertConfig().to_dict()["model_type"]
        'bert'
        """
        labels = {"id2label": {str(i): name for i, name in self.id2label.items()}, "label2id": self.label2id}
        return {**super().to_dict(), **labels}
