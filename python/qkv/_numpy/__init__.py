"""NumPy's functions on Tensors.

A function that qkv computes (see `functions` and `ufuncs`) gives a Tensor with its gradient. One whose result has no
gradient by nature (`np.isnan`, `np.argmax`, `np.allclose`) gives NumPy's result. Any other gives NumPy's result for
Tensors that do not record and a TypeError for those that do: no gradient is lost unless asked for by `detach()`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np

from .. import _core
from .._core import Tensor
from .._operations import OPERATIONS

# Those that the Tensor's operators answer (cpp/bindings/tensor/operators.cpp) unless they come with options.
OPERATORS = {np.divmod, np.matmul, np.invert}
OPERATORS |= {
    getattr(np, row.numpy) for row in OPERATIONS.values() if row.operator and row.parameters == "a, b"
}
_UFUNCS = "isnan isinf isfinite signbit logical_and logical_or logical_xor logical_not"
_FUNCTIONS = """
all allclose any argmax argmin argpartition argsort argwhere array2string array_equal array_equiv array_repr array_str
bincount can_cast count_nonzero digitize flatnonzero histogram histogram_bin_edges iscomplex iscomplexobj isclose isin
isneginf isposinf isreal isrealobj lexsort may_share_memory nanargmax nanargmin ndim nonzero result_type save savetxt
savez savez_compressed searchsorted shape shares_memory size
"""
# Those that make arrays, of anything; so do the modules that compare and mask.
_CONVERT = "asarray_chkfinite require asfarray atleast_1d atleast_2d atleast_3d broadcast_arrays"
_WRITE = "copyto fill_diagonal place put put_along_axis putmask"
# In whose weights, at this place, the result is linear.
_WEIGHTED = {np.bincount: 1, np.histogram: 4}
_ADVICE = {
    "bincount": "write qkv.one_hot(x, n).T @ weights, or",
    "histogram": "write qkv.one_hot(np.digitize(a, bins) - 1, n).T @ weights, or",
    "linspace": "write start + (stop - start) * np.linspace(0, 1, num), or",
}
_UFUNCS_WITHOUT_GRADIENT = {getattr(np, name) for name in _UFUNCS.split()}
_FUNCTIONS_WITHOUT_GRADIENT = {getattr(np, name) for name in _FUNCTIONS.split()}
_WRITERS = {getattr(np, name) for name in _WRITE.split()}
_DTYPES = {np.dtype(name) for name in ("float32", "float64", "int64", "bool")}


class UnsupportedError(Exception):
    """Raised by an implementation for an argument that it does not know; its text names the argument."""


def tensors_in(value: Any) -> Iterator[Tensor]:
    """Find the Tensors in an argument and in the lists, tuples and dicts in it."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_in(item)
    elif isinstance(value, dict):
        yield from tensors_in(list(value.values()))


def plain(value: Any, change: Callable[[Any], Any] = lambda t: t.numpy()) -> Any:
    """Replace the Tensors in an argument, by NumPy's view of their numbers unless another change is given."""
    if isinstance(value, Tensor):
        return change(value)
    if type(value) in (list, tuple):
        return type(value)(plain(item, change) for item in value)
    if type(value) is dict:
        return {key: plain(item, change) for key, item in value.items()}
    return value


def without_history(value: Any) -> Any:
    """Replace the Tensors that were computed by their numbers, which can be stored."""
    return plain(value, lambda t: t if t.is_leaf else t.detach())


def _wrapped(result: Any) -> Any:
    if isinstance(result, (np.ndarray, np.generic)) and result.dtype in _DTYPES:
        return _core.tensor(result)
    if type(result) in (list, tuple):
        return type(result)(_wrapped(item) for item in result)
    return result


def records(tensors: list[Tensor]) -> bool:
    return _core.grad_enabled() and any(t.requires_grad for t in tensors)


def _lost(name: str, reason: str, module: str = "numpy") -> TypeError:
    advice = (
        f"use qkv.{name}, or" if name in _named_in_qkv() else _ADVICE.get(name, "use qkv's operations, or")
    )
    because = reason or "qkv has no such operation"
    return TypeError(
        f"{module}.{name}: the gradient would be lost because {because}; {advice} detach() the Tensor"
    )


def _weights(function: Any, args: Any, kwargs: Any) -> list[Tensor]:
    """Find the Tensors among the weights of what is counted."""
    place = _WEIGHTED.get(function)
    return [] if place is None else [*tensors_in([kwargs.get("weights"), *args[place : place + 1]])]


def refuse_list() -> None:
    """Refuse to give an array of a Tensor that records to a function of NumPy's that computes with it.

    `Tensor.__array__` asks where NumPy's own Python code wants the array: a Tensor alone is answered by
    `array_function`, so it is in a list or belongs to a function that does not dispatch.
    """
    frame: Any = sys._getframe(1)
    while frame.f_back is not None and _is_numpy(frame.f_back.f_globals.get("__name__", "")):
        frame = frame.f_back
    name, module = frame.f_code.co_name, frame.f_globals.get("__name__", "")
    if name in f"{_CONVERT} {_FUNCTIONS}".split() or module.startswith(("numpy.testing", "numpy.ma")):
        return
    raise TypeError(
        f"numpy.{name}: the gradient would be lost because NumPy makes an array of the Tensors; give it one Tensor "
        "(qkv.stack of a list), or detach() them"
    )


def _is_numpy(module: str) -> bool:
    return module == "numpy" or module.startswith("numpy.")


def _named_in_qkv() -> set[str]:
    from .. import __all__ as public

    return {*public}


def _tables() -> tuple[ModuleType, ModuleType]:
    from . import functions, ufuncs  # at the first use: most programs need neither

    return functions, ufuncs


def _change(function: Callable[..., Any], target: Tensor, *args: Any, **kwargs: Any) -> None:
    """Let a function of NumPy's write into a Tensor, whose version rises."""
    numbers = np.array(target)
    function(numbers, *args, **kwargs)
    target[...] = numbers


def array_ufunc(self: Tensor, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
    """Answer `np.exp(tensor)`, `array + tensor`, `np.add.reduce(tensor)` and their like."""
    called = method == "__call__"
    found = [*tensors_in(inputs), *tensors_in(options)]
    implementation, reason = None, ""
    if method in ("__call__", "reduce"):
        implementation = _tables()[1].TABLES[method].get(ufunc)
    if implementation is not None and any(t.dtype.kind == "f" for t in found):
        try:
            return implementation(*inputs, **options)
        except UnsupportedError as error:
            reason = str(error)
    if records(found) and not (called and ufunc in _UFUNCS_WITHOUT_GRADIENT):
        raise _lost(ufunc.__name__ if called else f"{ufunc.__name__}.{method}", reason)
    function = ufunc if called else getattr(ufunc, method)
    if method == "at" and isinstance(inputs[0], Tensor):
        return _change(function, inputs[0], *plain(inputs[1:]))
    out = options.pop("out", ())
    if not any(isinstance(target, Tensor) for target in out):
        result = function(*plain(inputs), **plain(options), **({"out": out} if out else {}))
        return _wrapped(result) if not out and (implementation is not None or ufunc in OPERATORS) else result
    results = function(*plain(inputs), **plain(options))
    for target, result in zip(out, results if ufunc.nout > 1 else [results], strict=True):
        if target is not None:
            target[...] = result
    return out if ufunc.nout > 1 else out[0]


def array_function(self: Tensor, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
    """Answer `np.concatenate([tensor, ...])` and every other function that NumPy dispatches.

    Most calls do not come here: cpp/bindings/tensor/numpy_functions.cpp calls the implementation itself.
    """
    if not all(issubclass(kind, (Tensor, np.ndarray)) for kind in types):
        return NotImplemented
    found = [*tensors_in(args), *tensors_in(kwargs)]
    tables = _tables()[0]
    implementation, reason = tables.TABLE.get(function), ""
    moves = function in tables.ANY_DTYPE and bool(args) and isinstance(args[0], Tensor)
    answers = moves or any(t.dtype.kind == "f" for t in found)
    if implementation is not None and answers:
        try:
            return implementation(*args, **kwargs)
        except UnsupportedError as error:
            reason = str(error)
    if records(found) and (
        function not in _FUNCTIONS_WITHOUT_GRADIENT or records(_weights(function, args, kwargs))
    ):
        raise _lost(function.__name__, reason, function.__module__)
    if function in _WRITERS and args and isinstance(args[0], Tensor):
        return _change(function, args[0], *plain(args[1:]), **plain(kwargs))
    out = kwargs.get("out")
    if isinstance(out, Tensor):
        out[...] = function(
            *plain(args), **plain({key: value for key, value in kwargs.items() if key != "out"})
        )
        return out
    result = function(*plain(args), **plain(kwargs))
    gives = implementation is not None and function not in _FUNCTIONS_WITHOUT_GRADIENT
    return _wrapped(result) if gives and out is None else result
