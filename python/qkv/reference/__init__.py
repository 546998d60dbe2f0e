"""The mathematics of qkv in plain NumPy float64, written for reading.

Each function computes what the public one of the same name computes, in a few lines with the shapes beside
them and no thought of speed. The tests compare the C++ core with these functions. Layers are functions of a
state dict.
"""

from .._public import publish
from . import masks
from .activation import gelu, relu, sigmoid, tanh
from .additive import additive_attention
from .attention import scaled_dot_product_attention
from .kernel_pooling import kernel_attention, kernel_values
from .layers import (
    add_norm,
    linear,
    multi_head_attention,
    position_wise_ffn,
    transformer_decoder_layer,
    transformer_encoder_layer,
)
from .linear_recurrence import linear_attention
from .losses import cross_entropy, mse, nll_loss
from .norm import layer_norm, rms_norm
from .normalizers import (
    log_softmax,
    logsumexp,
    masked_softmax,
    softmax,
    softmax_jacobian,
    sparsemax,
)
from .optim import adam_step, adamw_step, clip_grad_norm, sgd_step
from .positions import alibi_slopes, apply_rotary, relative_rotation, rotary_tables, sinusoidal_positions
from .recurrent import gru, gru_cell
from .rows import entmax

__all__ = [
    "adam_step",
    "adamw_step",
    "add_norm",
    "additive_attention",
    "alibi_slopes",
    "apply_rotary",
    "clip_grad_norm",
    "cross_entropy",
    "entmax",
    "gelu",
    "gru",
    "gru_cell",
    "kernel_attention",
    "kernel_values",
    "layer_norm",
    "linear",
    "linear_attention",
    "log_softmax",
    "logsumexp",
    "masked_softmax",
    "masks",
    "mse",
    "multi_head_attention",
    "nll_loss",
    "position_wise_ffn",
    "relative_rotation",
    "relu",
    "rms_norm",
    "rotary_tables",
    "scaled_dot_product_attention",
    "sgd_step",
    "sigmoid",
    "sinusoidal_positions",
    "softmax",
    "softmax_jacobian",
    "sparsemax",
    "tanh",
    "transformer_decoder_layer",
    "transformer_encoder_layer",
]

publish(__name__)
