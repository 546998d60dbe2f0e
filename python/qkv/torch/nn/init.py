"""Initial values, drawn in place: PyTorch's names and digits."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import _core
from ..._errors import shown
from .._functions import where
from .._random import Generator, default_generator
from .._tensor import Tensor, refuse_attribute

_GAINS = {"linear": 1.0, "sigmoid": 1.0, "tanh": 5.0 / 3, "relu": math.sqrt(2.0), "selu": 3.0 / 4}


def _quietly(change: Any) -> Any:
    before = _core.grad_enabled()
    _core.set_grad_enabled(False)
    try:
        return change()
    finally:
        _core.set_grad_enabled(before)


def _fans(tensor: Tensor) -> tuple[int, int]:
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


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Uniform numbers from a to b.

    Examples
    --------
    >>> import qkv.torch as torch
    >>> torch.nn.init.uniform_(torch.empty(2, 3)).shape
    torch.Size([2, 3])
    """
    return _quietly(lambda: tensor.uniform_(a, b, generator=generator))  # type: ignore[no-any-return]


def normal_(
    tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Generator | None = None
) -> Tensor:
    """Normal numbers."""
    return _quietly(lambda: tensor.normal_(mean, std, generator=generator))  # type: ignore[no-any-return]


def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Generator | None = None,
) -> Tensor:
    """Normal numbers within bounds: those outside are drawn anew, the whole shape at a time, as PyTorch 2.13 does.

    Where the bounds hold less than 0.3 of the distribution, uniform numbers are drawn in place of normal ones, and kept
    with the probability of their density.
    """
    from statistics import NormalDist

    def fresh(fill: str, *bounds: float) -> Any:
        return getattr(tensor.clone(), fill)(*bounds, generator=generator)

    def dense_enough(x: Any) -> Any:
        uniform = fresh("uniform_")
        return uniform.log() <= ((x - mean) / std).pow(2) * -0.5 - peak

    def draw() -> Tensor:
        result = (
            tensor.normal_(mean, std, generator=generator)
            if normal
            else tensor.uniform_(a, b, generator=generator)
        )
        wrong = (result < a) | (result > b) if normal else ~dense_enough(result)
        while wrong.any():
            again = fresh("normal_", mean, std) if normal else fresh("uniform_", a, b)
            result = where(wrong, again, result)
            wrong = (result < a) | (result > b) if normal else wrong & ~dense_enough(again)
        return tensor.copy_(result)  # type: ignore[no-any-return]

    if not std > 0:
        raise ValueError(f"trunc_normal_: std must be above 0 because it is divided by; got {shown(std)}")
    unit = NormalDist()
    normal = unit.cdf((b - mean) / std) - unit.cdf((a - mean) / std) > 0.3
    peak = -0.5 * ((max(a, min(mean, b)) - mean) / std) ** 2
    return _quietly(draw)  # type: ignore[no-any-return]


def constant_(tensor: Tensor, val: float) -> Tensor:
    """One number everywhere."""
    return _quietly(lambda: tensor.fill_(val))  # type: ignore[no-any-return]


def zeros_(tensor: Tensor) -> Tensor:
    """0 everywhere."""
    return constant_(tensor, 0.0)


def ones_(tensor: Tensor) -> Tensor:
    """1 everywhere."""
    return constant_(tensor, 1.0)


def eye_(tensor: Tensor) -> Tensor:
    """1 on the diagonal, 0 elsewhere."""
    return _quietly(lambda: tensor.copy_(Tensor(np.eye(*tensor.shape))))  # type: ignore[no-any-return]


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Uniform in ``+-gain sqrt(6 / (fan_in + fan_out))``."""
    fan_in, fan_out = _fans(tensor)
    a = math.sqrt(3.0) * (gain * math.sqrt(2.0 / float(fan_in + fan_out)))
    return uniform_(tensor, -a, a, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Normal with standard deviation ``gain sqrt(2 / (fan_in + fan_out))``."""
    fan_in, fan_out = _fans(tensor)
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / float(fan_in + fan_out)), generator)


def _kaiming(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    fan_in, fan_out = _fans(tensor)
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"kaiming: mode must be 'fan_in' or 'fan_out'; got {mode!r}")
    fan = fan_in if mode == "fan_in" else fan_out
    return calculate_gain(nonlinearity, a) / math.sqrt(fan) if fan else 0.0


def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Uniform in ``+-sqrt(3) gain / sqrt(fan)``."""
    bound = math.sqrt(3.0) * _kaiming(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Normal with standard deviation ``gain / sqrt(fan)``."""
    return normal_(tensor, 0.0, _kaiming(tensor, a, mode, nonlinearity), generator)


def orthogonal_(tensor: Tensor, gain: float = 1, generator: Generator | None = None) -> Tensor:
    """Orthogonal rows or columns: the Q of a random matrix."""
    if len(tensor.shape) < 2:
        raise ValueError(f"orthogonal_: tensor must have at least 2 axes; got shape {tuple(tensor.shape)}")
    rows, columns = tensor.shape[0], int(np.prod(tensor.shape[1:], dtype=int))
    drawn = Tensor(rows, columns).normal_(0, 1, generator=generator or default_generator).numpy()
    q, r = np.linalg.qr(drawn.T if rows < columns else drawn)
    q = q * np.sign(np.diag(r))
    with np.errstate(over="ignore"):
        values = gain * (q.T if rows < columns else q).reshape(tensor.shape)
    return _quietly(lambda: tensor.copy_(Tensor(values)))  # type: ignore[no-any-return]


# Old names, with a warning in PyTorch.
xavier_uniform, xavier_normal, normal, uniform, constant = (
    xavier_uniform_,
    xavier_normal_,
    normal_,
    uniform_,
    constant_,
)


def __getattr__(name: str) -> Any:
    refuse_attribute("torch.nn.init", name)
