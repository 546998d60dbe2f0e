"""Whole models, made of the layers of :mod:`qkv.nn`."""

from .bert import (
    BertForMaskedLM,
    BertForPreTraining,
    BertForSequenceClassification,
    BertForTokenClassification,
    BertModel,
    count_parameters,
)
from .config import BertConfig
from .embed import embed_lines
from .masking import mask_tokens
from .sentence_encoder import SentenceEncoder
from .tokens import Tokenizer

__all__ = [
    "BertConfig",
    "BertForMaskedLM",
    "BertForPreTraining",
    "BertForSequenceClassification",
    "BertForTokenClassification",
    "BertModel",
    "SentenceEncoder",
    "Tokenizer",
    "count_parameters",
    "embed_lines",
    "mask_tokens",
]
