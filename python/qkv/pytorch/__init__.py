"""qkv inside PyTorch: its functions on ``torch.Tensor``, with gradients, and attention for models of transformers.

:func:`function` makes any function of qkv one of PyTorch; the rest is that applied. Tensors share their memory with
qkv, gradients arrive by ``torch.autograd``. It needs PyTorch, on the CPU; without PyTorch there is :mod:`qkv.torch`.
"""

try:
    import torch as _torch  # noqa: F401
except ImportError as error:
    raise ImportError("qkv.pytorch needs PyTorch: pip install torch") from error

from .._public import publish
from .autograd import function
from .flex import flex_attention
from .functional import sdpa
from .recording import record
from .threads import borrow
from .transformers import register
from .variants import (
    additive_attention,
    attention_image,
    entmax,
    kernel_attention,
    linear_attention,
    masked_softmax,
    scaled_dot_product_attention,
    softmax,
    sparsemax,
)

__all__ = [
    "additive_attention",
    "attention_image",
    "entmax",
    "flex_attention",
    "function",
    "kernel_attention",
    "linear_attention",
    "masked_softmax",
    "record",
    "register",
    "scaled_dot_product_attention",
    "sdpa",
    "softmax",
    "sparsemax",
]

borrow()
publish(__name__)
