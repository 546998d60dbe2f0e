"""Whole models, made of the layers of :mod:`qkv.nn`."""

from .._core import (
    AttentionDecoder,
    CausalLM,
    CausalLMLayer,
    Decoder,
    Encoder,
    EncoderDecoder,
    Seq2SeqAttentionDecoder,
    Seq2SeqDecoder,
    Seq2SeqEncoder,
    Transformer,
)
from .._public import publish
from .bert import (
    BertForMaskedLM,
    BertForPreTraining,
    BertForSequenceClassification,
    BertForTokenClassification,
    BertModel,
    count_parameters,
)
from .config import BertConfig
from .decoding import beam_search, generate
from .embed import embed_lines
from .masking import mask_tokens
from .sentence_encoder import SentenceEncoder
from .tokens import Tokenizer

__all__ = [
    "AttentionDecoder",
    "BertConfig",
    "BertForMaskedLM",
    "BertForPreTraining",
    "BertForSequenceClassification",
    "BertForTokenClassification",
    "BertModel",
    "CausalLM",
    "CausalLMLayer",
    "Decoder",
    "Encoder",
    "EncoderDecoder",
    "SentenceEncoder",
    "Seq2SeqAttentionDecoder",
    "Seq2SeqDecoder",
    "Seq2SeqEncoder",
    "Tokenizer",
    "Transformer",
    "beam_search",
    "count_parameters",
    "embed_lines",
    "generate",
    "mask_tokens",
]

publish(__name__)
