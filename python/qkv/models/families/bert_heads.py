"""What is on top of BERT: scores of words, of the next sentence, and of classes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..._core import Dropout, Embedding, LayerNorm, Linear, Module, Parameter, Tensor
from ..architectures.bert_config import BertConfig
from .bert import BertModel, BertPretrained, modern
from .heads import FUNCTIONS
from .outputs import output
from .pretrained import PretrainedModel

# What files may hold a second time.
COPIES = {
    "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
    "cls.predictions.decoder.bias": "cls.predictions.bias",
}


class BertWithHead(BertPretrained):
    """A model around a BertModel, called like it."""

    def __init__(self, config: BertConfig, *, values: bool = True) -> None:
        super().__init__(config, values=values)

    def _make_bodies(self, options: dict[str, Any], values: bool) -> None:
        pooled = self.architecture.heads[self.key or ""].pooler
        self.bert = BertModel(self.config, pooled, values=values)

    @property
    def attention_weights(self) -> list[Tensor | None]:
        """``(B, H, L, L)`` of each layer, of the last call, before dropout; None before the first."""
        return self.bert.attention_weights

    def forward(self, input_ids: Any, **options: Any) -> Any:
        """Compute the scores of words, of the next sentence or of classes."""
        hidden, pooled, *states = self.bert(input_ids, **options)
        name, scores = self._scores(hidden, pooled)
        return output(name, **scores, hidden_states=states[0] if states else None)

    def _scores(self, hidden: Tensor, pooled: Any) -> tuple[str, dict[str, Tensor]]:
        raise NotImplementedError


class BertPredictionHeadTransform(Module):
    """``LayerNorm(act(dense(x)))``."""

    def __init__(self, width: int, activation: str, norm_eps: float) -> None:
        super().__init__()
        self.activation = activation
        self.dense = Linear(width, width)
        self.LayerNorm = LayerNorm(width, norm_eps)

    def forward(self, hidden_states: Tensor) -> Tensor:
        """Compute it, ``(..., M)``."""
        y: Tensor = self.LayerNorm(FUNCTIONS[self.activation](self.dense(hidden_states)))
        return y


class BertPredictionHead(Module):
    """``transform(x) @ words.T + bias``, where words is the table of word embeddings."""

    def __init__(self, width: int, outputs: int, activation: str, norm_eps: float) -> None:
        super().__init__()
        self.transform = BertPredictionHeadTransform(width, activation, norm_eps)
        self.bias = Parameter(np.zeros(outputs, np.float32))

    def forward(self, hidden_states: Tensor, words: Embedding) -> Tensor:
        """Compute the scores, ``(..., V)``."""
        return words.logits(self.transform(hidden_states), self.bias)


class BertPreTrainingHeads(Module):
    """The heads of pre-training: ``predictions`` and ``seq_relationship``, which may be None."""

    def __init__(self, predictions: Module, seq_relationship: Module | None) -> None:
        super().__init__()
        self.predictions, self.seq_relationship = predictions, seq_relationship

    def forward(self, hidden_states: Tensor, pooled: Any, words: Embedding) -> tuple[Tensor, Tensor | None]:
        """Compute the scores of the words, and of the two answers or None."""
        follows = None if self.seq_relationship is None else self.seq_relationship(pooled)
        return self.predictions(hidden_states, words), follows


class BertWithWords(BertWithHead):
    """One whose words are scored by the table of their embeddings."""

    def _make_head(self, pooler: bool) -> None:
        config, table = self.config, self.architecture.heads[self.key or ""]
        if not config.tie_word_embeddings:
            raise ValueError(
                "BertConfig: tie_word_embeddings must be True because words are scored by their embeddings; got False"
            )
        o = table.options(config)
        predictions = BertPredictionHead(o["inner"], o["outputs"], o["activation"], o["norm_eps"])
        self.cls = BertPreTrainingHeads(predictions, Linear(o["inner"], 2) if table.pooler else None)

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True) -> None:
        """Load parameters; files may hold the decoder, which is the table of words, and have old names."""
        copies = {name: own for name, own in COPIES.items() if name in state_dict}
        state = {modern(name): x for name, x in state_dict.items() if name not in copies}
        for copy, own in copies.items():
            kept = state.setdefault(own, state_dict[copy])
            if not np.array_equal(np.asarray(kept), np.asarray(state_dict[copy])):
                raise ValueError(
                    f"load_state_dict: {copy} must equal {own} because they are one parameter; got other numbers"
                )
        super().load_state_dict(state, strict)

    def _scores(self, hidden: Tensor, pooled: Any) -> tuple[str, dict[str, Tensor]]:
        words, follows = self.cls(hidden, pooled, self.bert.embeddings.word_embeddings)
        if follows is None:
            return "LogitsOutput", {"logits": words}
        return "PreTrainingOutput", {"prediction_logits": words, "seq_relationship_logits": follows}


class BertForPreTraining(BertWithWords):
    """BERT with the heads of its pre-training: masked words, and whether the second sentence follows the first.

    The scores of the words are ``LayerNorm(act(dense(x))) @ word_embeddings.T + bias``: the decoder is the table of
    word embeddings itself. Called like :class:`BertModel`, it returns ``(prediction_logits, seq_relationship_logits)``.

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

    key = "ForPreTraining"


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

    key = "ForMaskedLM"


class BertClassifier(BertWithHead):
    """One with a Linear layer after dropout, of the pooled first row or of all rows."""

    def _make_head(self, pooler: bool) -> None:
        options = self.architecture.heads[self.key or ""].options(self.config)
        self.dropout = Dropout(options["dropout"])
        self.classifier = Linear(self.config.hidden_size, options["outputs"])

    def _scores(self, hidden: Tensor, pooled: Any) -> tuple[str, dict[str, Tensor]]:
        rows = pooled if self.bert.pooler is not None else hidden
        return "LogitsOutput", {"logits": self.classifier(self.dropout(rows))}


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

    key = "ForSequenceClassification"


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

    key = "ForTokenClassification"


class BertAnswers(BertWithHead):
    """One with scores of where an answer begins and ends."""

    def _make_head(self, pooler: bool) -> None:
        self.qa_outputs = Linear(self.config.hidden_size, 2)

    def _scores(self, hidden: Tensor, pooled: Any) -> tuple[str, dict[str, Tensor]]:
        logits = self.qa_outputs(hidden)
        return "AnswersOutput", {"start_logits": logits[..., 0], "end_logits": logits[..., 1]}


class BertForQuestionAnswering(BertAnswers):
    """BERT with scores of where the answer to a question begins and ends: a Linear layer on every position.

    Called like :class:`BertModel`, it returns ``(start_logits, end_logits)``, ``(B, L)`` each.

    Parameters
    ----------
    config : BertConfig
    values : bool
        As in :class:`BertModel`.

    Examples
    --------
    >>> config = qkv.models.BertConfig(vocab_size=30, hidden_size=8, num_hidden_layers=2, num_attention_heads=2)
    >>> qkv.models.BertForQuestionAnswering(config).eval()([[2, 5, 4, 3]]).start_logits.shape
    (1, 4)
    """

    key = "ForQuestionAnswering"


BERT: dict[str | None, type[PretrainedModel]] = {
    kind.key: kind
    for kind in (
        BertModel,
        BertForPreTraining,
        BertForMaskedLM,
        BertForSequenceClassification,
        BertForTokenClassification,
        BertForQuestionAnswering,
    )
}
