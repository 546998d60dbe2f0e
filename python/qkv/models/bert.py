"""BERT and its heads, with Hugging Face's names of parameters."""

from __future__ import annotations

from typing import Any, NamedTuple

from .. import _core
from .._core import Tensor
from .bert_files import BertPretrained
from .config import BertConfig
from .outputs import output


class BertModelOutput(NamedTuple):
    """What :class:`BertModel` gives: ``(B, L, M)``, and ``(B, M)`` or None without a pooler."""

    last_hidden_state: Tensor
    pooler_output: Tensor | None


class BertForPreTrainingOutput(NamedTuple):
    """Scores of the words ``(B, L, V)``, and of "follows" and "does not follow" ``(B, 2)``."""

    prediction_logits: Tensor
    seq_relationship_logits: Tensor


class LogitsOutput(NamedTuple):
    """Scores of words ``(B, L, V)`` or of classes, ``(B, num_labels)`` or ``(B, L, num_labels)``."""

    logits: Tensor


def _named(kind: Any, found: tuple[Any, ...]) -> Any:
    """Give results their names; the states of all layers come last, if they were asked for."""
    if len(found) == len(kind._fields):
        return kind(*found)
    return output(kind.__name__, **dict(zip((*kind._fields, "hidden_states"), found, strict=True)))


class BertModel(BertPretrained, _core.BertModel):
    """BERT's encoder: word, position and segment embeddings, then layers of self-attention.

    ``x = LayerNorm(word + position + segment)``; each layer is ``y = LayerNorm(x + dense(attention(x)))``,
    ``LayerNorm(y + dense(act(dense(y))))``; ``pooler_output = tanh(dense(x[:, 0]))``.

    Called ``(input_ids, *, valid_lens=None, attention_mask=None, token_type_ids=None, skip_padding=False,
    output_hidden_states=False)``, it gives a named tuple ``(last_hidden_state, pooler_output)``, and the
    ``hidden_states`` of all layers, the embeddings first, if they are asked for.

    Parameters
    ----------
    config : BertConfig
    add_pooling_layer : bool
        Without it ``pooler_output`` is None.
    values : bool
        False leaves the parameters undefined and their memory untouched, for who loads or counts them.

    Attributes
    ----------
    config : BertConfig
    attention_weights : list of Tensor
        ``(B, H, L, L)`` of each layer, of the last call, before dropout.

    Notes
    -----
    ``input_ids`` and ``token_type_ids`` are ``(B, L)``; ``valid_lens`` is ``(B,)`` or ``(B, L)`` and counts keys;
    ``attention_mask`` is ``(B, L)``, ``(B, L, L)`` or ``(B, H, L, L)``, of booleans or of ones and zeros; one means
    that a key counts. If both are given both must allow a key. Rows of padding are computed like all others unless
    ``skip_padding=True``: then they take part in no product and are zeros in the result.

    References
    ----------
    Devlin et al., BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding, 2018.

    Examples
    --------
    >>> config = qkv.models.BertConfig(vocab_size=30, hidden_size=8, num_hidden_layers=2, num_attention_heads=2)
    >>> y = qkv.models.BertModel(config).eval()([[2, 5, 6, 3], [2, 7, 3, 0]], valid_lens=[4, 3])
    >>> y.last_hidden_state.shape, y.pooler_output.shape
    ((2, 4, 8), (2, 8))
    """

    config: BertConfig

    def __init__(self, config: BertConfig, add_pooling_layer: bool = True, *, values: bool = True) -> None:
        super().__init__(**_arguments(config), add_pooling_layer=add_pooling_layer, values=values)
        self.config = config

    @property
    def positions(self) -> int:
        """How many ids a text may have."""
        return self.config.max_position_embeddings

    def forward(
        self,
        input_ids: Any,
        *,
        valid_lens: Any = None,
        attention_mask: Any = None,
        token_type_ids: Any = None,
        skip_padding: bool = False,
        output_hidden_states: bool = False,
    ) -> Any:
        """Compute the hidden states of the last layer, and the pooled first one; those of all layers if asked for."""
        found = super().forward(
            input_ids,
            valid_lens=valid_lens,
            attention_mask=attention_mask,
            token_type_ids=token_type_ids,
            skip_padding=skip_padding,
            output_hidden_states=output_hidden_states,
        )
        return _named(BertModelOutput, found)


class BertForPreTraining(BertPretrained, _core.BertForPreTraining):
    """BERT with the heads of its pre-training: masked words, and whether the second sentence follows the first.

    The scores of the words are ``LayerNorm(act(dense(x))) @ word_embeddings.T + bias``: the decoder is the table of
    word embeddings itself. Called like :class:`BertModel`, it gives ``(prediction_logits, seq_relationship_logits)``.

    Parameters
    ----------
    config : BertConfig
    values : bool
        As in :class:`BertModel`.

    References
    ----------
    Devlin et al., 2018.

    Examples
    --------
    >>> config = qkv.models.BertConfig(vocab_size=30, hidden_size=8, num_hidden_layers=2, num_attention_heads=2)
    >>> words, follows = qkv.models.BertForPreTraining(config).eval()([[2, 5, 4, 3]])
    >>> words.shape, follows.shape
    ((1, 4, 30), (1, 2))
    """

    config: BertConfig

    def __init__(self, config: BertConfig, *, values: bool = True) -> None:
        super().__init__(BertModel(_tied(config), values=values))
        self.config = config

    def forward(self, input_ids: Any, **options: Any) -> Any:
        """Compute the scores of the words at all positions, and of the two answers."""
        return _named(BertForPreTrainingOutput, super().forward(input_ids, **options))


class BertForMaskedLM(BertPretrained, _core.BertForMaskedLM):
    """BERT with the head that fills in masked words, as in :class:`BertForPreTraining`.

    Parameters
    ----------
    config : BertConfig
    values : bool
        As in :class:`BertModel`.

    Examples
    --------
    >>> config = qkv.models.BertConfig(vocab_size=30, hidden_size=8, num_hidden_layers=2, num_attention_heads=2)
    >>> qkv.models.BertForMaskedLM(config).eval()([[2, 5, 4, 3]]).logits.shape
    (1, 4, 30)
    """

    config: BertConfig

    def __init__(self, config: BertConfig, *, values: bool = True) -> None:
        super().__init__(BertModel(_tied(config), add_pooling_layer=False, values=values))
        self.config = config

    def forward(self, input_ids: Any, **options: Any) -> Any:
        """Compute the scores of the words at all positions."""
        words, _, *states = super().forward(input_ids, **options)
        return _named(LogitsOutput, (words, *states))


class BertForSequenceClassification(BertPretrained, _core.BertForSequenceClassification):
    """BERT with classes of a whole text: a Linear layer on the pooled first position.

    Parameters
    ----------
    config : BertConfig
        ``id2label`` or ``num_labels`` say how many classes there are.
    values : bool
        As in :class:`BertModel`.

    Examples
    --------
    >>> sizes = dict(vocab_size=30, hidden_size=8, num_hidden_layers=2, num_attention_heads=2)
    >>> model = qkv.models.BertForSequenceClassification(qkv.models.BertConfig(**sizes, num_labels=3)).eval()
    >>> model([[2, 5, 4, 3]]).logits.shape
    (1, 3)
    """

    config: BertConfig

    def __init__(self, config: BertConfig, *, values: bool = True) -> None:
        super().__init__(BertModel(config, values=values), **_head(config))
        self.config = config

    def forward(self, input_ids: Any, **options: Any) -> Any:
        """Compute the scores ``(B, num_labels)``."""
        return _named(LogitsOutput, super().forward(input_ids, **options))


class BertForTokenClassification(BertPretrained, _core.BertForTokenClassification):
    """BERT with a class for each token: a Linear layer on every position.

    Parameters
    ----------
    config : BertConfig
        ``id2label`` or ``num_labels`` say how many classes there are.
    values : bool
        As in :class:`BertModel`.

    Examples
    --------
    >>> sizes = dict(vocab_size=30, hidden_size=8, num_hidden_layers=2, num_attention_heads=2)
    >>> model = qkv.models.BertForTokenClassification(qkv.models.BertConfig(**sizes, num_labels=5)).eval()
    >>> model([[2, 5, 4, 3]]).logits.shape
    (1, 4, 5)
    """

    config: BertConfig

    def __init__(self, config: BertConfig, *, values: bool = True) -> None:
        super().__init__(BertModel(config, add_pooling_layer=False, values=values), **_head(config))
        self.config = config

    def forward(self, input_ids: Any, **options: Any) -> Any:
        """Compute the scores ``(B, L, num_labels)``."""
        return _named(LogitsOutput, super().forward(input_ids, **options))


def count_parameters(config: BertConfig, model: type[BertPretrained] | None = None) -> int:
    """Count the parameters of a model of these sizes, without drawing them or touching their memory.

    Parameters
    ----------
    config : BertConfig
    model : type, optional
        :class:`BertModel` or one of its heads; by default :class:`BertModel`.

    Returns
    -------
    int

    Examples
    --------
    >>> qkv.models.count_parameters(qkv.models.BertConfig.base())
    109482240
    """
    made: Any = (model or BertModel)(config, values=False)
    return int(made.num_parameters())


def _arguments(config: BertConfig) -> dict[str, Any]:
    if not isinstance(config, BertConfig):
        raise TypeError(f"BertModel: config must be a BertConfig; got {type(config).__name__}")
    return config.core()


def _tied(config: BertConfig) -> BertConfig:
    """Refuse what has a decoder of its own."""
    if isinstance(config, BertConfig) and config.extra.get("tie_word_embeddings") is False:
        raise ValueError(
            "BertConfig: tie_word_embeddings must be True because words are scored by their embeddings; got False"
        )
    return config


def _head(config: BertConfig) -> dict[str, Any]:
    return {"num_labels": config.num_labels, "classifier_dropout": config.classifier_dropout}
