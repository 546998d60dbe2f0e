"""Initial values, drawn in place: PyTorch's names and digits."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from ..._words.errors import shown
from .._functions import where
from .._grad_mode import no_grad
from .._random import Generator
from .._tensor import FUNCTIONS, Tensor, refuse_attribute, wrap_array

empty_like = FUNCTIONS["empty_like"]
_GAINS = {"linear": 1.0, "sigmoid": 1.0, "tanh": 5.0 / 3, "relu": math.sqrt(2.0), "selu": 3.0 / 4}


def _fans(tensor) -> tuple[int, int]:
    if len(tensor.shape) < 2:
        raise ValueError(
            f"fan in and fan out need a Tensor of at least 2 axes; got shape {tuple(tensor.shape)}"
        )
    field = int(np.prod(tensor.shape[2:], dtype=int))
    return tensor.shape[1] * field, tensor.shape[0] * field


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The factor by which a nonlinearity asks for larger weights."""
    if nonlinearity == "leaky_relu":
        return math.sqrt(2.0 / (1 + (0.01 if param is None else param) ** 2))
    if nonlinearity not in _GAINS:
        raise ValueError(
            f"calculate_gain: nonlinearity must be one of {[*_GAINS, 'leaky_relu']}; got {shown(nonlinearity)}"
        )
    return _GAINS[nonlinearity]


@no_grad()
def uniform_(tensor, a=0.0, b=1.0, generator=None) -> Tensor:
    """Uniform numbers from a to b.

    Examples
    --------
    >>> import qkv.torch as torch
    >>> torch.nn.init.uniform_(torch.empty(2, 3)).shape
    torch.Size([2, 3])
    """
    return tensor.uniform_(a, b, generator=generator)


@no_grad()
def normal_(tensor, mean=0.0, std=1.0, generator=None) -> Tensor:
    """Normal numbers."""
    return tensor.normal_(mean, std, generator=generator)


@no_grad()
def trunc_normal_(tensor, mean=0.0, std=1.0, a=-2.0, b=2.0, generator=None) -> Tensor:
    """Normal numbers within bounds: those outside are drawn again, the whole shape at a time, as PyTorch 2.13 does.

    Where the bounds hold less than 0.3 of the distribution, uniform numbers are drawn in place of normal ones, and kept
    with the probability of their density.
    """
    from statistics import NormalDist

    if not std > 0:
        raise ValueError(f"trunc_normal_: std must be above 0 because it is divided by; got {shown(std)}")
    unit = NormalDist()
    normal = unit.cdf((b - mean) / std) - unit.cdf((a - mean) / std) > 0.3
    peak = -0.5 * ((max(a, min(mean, b)) - mean) / std) ** 2

    def draw(t) -> Tensor:
        return t.normal_(mean, std, generator=generator) if normal else t.uniform_(a, b, generator=generator)

    def refused(x):
        if normal:
            return (x < a) | (x > b)
        uniform = empty_like(x).uniform_(generator=generator)
        return uniform.log() > ((x - mean) / std).pow(2) * -0.5 - peak

    result = draw(tensor)
    wrong = refused(result)
    while wrong.any():
        again = draw(empty_like(tensor))
        result, wrong = where(wrong, again, result), wrong & refused(again)
    return tensor.copy_(result)


@no_grad()
def constant_(tensor, val: float) -> Tensor:
    """One number everywhere."""
    return tensor.fill_(val)


def zeros_(tensor) -> Tensor:
    """0 everywhere."""
    return constant_(tensor, 0.0)


def ones_(tensor) -> Tensor:
    """1 everywhere."""
    return constant_(tensor, 1.0)


def _evenly(tensor, std: float, generator: Generator | None) -> Tensor:
    """Uniform numbers with mean 0 and a standard deviation."""
    return uniform_(tensor, -math.sqrt(3.0) * std, math.sqrt(3.0) * std, generator)


def _xavier(tensor, gain: float) -> float:
    return gain * math.sqrt(2.0 / float(sum(_fans(tensor))))


def _kaiming(name: str, tensor, a: float, mode: str, nonlinearity: str) -> float:
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"{name}: mode must be 'fan_in' or 'fan_out'; got {shown(mode)}")
    fan = _fans(tensor)[mode == "fan_out"]
    return calculate_gain(nonlinearity, a) / math.sqrt(fan) if fan else 0.0


def xavier_uniform_(tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Uniform in ``+-gain sqrt(6 / (fan_in + fan_out))``."""
    return _evenly(tensor, _xavier(tensor, gain), generator)


def xavier_normal_(tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Normal, of deviation ``gain sqrt(2 / (fan_in + fan_out))``."""
    return normal_(tensor, 0.0, _xavier(tensor, gain), generator)


def kaiming_uniform_(tensor, a=0, mode="fan_in", nonlinearity="leaky_relu", generator=None) -> Tensor:
    """Uniform in ``+-sqrt(3) gain / sqrt(fan)``."""
    return _evenly(tensor, _kaiming("kaiming_uniform_", tensor, a, mode, nonlinearity), generator)


def kaiming_normal_(tensor, a=0, mode="fan_in", nonlinearity="leaky_relu", generator=None) -> Tensor:
    """Normal with standard deviation ``gain / sqrt(fan)``."""
    return normal_(tensor, 0.0, _kaiming("kaiming_normal_", tensor, a, mode, nonlinearity), generator)


@no_grad()
def orthogonal_(tensor, gain: float = 1, generator: Generator | None = None) -> Tensor:
    """Orthogonal rows or columns: the Q of a random matrix."""
    if len(tensor.shape) < 2:
        raise ValueError(f"orthogonal_: tensor must have at least 2 axes; got shape {tuple(tensor.shape)}")
    rows, columns = tensor.shape[0], int(np.prod(tensor.shape[1:], dtype=int))
    drawn = tensor.new_empty((rows, columns)).normal_(0, 1, generator=generator).numpy()
    q, r = np.linalg.qr(drawn.T if rows < columns else drawn)
    q = q * np.sign(np.diag(r))
    with np.errstate(over="ignore"):
        values = gain * (q.T if rows < columns else q).reshape(tensor.shape)
    return tensor.copy_(wrap_array(values))


__getattr__ = partial(refuse_attribute, "torch.nn.init")
