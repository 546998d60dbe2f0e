"""Functions that formulas compute from their operations, by the names that NumPy, PyTorch and this package give them.

Each is given `do`, which applies an operation by its name, and the function's arguments, of which one is traced.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

Do = Callable[..., Any]


def _silu(do: Do, input: Any) -> Any:
    return input * do("sigmoid", input)


def _gelu(do: Do, input: Any, approximate: str = "none") -> Any:
    if approximate == "tanh":
        bell = do("tanh", math.sqrt(2 / math.pi) * (input + 0.044715 * input**3))
    else:
        bell = do("erf", input * math.sqrt(0.5))
    return input * (0.5 + 0.5 * bell)


def _softplus(do: Do, input: Any, beta: float = 1, threshold: float = 20) -> Any:
    x = input * beta
    smooth = do("maximum", x, 0.0) + _log1p(do, do("exp", -abs(x)))
    return do("where", x > threshold, input, smooth / beta)


def _log_sigmoid(do: Do, input: Any) -> Any:
    return -_softplus(do, -input, threshold=math.inf)


def _log1p(do: Do, input: Any) -> Any:
    """The logarithm, times by how much the sum with 1 is wrong where that can be seen."""
    total = 1 + input * 1.0
    moved = do("where", (abs(input) < 0.5) & (total != 1), total - 1, 1.0)
    near = do("where", total == 1, input, do("log", total) * (input / moved))
    return do("where", abs(input) < 0.5, near, do("log", total))


def _expm1(do: Do, input: Any) -> Any:
    """``tanh(x / 2) (e^x + 1)``, which has its digits near 0."""
    return do("tanh", input * 0.5) * (do("exp", input) + 1)


def _log2(do: Do, input: Any) -> Any:
    return do("log", input) * (1 / math.log(2))


def _log10(do: Do, input: Any) -> Any:
    return do("log", input) * (1 / math.log(10))


def _rsqrt(do: Do, input: Any) -> Any:
    return 1 / do("sqrt", input)


def _reciprocal(do: Do, input: Any) -> Any:
    return 1 / input


def _sign(do: Do, input: Any) -> Any:
    one = 1.0 if input.value().node.kind == "f" else 1
    return do("where", input > 0, one, do("where", input < 0, -one, 0))


def _ceil(do: Do, input: Any) -> Any:
    return -do("floor", -input)


def _trunc(do: Do, input: Any) -> Any:
    return do("where", input < 0, _ceil(do, input), do("floor", input))


def _fmod(do: Do, input: Any, other: Any) -> Any:
    """The remainder of absolute values, with the sign of the first."""
    size = do("remainder", abs(input), abs(other))
    return do("where", input < 0, -size, size)


def _masked_fill(do: Do, input: Any, mask: Any, value: Any) -> Any:
    return do("where", mask, value, input)


COMPOSED: dict[str, Callable[..., Any]] = {
    f.__name__.lstrip("_"): f
    for f in (
        _silu, _gelu, _softplus, _log1p, _expm1, _log2, _log10, _rsqrt, _reciprocal, _sign, _ceil, _trunc,
        _fmod, _masked_fill,
    )
}  # fmt: skip
COMPOSED |= {"logsigmoid": _log_sigmoid, "log_sigmoid": _log_sigmoid, "fix": _trunc}
