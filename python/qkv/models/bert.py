"""BERT and its heads, with Hugging Face's names of parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np

from .._core import Dropout, Linear, SkipInit, Tensor, TransformerBody
from .bert_family import DEFAULTS, POOLER, halves
from .bert_files import BertPretrained
from .bert_heads import BertPreTrainingHeads, draw, drawn
from .config import BertConfig
from .configuration import Configuration
from .heads import Head
from .outputs import output, reduced
from .transformer_models import split_states

# What files may hold a second time.
COPIES = {
    "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
    "cls.predictions.decoder.bias": "cls.predictions.bias",
}


class BertModelOutput(NamedTuple):
    """What :class:`BertModel` gives: ``(B, L, M)``, and ``(B, M)`` or None without a pooler."""

    last_hidden_state: Tensor
    pooler_output: Tensor | None

    def __copy__(self) -> Any:
        return self

    def __reduce__(self) -> Any:
        return reduced(self)


class BertForPreTrainingOutput(NamedTuple):
    """Scores of the words ``(B, L, V)``, and of "follows" and "does not follow" ``(B, 2)``."""

    prediction_logits: Tensor
    seq_relationship_logits: Tensor

    def __copy__(self) -> Any:
        return self

    def __reduce__(self) -> Any:
        return reduced(self)


class LogitsOutput(NamedTuple):
    """Scores of words ``(B, L, V)`` or of classes, ``(B, num_labels)`` or ``(B, L, num_labels)``."""

    logits: Tensor

    def __copy__(self) -> Any:
        return self

    def __reduce__(self) -> Any:
        return reduced(self)


def _named(kind: Any, found: tuple[Any, ...]) -> Any:
    """Give results their names; the states of all layers come last, if they were asked for."""
    if len(found) == len(kind._fields):
        return kind(*found)
    return output(kind.__name__, **dict(zip((*kind._fields, "hidden_states"), found, strict=True)))


class BertEmbeddings(TransformerBody):
    """``LayerNorm(word + position + segment)``: a body without layers."""


class BertEncoder(TransformerBody):
    """The layers: a body without embeddings, called ``(hidden_states, **options)``."""


class BertModel(BertPretrained):
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

    prefix = ""

    def __init__(self, config: BertConfig, add_pooling_layer: bool = True, *, values: bool = True) -> None:
        super().__init__()
        if not isinstance(config, BertConfig):
            raise TypeError(f"BertModel: config must be a BertConfig; got {type(config).__name__}")
        self.config = config
        table = Configuration(config.core(), DEFAULTS | {"pad_token_id": None}, {})
        embeddings, layers = halves(table)
        with SkipInit():
            self.embeddings = BertEmbeddings(**embeddings)
            self.encoder = BertEncoder(**layers)
            self.pooler = Head(config.hidden_size, **POOLER.options(table)) if add_pooling_layer else None
        if values:
            draw(self, config.initializer_range)

    @property
    def positions(self) -> int:
        """How many ids a text may have."""
        return self.config.max_position_embeddings

    @property
    def attention_weights(self) -> list[Tensor | None]:
        """``(B, H, L, L)`` of each layer, of the last call, before dropout; None before the first."""
        return list(self.encoder.attention_weights)

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
        # What says nothing is not passed on, so that a part of one's own which lacks it can be called.
        types = {} if token_type_ids is None else {"token_type_ids": token_type_ids}
        options: dict[str, Any] = {
            "valid_lens": valid_lens,
            "attention_mask": attention_mask,
            "skip_padding": True if skip_padding else None,
            "output_hidden_states": True if output_hidden_states else None,
        }
        options = {name: value for name, value in options.items() if value is not None}
        try:
            x = self.embeddings(input_ids, **types)
        except ValueError:
            shape = np.shape(input_ids)
            if len(shape) != 2 or shape[1] <= self.positions:
                raise
            raise ValueError(
                f"BertModel: input_ids must have at most max_position_embeddings = {self.positions} positions; "
                f"got input_ids {shape}"
            ) from None
        hidden, states = split_states(self.encoder(x, **options), True)
        if output_hidden_states and states is None:
            raise TypeError(
                f"{type(self.encoder).__name__}: forward gives the last hidden state alone; hidden_states must be "
                "those of a BertEncoder without a forward of its own"
            )
        pooled = None if self.pooler is None else self.pooler(hidden)
        return _named(BertModelOutput, (hidden, pooled) if states is None else (hidden, pooled, states))

    def hidden_states(self, input_ids: Any, **options: Any) -> list[Tensor]:
        """Compute the hidden states of all layers, the embeddings first."""
        return list(self(input_ids, output_hidden_states=True, **options)[-1])


class BertWithHead(BertPretrained):
    """A model around a BertModel."""

    config: BertConfig
    pooled: ClassVar[bool] = False

    def __init__(self, config: BertConfig, *, values: bool = True) -> None:
        super().__init__()
        self.bert = BertModel(config, add_pooling_layer=self.pooled, values=values)
        self.config = config

    @property
    def attention_weights(self) -> list[Tensor | None]:
        """``(B, H, L, L)`` of each layer, of the last call, before dropout; None before the first."""
        return self.bert.attention_weights


class BertWithWords(BertWithHead):
    """One whose words are scored by the table of their embeddings."""

    def __init__(self, config: BertConfig, *, values: bool = True) -> None:
        if isinstance(config, BertConfig) and config.extra.get("tie_word_embeddings") is False:
            raise ValueError(
                "BertConfig: tie_word_embeddings must be True because words are scored by their embeddings; got False"
            )
        super().__init__(config, values=values)
        self.cls = drawn(config, values, lambda: BertPreTrainingHeads(config, self.pooled))

    def _scores(self, input_ids: Any, options: dict[str, Any]) -> tuple[Any, ...]:
        hidden, pooled, *states = self.bert(input_ids, **options)
        return *self.cls(hidden, pooled, self.bert.embeddings.word_embeddings), *states

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True) -> None:
        """Load parameters; files may hold the decoder, which is the table of words, and have old names."""
        state = {self._modern(name): value for name, value in state_dict.items() if name not in COPIES}
        for copy, own in COPIES.items():
            if copy not in state_dict:
                continue
            kept = state.setdefault(own, state_dict[copy])
            if not np.array_equal(np.asarray(kept), np.asarray(state_dict[copy])):
                raise ValueError(
                    f"load_state_dict: {copy} must equal {own} because they are one parameter; got other numbers"
                )
        super().load_state_dict(state, strict)


class BertForPreTraining(BertWithWords):
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

    pooled = True

    def forward(self, input_ids: Any, **options: Any) -> Any:
        """Compute the scores of the words at all positions, and of the two answers."""
        return _named(BertForPreTrainingOutput, self._scores(input_ids, options))


class BertForMaskedLM(BertWithWords):
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

    def forward(self, input_ids: Any, **options: Any) -> Any:
        """Compute the scores of the words at all positions."""
        words, _, *states = self._scores(input_ids, options)
        return _named(LogitsOutput, (words, *states))


class BertClassifier(BertWithHead):
    """One with a Linear layer behind dropout."""

    has_classes = True

    def __init__(self, config: BertConfig, *, values: bool = True) -> None:
        super().__init__(config, values=values)
        p = config.classifier_dropout
        self.dropout = Dropout(config.hidden_dropout_prob if p is None else p)
        labels: Any = config.num_labels
        self.classifier = drawn(config, values, lambda: Linear(config.hidden_size, labels))


class BertForSequenceClassification(BertClassifier):
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

    pooled = True

    def forward(self, input_ids: Any, **options: Any) -> Any:
        """Compute the scores ``(B, num_labels)``."""
        _, pooled, *states = self.bert(input_ids, **options)
        return _named(LogitsOutput, (self.classifier(self.dropout(pooled)), *states))


class BertForTokenClassification(BertClassifier):
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

    def forward(self, input_ids: Any, **options: Any) -> Any:
        """Compute the scores ``(B, L, num_labels)``."""
        hidden, _, *states = self.bert(input_ids, **options)
        return _named(LogitsOutput, (self.classifier(self.dropout(hidden)), *states))


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
    kind: Any = model or BertModel
    return int(kind(config, values=False).num_parameters())
