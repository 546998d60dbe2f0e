"""NumPy's functions of single numbers, out of operations that have gradients."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import _core
from .._core import Tensor
from .._operations import OPERATIONS
from . import OPERATORS, UnsupportedError, array_ufunc, plain, records, tensors_in


def logaddexp(a: Any, b: Any) -> Any:
    """``log(e^a + e^b)``: the larger plus ``log(1 + e^-d)`` of their distance, which keeps its digits near 0."""
    first = plain(a) >= plain(b)
    high, low = _core.where(first, a, b), _core.where(first, b, a)
    same = np.isinf(plain(high)) & plain(high == low)  # whose difference is NaN
    return high + _core.softplus(_core.where(same, 0.0, low - high), 1.0)


# Those of the table of operations, except for operators, which the core answers itself; and others.
CALLS: dict[Any, Callable[..., Any]] = {
    getattr(np, row.numpy): row.compute
    for row in OPERATIONS.values()
    if row.numpy and (getattr(np, row.numpy) not in OPERATORS)
}
CALLS |= {
    np.positive: lambda x: x.copy(),
    np.conjugate: lambda x: x,
    np.fabs: _core.abs,
    np.square: lambda x: x * x,
    np.reciprocal: lambda x: 1 / x,
    np.logaddexp: logaddexp,
    np.divmod: divmod,
}
CALLS |= dict.fromkeys((np.deg2rad, np.radians), lambda x: x * (math.pi / 180))
CALLS |= dict.fromkeys((np.rad2deg, np.degrees), lambda x: x * (180 / math.pi))


def _of_arrays(ufunc: np.ufunc) -> Callable[..., Any]:
    def answer(*inputs: Any) -> Any:
        found = [*tensors_in(inputs)]
        return array_ufunc(found[0], ufunc, "__call__", *inputs) if records(found) else ufunc(*plain(inputs))

    return answer


# All others: NumPy's results.
OF_ARRAYS = {
    ufunc: _of_arrays(ufunc)
    for ufunc in vars(np).values()
    if isinstance(ufunc, np.ufunc) and ufunc not in CALLS and ufunc not in OPERATORS
}


def _reduction(reduce: Callable[[Tensor, Any, bool], Any]) -> Callable[..., Any]:
    def implementation(
        array: Tensor, axis: Any = 0, dtype: Any = None, out: Any = None, keepdims: bool = False
    ) -> Any:
        if dtype is not None or any(target is not None for target in out or ()):
            raise UnsupportedError("dtype and out are not known here")
        return reduce(array, axis, keepdims)

    return implementation


REDUCTIONS: dict[Any, Callable[..., Any]] = {
    np.add: _reduction(lambda x, axis, keepdims: x.sum(axis, keepdims)),
    np.maximum: _reduction(lambda x, axis, keepdims: x.max(axis, keepdims)),
    np.minimum: _reduction(lambda x, axis, keepdims: x.min(axis, keepdims)),
    np.multiply: _reduction(lambda x, axis, keepdims: x.prod(axis, keepdims)),
}


def _strict(function: Callable[..., Any]) -> Callable[..., Any]:
    def implementation(*inputs: Any, **options: Any) -> Any:
        if options:
            raise UnsupportedError(f"{', '.join(options)} is not known here")
        return function(*inputs)

    return implementation


TABLES = {
    "__call__": {ufunc: _strict(function) for ufunc, function in CALLS.items()},
    "reduce": REDUCTIONS,
}
