"""Whole models, made of the layers of :mod:`qkv.nn`."""

from .._core import (
    AttentionDecoder,
    CausalLM,
    CausalLMLayer,
    Decoder,
    Encoder,
    Seq2SeqAttentionDecoder,
    Seq2SeqDecoder,
    Seq2SeqEncoder,
    Transformer,
)
from .._public import publish
from .architectures.bert_config import BertConfig
from .architectures.configuration import Configuration
from .families.auto import from_config, from_pretrained, supported
from .families.bert import BertModel, count_parameters
from .families.bert_heads import (
    BertForMaskedLM,
    BertForPreTraining,
    BertForQuestionAnswering,
    BertForSequenceClassification,
    BertForTokenClassification,
)
from .families.encoder_decoder import EncoderDecoder
from .families.image_model import ImageModel
from .families.language_models import PretrainedCausalLM, PretrainedEncoderDecoder
from .families.pretrained import PretrainedEncoder
from .generation.decoding import beam_search, generate
from .sentences.cross_encoder import CrossEncoder
from .sentences.embed import embed_lines
from .sentences.sentence_encoder import SentenceEncoder
from .text.masking import mask_tokens
from .text.streams import TextStream
from .text.tokens import Tokenizer

__all__ = [
    "AttentionDecoder",
    "BertConfig",
    "BertForMaskedLM",
    "BertForPreTraining",
    "BertForQuestionAnswering",
    "BertForSequenceClassification",
    "BertForTokenClassification",
    "BertModel",
    "CausalLM",
    "CausalLMLayer",
    "Configuration",
    "CrossEncoder",
    "Decoder",
    "Encoder",
    "EncoderDecoder",
    "ImageModel",
    "PretrainedCausalLM",
    "PretrainedEncoder",
    "PretrainedEncoderDecoder",
    "SentenceEncoder",
    "Seq2SeqAttentionDecoder",
    "Seq2SeqDecoder",
    "Seq2SeqEncoder",
    "TextStream",
    "Tokenizer",
    "Transformer",
    "beam_search",
    "count_parameters",
    "embed_lines",
    "from_config",
    "from_pretrained",
    "generate",
    "mask_tokens",
    "supported",
]

publish(__name__, own_classes=True)
