"""Attention in all its variants, to look at, to learn by training and to use on a CPU.

Functions take NumPy arrays and give NumPy arrays; if any argument is a :class:`Tensor`, they give Tensors, through
which gradients flow. Layers are in :mod:`qkv.nn`, models in :mod:`qkv.models`, losses in :mod:`qkv.losses`, optimizers
in :mod:`qkv.optim`, masks in :mod:`qkv.masks`, pictures in :mod:`qkv.plot`, a training loop in :mod:`qkv.training`,
values inside a model, recorded and changed, in :mod:`qkv.look`, small data sets in :mod:`qkv.data`, the same
mathematics in plain NumPy in :mod:`qkv.reference`, PyTorch's names for code from textbooks in :mod:`qkv.torch`, and
what gives qkv to PyTorch and transformers in :mod:`qkv.pytorch`.
"""

from __future__ import annotations

import os as _os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from . import (
        data,
        distributed,
        look,
        losses,
        masks,
        models,
        optim,
        plot,
        reference,
        reproduce,
        scores,
        testing,
        torch,
        training,
    )

try:
    from . import _core
except ImportError as error:
    if "subinterpreter" in str(error):
        raise
    if not _os.path.exists(__file__):
        raise ImportError(
            f"qkv cannot be imported from inside a zip archive ({__file__}) because its core is compiled; install it "
            "outside: pip install --target FOLDER qkv, and put FOLDER on sys.path"
        ) from error
    raise ImportError(
        f"qkv's compiled core could not be loaded ({error}); build it from the checkout: pip install ."
    ) from error

from . import _callbacks as _callbacks
from . import interop, nn, random
from ._core import Tensor
from ._public import publish as _publish
from .functions import elementwise, joining, products, reductions, sorting
from .functions.activation import elu, gelu, leaky_relu, relu, sigmoid, silu, softplus, tanh
from .functions.additive import additive_attention
from .functions.attention import scaled_dot_product_attention
from .functions.elementwise import *  # noqa: F403
from .functions.gradients import grad, jacobian, no_grad, tensor
from .functions.image import attention_image
from .functions.joining import *  # noqa: F403
from .functions.linear import linear_attention
from .functions.normalizers import entmax, log_softmax, masked_softmax, softmax, softmax_jacobian, sparsemax
from .functions.positions import (
    alibi_slopes,
    apply_rotary,
    relative_rotation,
    rotary_tables,
    sinusoidal_positions,
)
from .functions.products import *  # noqa: F403
from .functions.reductions import *  # noqa: F403
from .functions.settings import (
    cached_bytes,
    config,
    empty_cache,
    get_num_threads,
    get_reproducible,
    set_num_threads,
    set_reproducible,
    show_config,
)
from .functions.sorting import *  # noqa: F403
from .kernel_pooling import NadarayaWatson, kernel_attention, kernel_values
from .nn.record import no_attention_record
from .random import Generator, bernoulli, manual_seed, normal, rand, randint, randn, randperm, uniform

__version__: str = _core.config()["version"]

__all__ = [
    "Generator",
    "NadarayaWatson",
    "Tensor",
    "__version__",
    "additive_attention",
    "alibi_slopes",
    "apply_rotary",
    "attention_image",
    "bernoulli",
    "cached_bytes",
    "config",
    "data",
    "distributed",
    "elu",
    "empty_cache",
    "entmax",
    "gelu",
    "get_num_threads",
    "get_reproducible",
    "grad",
    "interop",
    "jacobian",
    "kernel_attention",
    "kernel_values",
    "leaky_relu",
    "linear_attention",
    "log_softmax",
    "look",
    "losses",
    "manual_seed",
    "masked_softmax",
    "masks",
    "models",
    "nn",
    "no_attention_record",
    "no_grad",
    "normal",
    "optim",
    "plot",
    "rand",
    "randint",
    "randn",
    "random",
    "randperm",
    "reference",
    "relative_rotation",
    "relu",
    "reproduce",
    "rotary_tables",
    "scaled_dot_product_attention",
    "scores",
    "set_num_threads",
    "set_reproducible",
    "show_config",
    "sigmoid",
    "silu",
    "sinusoidal_positions",
    "softmax",
    "softmax_jacobian",
    "softplus",
    "sparsemax",
    "tanh",
    "tensor",
    "testing",
    "torch",
    "training",
    "uniform",
]
__all__ += elementwise.__all__ + joining.__all__ + products.__all__ + reductions.__all__ + sorting.__all__

# Imported when they are asked for, so that `import qkv` stays quick. `pytorch`, which imports PyTorch, is not one of
# the names that `from qkv import *` and checkers of types look at.
_SUBMODULES = """data distributed look losses masks models optim plot pytorch reference reproduce scores testing torch
training"""

_publish(__name__, _SUBMODULES.split())
