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
from .auto import from_config, from_pretrained, supported
from .bert import BertModel, count_parameters
from .bert_heads import (
    BertForMaskedLM,
    BertForPreTraining,
    BertForSequenceClassification,
    BertForTokenClassification,
)
from .config import BertConfig
from .configuration import Configuration
from .decoding import beam_search, generate
from .embed import embed_lines
from .encoder_decoder import EncoderDecoder
from .image_model import ImageModel
from .language_models import CausalModel, EncoderDecoderModel
from .masking import mask_tokens
from .sentence_encoder import SentenceEncoder
from .tokens import Tokenizer
from .transformer_models import EncoderModel

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
    "CausalModel",
    "Configuration",
    "Decoder",
    "Encoder",
    "EncoderDecoder",
    "EncoderDecoderModel",
    "EncoderModel",
    "ImageModel",
    "SentenceEncoder",
    "Seq2SeqAttentionDecoder",
    "Seq2SeqDecoder",
    "Seq2SeqEncoder",
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

publish(__name__)
