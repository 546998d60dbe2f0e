"""Initial values, drawn in place: PyTorch's names and digits."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..._errors import shown
from .._functions import where
from .._grad_mode import no_grad
from .._random import Generator, default_generator
from .._tensor import Tensor, refuse_attribute

_GAINS = {"linear": 1.0, "sigmoid": 1.0, "tanh": 5.0 / 3, "relu": math.sqrt(2.0), "selu": 3.0 / 4}


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


@no_grad()
def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Uniform numbers from a to b.

    Examples
    --------
    >>> import qkv.torch as torch
    >>> torch.nn.init.uniform_(torch.empty(2, 3)).shape
    torch.Size([2, 3])
    """
    return tensor.uniform_(a, b, generator=generator)


@no_grad()
def normal_(
    tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Generator | None = None
) -> Tensor:
    """Normal numbers."""
    return tensor.normal_(mean, std, generator=generator)


@no_grad()
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
    return draw()


@no_grad()
def constant_(tensor: Tensor, val: float) -> Tensor:
    """One number everywhere."""
    return tensor.fill_(val)


def zeros_(tensor: Tensor) -> Tensor:
    """0 everywhere."""
    return constant_(tensor, 0.0)


def ones_(tensor: Tensor) -> Tensor:
    """1 everywhere."""
    return constant_(tensor, 1.0)


@no_grad()
def eye_(tensor: Tensor) -> Tensor:
    """1 on the diagonal, 0 elsewhere."""
    return tensor.copy_(Tensor(np.eye(*tensor.shape)))


def _xavier(tensor: Tensor, gain: float) -> float:
    fan_in, fan_out = _fans(tensor)
    return gain * math.sqrt(2.0 / float(fan_in + fan_out))


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Uniform in ``+-gain sqrt(6 / (fan_in + fan_out))``."""
    bound = math.sqrt(3.0) * _xavier(tensor, gain)
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Normal with standard deviation ``gain sqrt(2 / (fan_in + fan_out))``."""
    return normal_(tensor, 0.0, _xavier(tensor, gain), generator)


def _kaiming(name: str, meaning: str, draw: Callable[[Tensor, float, Generator | None], Tensor]) -> Any:
    """Make a function that draws with the standard deviation ``gain / sqrt(fan)``."""

    def f(
        tensor: Tensor,
        a: float = 0,
        mode: str = "fan_in",
        nonlinearity: str = "leaky_relu",
        generator: Generator | None = None,
    ) -> Tensor:
        if mode not in ("fan_in", "fan_out"):
            raise ValueError(f"{name}: mode must be 'fan_in' or 'fan_out'; got {shown(mode)}")
        fan = _fans(tensor)[mode == "fan_out"]
        return draw(tensor, calculate_gain(nonlinearity, a) / math.sqrt(fan) if fan else 0.0, generator)

    f.__name__, f.__qualname__, f.__doc__ = name, name, meaning
    return f


kaiming_uniform_ = _kaiming(
    "kaiming_uniform_",
    "Uniform in ``+-sqrt(3) gain / sqrt(fan)``.",
    lambda t, std, rng: uniform_(t, -math.sqrt(3.0) * std, math.sqrt(3.0) * std, rng),
)
kaiming_normal_ = _kaiming(
    "kaiming_normal_",
    "Normal with standard deviation ``gain / sqrt(fan)``.",
    lambda t, std, rng: normal_(t, 0.0, std, rng),
)


@no_grad()
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
    return tensor.copy_(Tensor(values))


# Old names, with a warning in PyTorch.
xavier_uniform, xavier_normal, uniform, normal = xavier_uniform_, xavier_normal_, uniform_, normal_
constant = constant_


def __getattr__(name: str) -> Any:
    refuse_attribute("torch.nn.init", name)
