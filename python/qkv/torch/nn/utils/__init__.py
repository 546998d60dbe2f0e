"""``torch.nn.utils``: clipping of gradients, padding."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import partial

import numpy as np

from .... import _core
from ... import _dtypes
from ..._tensor import Tensor, refuse_attribute, wrap_array
from . import rnn


def clip_grad_norm_(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False, foreach=None) -> Tensor:
    """Multiply all gradients by ``max_norm / (norm + 1e-6)`` if that is below 1; returns the norm before.

    Examples
    --------
    >>> import qkv.torch as torch
    >>> w = torch.tensor([3.0, 4.0], requires_grad=True)
    >>> (w * w).sum().backward()
    >>> torch.nn.utils.clip_grad_norm_([w], 1.0), w.grad
    (tensor(10.), tensor([0.6000, 0.8000]))
    """
    if norm_type != 2:
        raise ValueError(f"clip_grad_norm_: norm_type must be 2; got {norm_type}")
    given = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    if not given and isinstance(parameters, Iterator):
        empty = "clip_grad_norm_: `parameters` is an empty generator, no gradient clipping will occur."
        warnings.warn(empty, UserWarning, stacklevel=2)
    learned = [p for p in given if p.grad is not None]
    total = _core.clip_grad_norm(learned, float(max_norm), error_if_nonfinite)
    if error_if_nonfinite and not np.isfinite(total):
        raise RuntimeError("clip_grad_norm_: the gradients must be finite because error_if_nonfinite is True")
    return wrap_array(total, learned[0].dtype if learned else _dtypes.get_default_dtype())


__all__ = ["clip_grad_norm_", "rnn"]


__getattr__ = partial(refuse_attribute, "torch.nn.utils")
