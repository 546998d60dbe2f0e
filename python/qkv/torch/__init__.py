"""PyTorch's names for code from textbooks: ``import qkv.torch as torch``.

Tensors, modules, losses, optimizers and data loaders have PyTorch's names, arguments, digits and printed text, as
far as chapters on attention and what their readers type next need them. What is missing is an AttributeError that
says so.

Its Tensors are Tensors of qkv: every function and layer of qkv takes them and gives Tensors of its own, which
:func:`as_tensor` brings back with their gradient.

Examples
--------
>>> import qkv.torch as torch
>>> from qkv.torch import nn
>>> _ = torch.manual_seed(0)
>>> nn.Linear(2, 1)(torch.ones(3, 2))
tensor([[-0.2080],
        [-0.2080],
        [-0.2080]], grad_fn=<AddmmBackward0>)
"""

from __future__ import annotations

import math as _math
from types import SimpleNamespace as _Namespace

from .._formulas.operations import add_own as _add_own
from .._words.errors import shown as _shown
from ..functions.settings import get_num_threads, set_num_threads  # noqa: F401
from ..interop import tell_einops as _tell_einops
from . import (  # noqa: F401  # each defines functions of this module
    _conversion,
    _creation,
    _dtypes,
    _elementwise,
    _extremes,
    _functions,
    _grad_mode,
    _in_place,
    _indexing,
    _products,
    _random,
    _reductions,
    _serialization,
    _shaping,
    amp,
    autograd,
    distributed,
    multiprocessing,
    nn,
    optim,
    testing,
    utils,
)
from ._dtypes import Size, device, dtype, finfo, get_default_dtype, iinfo, set_default_dtype  # noqa: F401
from ._printing import set_printoptions  # noqa: F401
from ._random import Generator, default_generator  # noqa: F401
from ._tensor import FUNCTIONS, Tensor, refuse_attribute  # noqa: F401

__version__ = "2.13.0+qkv"  # whose names, digits and text these are
inf, nan, pi, e = _math.inf, _math.nan, _math.pi, _math.e
newaxis = None
globals().update(FUNCTIONS)
globals().update({kind.name: kind for kind in _dtypes.ALL.values()})
globals().update(_dtypes.ALIASES)

cuda = _Namespace(
    is_available=lambda: False,
    is_bf16_supported=lambda: False,
    device_count=lambda: 0,
    empty_cache=lambda: None,
    manual_seed=lambda seed: None,
    manual_seed_all=lambda seed: None,
    amp=amp,
)
# What a program may set of other devices and libraries; nothing here asks.
backends = _Namespace(
    mps=_Namespace(is_available=lambda: False),
    cudnn=_Namespace(deterministic=False, benchmark=False, enabled=False, allow_tf32=False),
    cuda=_Namespace(matmul=_Namespace(allow_tf32=False)),
    mkldnn=_Namespace(is_available=lambda: False),
)


def compile(
    model=None,
    *,
    fullgraph=False,
    dynamic=None,
    backend="inductor",
    mode=None,
    options=None,
    disable=False,
):
    """Return the model: the core is compiled already. Without one, a decorator."""
    return compile if model is None else model


_precision = "highest"


def set_float32_matmul_precision(precision: str) -> None:
    """Change nothing: products of float32 are exact to float32, as by "highest"."""
    global _precision
    if precision not in ("highest", "high", "medium"):
        raise ValueError(
            f"set_float32_matmul_precision: precision must be 'highest', 'high' or 'medium'; got {_shown(precision)}"
        )
    _precision = precision


def get_float32_matmul_precision() -> str:
    """What `set_float32_matmul_precision` was told."""
    return _precision


for _functions_of in (globals(), vars(nn.functional)):
    _add_own(_functions_of)
_tell_einops("qkv.torch._einops")

_NAMES = """Generator Size Tensor amp autograd backends compile cuda default_generator device distributed dtype finfo
get_default_dtype get_float32_matmul_precision get_num_threads iinfo multiprocessing nn optim set_default_dtype
set_float32_matmul_precision set_num_threads set_printoptions testing utils"""
__all__ = [*_NAMES.split(), *FUNCTIONS, *_dtypes.ALL, *_dtypes.ALIASES]


def __dir__() -> list[str]:
    return sorted({*__all__, "d2l", "e", "inf", "nan", "newaxis", "pi"})


def __getattr__(name: str):
    if name in ("d2l", "einops"):
        import importlib

        return importlib.import_module(f"qkv.torch.{name}")
    refuse_attribute("torch", name)
