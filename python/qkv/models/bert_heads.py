"""What stands on top of BERT: scores of words, of the next sentence, and of classes."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._core import Embedding, LayerNorm, Linear, Module, Parameter, SkipInit, Tensor
from ..nn import init
from .config import BertConfig
from .configuration import ACTIVATIONS
from .heads import FUNCTIONS


def drawn(config: BertConfig, outputs: int, values: bool) -> Linear:
    """Give a Linear layer on the hidden size, drawn as BERT's are."""
    with SkipInit():
        layer = Linear(config.hidden_size, outputs)
    if values and layer.bias is not None:
        init.normal(layer.weight, 0, config.initializer_range)
        layer.bias.copy_(np.zeros(outputs, np.float32))
    return layer


class BertPredictionHeadTransform(Module):
    """``LayerNorm(act(dense(x)))``."""

    def __init__(self, config: BertConfig, values: bool = True) -> None:
        super().__init__()
        self.activation = ACTIVATIONS[config.hidden_act]
        self.dense = drawn(config, config.hidden_size, values)
        self.LayerNorm = LayerNorm(config.hidden_size, config.layer_norm_eps)

    def forward(self, hidden_states: Tensor) -> Tensor:
        """Compute it, ``(..., M)``."""
        y: Tensor = self.LayerNorm(FUNCTIONS[self.activation](self.dense(hidden_states)))
        return y


class BertPredictionHead(Module):
    """``transform(x) @ words.T + bias``, where words is the table of word embeddings."""

    def __init__(self, config: BertConfig, values: bool = True) -> None:
        super().__init__()
        self.transform = BertPredictionHeadTransform(config, values)
        self.bias = Parameter(np.zeros(config.vocab_size, np.float32))

    def forward(self, hidden_states: Tensor, words: Embedding) -> Tensor:
        """Compute the scores, ``(..., V)``."""
        return words.logits(self.transform(hidden_states), self.bias)


class BertPreTrainingHeads(Module):
    """The heads of pre-training: parts ``predictions`` and ``seq_relationship``, which may be None."""

    def __init__(self, config: BertConfig, next_sentence: bool = True, values: bool = True) -> None:
        super().__init__()
        self.predictions = BertPredictionHead(config, values)
        self.seq_relationship = drawn(config, 2, values) if next_sentence else None

    def forward(self, hidden_states: Tensor, pooled: Any, words: Embedding) -> tuple[Tensor, Tensor | None]:
        """Compute the scores of the words, and of the two answers or None."""
        follows = None if self.seq_relationship is None else self.seq_relationship(pooled)
        return self.predictions(hidden_states, words), follows
