"""Attention in all its variants, to look at, to learn by training and to use on a CPU.

Functions take NumPy arrays and give NumPy arrays; if any argument is a :class:`Tensor`, they give Tensors, through
which gradients flow. Layers are in :mod:`qkv.nn`, losses in :mod:`qkv.losses`, optimizers in :mod:`qkv.optim`, masks in
:mod:`qkv.masks`, pictures in :mod:`qkv.plot`, the same mathematics in plain NumPy in :mod:`qkv.reference`.
"""

from __future__ import annotations

import importlib
from typing import Any

try:
    from . import _core
except ImportError as error:
    if "libscipy_openblas" in str(error):
        raise ImportError(
            "qkv needs the OpenBLAS library of the package scipy-openblas32; install it: pip install scipy-openblas32"
        ) from error
    raise ImportError(
        f"qkv's compiled core could not be loaded ({error}); build it from the checkout: pip install ."
    ) from error

from ._core import Tensor, cached_bytes, empty_cache, get_num_threads, set_num_threads
from .activation import gelu, relu, sigmoid, tanh
from .additive import additive_attention
from . import nn
from .attention import scaled_dot_product_attention
from .config import config, show_config
from .functions import abs, clip, concatenate, cos, exp, log, logsumexp, matmul, sin, sqrt, stack, where
from .kernel_pooling import NadarayaWatson, kernel_attention, kernel_values
from .positions import alibi_slopes, apply_rotary, relative_rotation, rotary_tables, sinusoidal_positions
from .random import Generator, bernoulli, manual_seed, normal, rand, randint, randn, randperm, uniform
from .softmax import log_softmax, masked_softmax, softmax, softmax_jacobian
from .nn import no_attention_record
from .tensors import grad, jacobian, no_grad, tensor

__version__: str = _core.config()["version"]

_SUBMODULES = ("losses", "masks", "optim", "plot", "reference", "reproduce", "testing")


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_SUBMODULES])
