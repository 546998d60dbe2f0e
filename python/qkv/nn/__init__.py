"""Layers: the classes of the C++ core, to be called, combined and subclassed.

Inputs are NumPy arrays or Tensors, results are Tensors. A layer computes in the dtype of its parameters. State dicts
have PyTorch's names.
"""

from .._core import (
    GELU,
    GRU,
    AdditiveAttention,
    AddNorm,
    Attention,
    BilinearAttention,
    DotProductAttention,
    Dropout,
    Embedding,
    KVCache,
    LayerNorm,
    Linear,
    LinearAttention,
    Module,
    ModuleList,
    MultiHeadAttention,
    Parameter,
    PositionalEncoding,
    PositionWiseFFN,
    ReLU,
    RMSNorm,
    SelfAttention,
    Sequential,
    Tanh,
    TransformerDecoder,
    TransformerDecoderLayer,
    TransformerEncoder,
    TransformerEncoderLayer,
)
from .._public import publish
from . import call_signature as call_signature  # gives Module its __signature__
from . import init

__all__ = [
    "GELU",
    "GRU",
    "AddNorm",
    "AdditiveAttention",
    "Attention",
    "BilinearAttention",
    "DotProductAttention",
    "Dropout",
    "Embedding",
    "KVCache",
    "LayerNorm",
    "Linear",
    "LinearAttention",
    "Module",
    "ModuleList",
    "MultiHeadAttention",
    "Parameter",
    "PositionWiseFFN",
    "PositionalEncoding",
    "RMSNorm",
    "ReLU",
    "SelfAttention",
    "Sequential",
    "Tanh",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
    "init",
]

publish(__name__)
