"""``torch.nn``: modules with PyTorch's names, arguments, text and initial values."""

from __future__ import annotations

from functools import partial

from .._tensor import refuse_attribute
from . import attention as attention
from . import functional as functional
from . import init as init
from . import parallel as parallel
from . import utils as utils
from ._activations import GELU as GELU
from ._activations import BCELoss as BCELoss
from ._activations import BCEWithLogitsLoss as BCEWithLogitsLoss
from ._activations import CrossEntropyLoss as CrossEntropyLoss
from ._activations import KLDivLoss as KLDivLoss
from ._activations import L1Loss as L1Loss
from ._activations import LogSigmoid as LogSigmoid
from ._activations import LogSoftmax as LogSoftmax
from ._activations import MSELoss as MSELoss
from ._activations import NLLLoss as NLLLoss
from ._activations import ReLU as ReLU
from ._activations import Sigmoid as Sigmoid
from ._activations import SiLU as SiLU
from ._activations import Softmax as Softmax
from ._activations import Softplus as Softplus
from ._activations import Tanh as Tanh
from ._attention import MultiheadAttention as MultiheadAttention
from ._containers import ModuleDict as ModuleDict
from ._containers import ModuleList as ModuleList
from ._containers import ParameterList as ParameterList
from ._containers import Sequential as Sequential
from ._layers import Dropout as Dropout
from ._layers import Embedding as Embedding
from ._layers import Flatten as Flatten
from ._layers import Identity as Identity
from ._layers import LayerNorm as LayerNorm
from ._layers import LazyLinear as LazyLinear
from ._layers import Linear as Linear
from ._layers import RMSNorm as RMSNorm
from ._module import Module as Module
from ._patches import Conv2d as Conv2d
from ._patches import LazyConv2d as LazyConv2d
from ._recurrent import GRU as GRU
from ._recurrent import LSTM as LSTM
from ._recurrent import RNN as RNN
from ._transformer import Transformer as Transformer
from ._transformer import TransformerDecoder as TransformerDecoder
from ._transformer import TransformerDecoderLayer as TransformerDecoderLayer
from ._transformer import TransformerEncoder as TransformerEncoder
from ._transformer import TransformerEncoderLayer as TransformerEncoderLayer
from .parameter import Parameter as Parameter

__all__ = [name for name in dir() if name[0].isupper()] + [
    "attention",
    "functional",
    "init",
    "parallel",
    "utils",
]


__getattr__ = partial(refuse_attribute, "torch.nn")
