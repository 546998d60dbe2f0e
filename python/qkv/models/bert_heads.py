"""What stands on top of BERT: scores of words, of the next sentence, and of classes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .._core import Embedding, LayerNorm, Linear, Module, Parameter, SkipInit, Tensor
from ..nn import init
from .config import BertConfig
from .configuration import ACTIVATIONS
from .heads import FUNCTIONS


def draw(module: Module, spread: float) -> None:
    """Draw the weights of linear layers and tables; biases and the row of padding become zeros."""
    for part in module.modules():
        if not isinstance(part, (Linear, Embedding)):
            continue
        init.normal(part.weight, 0, spread)
        if isinstance(part, Linear) and part.bias is not None:
            part.bias.copy_(np.zeros(part.out_features, np.float32))
        elif isinstance(part, Embedding) and part.padding_idx is not None:
            table = part.weight.numpy().copy()
            table[part.padding_idx] = 0
            part.weight.copy_(table)


def drawn(config: BertConfig, values: bool, make: Callable[[], Any]) -> Any:
    """Give what `make` makes, drawn as BERT is unless its values are not wanted."""
    with SkipInit():
        module = make()
    if values:
        draw(module, config.initializer_range)
    return module


class BertPredictionHeadTransform(Module):
    """``LayerNorm(act(dense(x)))``."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.activation = ACTIVATIONS[config.hidden_act]
        self.dense = Linear(config.hidden_size, config.hidden_size)
        self.LayerNorm = LayerNorm(config.hidden_size, config.layer_norm_eps)

    def forward(self, hidden_states: Tensor) -> Tensor:
        """Compute it, ``(..., M)``."""
        y: Tensor = self.LayerNorm(FUNCTIONS[self.activation](self.dense(hidden_states)))
        return y


class BertPredictionHead(Module):
    """``transform(x) @ words.T + bias``, where words is the table of word embeddings."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.transform = BertPredictionHeadTransform(config)
        self.bias = Parameter(np.zeros(config.vocab_size, np.float32))

    def forward(self, hidden_states: Tensor, words: Embedding) -> Tensor:
        """Compute the scores, ``(..., V)``."""
        return words.logits(self.transform(hidden_states), self.bias)


class BertPreTrainingHeads(Module):
    """The heads of pre-training: parts ``predictions`` and ``seq_relationship``, which may be None."""

    def __init__(self, config: BertConfig, next_sentence: bool = True) -> None:
        super().__init__()
        self.predictions = BertPredictionHead(config)
        self.seq_relationship = Linear(config.hidden_size, 2) if next_sentence else None

    def forward(self, hidden_states: Tensor, pooled: Any, words: Embedding) -> tuple[Tensor, Tensor | None]:
        """Compute the scores of the words, and of the two answers or None."""
        follows = None if self.seq_relationship is None else self.seq_relationship(pooled)
        return self.predictions(hidden_states, words), follows
