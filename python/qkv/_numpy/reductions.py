"""NumPy's sums, means and their like."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import _core
from .._core import Tensor
from .._operations import OPERATIONS, OWN, PLACE
from . import UnsupportedError
from .products import tensor
from .table import any_dtype, method
from .table import only as _only
from .table import register as _register
from .table import registered as _for


def _kept(keepdims: Any) -> bool:
    return keepdims is not False and keepdims is not np._NoValue and bool(keepdims)


def _summing(name: str) -> Callable[..., Any]:
    """NumPy's arguments of a sum, a mean or a product."""

    def implementation(
        a: Any,
        axis: Any = None,
        dtype: Any = None,
        out: Any = None,
        keepdims: Any = False,
        *more: Any,
        **named: Any,
    ) -> Any:
        if out is not None or more or named:
            _only(out=out, positional=more or None, **named)
        return getattr(a if dtype is None else a.astype(dtype), name)(axis, _kept(keepdims))

    return implementation


def _extreme(name: str) -> Callable[..., Any]:
    def implementation(
        a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, *more: Any, **named: Any
    ) -> Any:
        if out is not None or more or named:
            _only(out=out, positional=more or None, **named)
        return getattr(a, name)(axis, _kept(keepdims))

    return implementation


@_for("ptp")
def _ptp(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False) -> Any:
    _only(out=out)
    return a.max(axis, _kept(keepdims)) - a.min(axis, _kept(keepdims))


def _telling(name: str) -> Callable[..., Any]:
    """Return NumPy's result of a reduction that has no gradient by nature."""

    def implementation(
        a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = None
    ) -> Any:
        if out is not None or where is not None:
            _only(out=out, where=where)
        if a.ndim == 0:
            raise UnsupportedError("NumPy takes axes of a number")
        return getattr(a, name)(axis, _kept(keepdims)).numpy()[()]

    return implementation


for _row in OPERATIONS.values():
    if _row.parameters != "x, axis=None, keepdims=False":
        continue
    if _row.dtype == PLACE:
        any_dtype(_row.core)(_telling(_row.core))
    else:
        _register((_extreme if _row.dtype == OWN else _summing)(_row.core), _row.core, _row.name)
        method(_row.core, getattr(Tensor, _row.core), 2)


def _spread(name: str) -> Callable[..., Any]:
    def implementation(
        a: Any,
        axis: Any = None,
        dtype: Any = None,
        out: Any = None,
        ddof: Any = 0,
        keepdims: Any = False,
        *,
        where: Any = None,
        mean: Any = None,
        correction: Any = None,
    ) -> Any:
        _only(dtype=dtype, out=out, where=where, mean=mean)
        if correction is not None and correction is not np._NoValue:
            ddof = correction
        return getattr(a, name)(axis, _kept(keepdims), ddof=ddof)

    return implementation


_register(_spread("var"), "var")
_register(_spread("std"), "std")


def _running(function: Callable[..., Any]) -> Callable[..., Any]:
    def implementation(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
        _only(out=out)
        return function(a if dtype is None else a.astype(dtype), axis)

    return implementation


_register(_running(_core.cumsum), "cumsum")
_register(_running(_core.cumprod), "cumprod")


@_for("average")
def _average(
    a: Any, axis: Any = None, weights: Any = None, returned: Any = False, *, keepdims: Any = False
) -> Any:
    if returned:
        raise UnsupportedError("returned is not known here")
    a = tensor(a)
    if weights is None:
        return a.mean(axis, _kept(keepdims))
    weights = tensor(weights)
    if weights.shape != a.shape:
        if not isinstance(axis, int) or weights.ndim != 1:
            raise UnsupportedError("weights of another shape are known for one axis only")
        weights = weights.reshape([-1 if i == axis % a.ndim else 1 for i in range(a.ndim)])
    total = (a * weights).sum(axis, _kept(keepdims))
    return total / (weights + np.zeros(a.shape, np.float32)).sum(axis, _kept(keepdims))
