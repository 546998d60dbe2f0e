"""Functions, methods and operators of `qkv.torch` that are views of the table of operations (`_operations`).

Each is a function of Python's, written out from its row: the core computes, `wrap` gives the result its class, dtype
and name. Only the dtype rules are PyTorch's own; they are here, once each.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import _core
from .. import _operations as table
from .._operations import OPERATIONS, Operation
from .._words.errors import shown
from . import _dtypes
from ._arguments import CHECKS, OPERANDS, lines
from ._axes import along, axes_of, axis_of
from ._spelling import _in_torch, told
from ._tensor import FUNCTIONS, Core, Tensor, _core_shape, wrap
from ._tensor import _written as _written_to

# The text of a function by its dtype's rule. `core` computes, `label` is PyTorch's name.
_BODIES = {
    table.FLOATS: """
    if input.__class__ is not Tensor or double(): input = floats(name, input)
    return wrap(core(input), label)""",
    table.OWN: """
    if input.__class__ is not Tensor: input = tensor(name, input)
    if input.dtype.kind == 0: refuse_truth(name)
    return wrap(core(input), label, input._kind)""",
    table.COMMON: """
    x, y, kind = promoted(input, other)
    return wrap(core(x, y), label, kind) if kind.kind == 2 else whole(name, core, x, y, kind, label)""",
    table.BITS: """
    x, y, kind = promoted(input, other)
    if kind.kind == 2: refuse_floats(word, kind)
    return wrap(core(x, y), label, kind)""",
    table.QUOTIENT: """
    x, y, kind = promoted(input, other)
    return wrap(core(x, y) if kind.kind == 2 else core(cast(x), cast(y)), label)""",
    table.TRUTH: """
    return wrap(compared(name, core, input, other))""",
}
_OVER = {  # axes
    table.TOTAL: """
    x = tensor(name, input) if dtype is None else converted(name, input, dtype)
    y = core(x, axes(name, x, dim), keepdim)
    return wrap(y, label if dim is None and not keepdim else label_of_axes, None if dtype is None else x._kind)""",
    table.FLOATING: """
    x = tensor(name, input) if dtype is None else converted(name, input, dtype)
    if x.dtype.kind < 2: refuse(name, x)
    return wrap(core(x, axes(name, x, dim), keepdim), label if dim is None and not keepdim else label_of_axes)""",
    table.OWN: """
    x = tensor(name, input)
    return wrap(core(x, axes(name, x, dim), keepdim), label, x._kind)""",
    table.PLACE: """
    x = tensor(name, input)
    return wrap(core(x, axes(name, x, dim), keepdim))""",
}
_ALONG = """
    x = tensor(name, input) if dtype is None else converted(name, input, dtype)
    if x.dtype.kind < 2: refuse(name, x)
    return wrap(along(lambda x, axis: core(x, axis, 1.0), x, dim), label)"""
_JOINED = """
    return joined(word, core, tensors, dim, label)"""
_WHOLE = """
    if input.dtype.kind == 1: return wrap(of_whole(input), label, input._kind)"""
_OPERATOR = """
    if not isinstance(other, OPERANDS): return NotImplemented
    try:BODY
    except ValueError as error: raise in_torch(word.strip("_"), error) from None"""


def _tensor(name: str, value: Any) -> Tensor:
    if isinstance(value, Tensor):
        return value
    if isinstance(value, Core):
        return wrap(value)
    if not isinstance(value, np.ndarray):
        raise TypeError(f"{name}: input must be a Tensor; got {type(value).__name__}")
    return FUNCTIONS["tensor"](value)  # type: ignore[no-any-return]


def _double() -> bool:
    return _dtypes.get_default_dtype() is _dtypes.float64


def _floats(name: str, value: Any) -> Tensor:
    t = _tensor(name, value)
    return t if t.dtype.kind == 2 else _core.cast(t, _dtypes.get_default_dtype())  # type: ignore[no-any-return]


def _converted(name: str, value: Any, dtype: Any) -> Any:
    return _core.cast(_tensor(name, value), _dtypes.computed(dtype, name))


def _refuse(name: str, t: Tensor) -> None:
    raise RuntimeError(f"{name}: input must hold floating numbers; got {t.dtype}. Use .float().{name}()")


def _refuse_truth(name: str) -> None:
    raise RuntimeError(f"{name}: input must not hold booleans because these are no numbers; use ~ or .long()")


def _refuse_floats(name: str, kind: Any) -> None:
    raise TypeError(f"{name.strip('_')}: input must hold booleans or integers; got {kind}")


def _axes(name: str, t: Any, dim: Any) -> Any:
    """Axes as the core takes them: of a Tensor that has none, 0 and -1 are legal; none at all mean all."""
    if dim is None:
        return None
    rank = len(_core_shape(t))
    if dim.__class__ is int and -rank <= dim < rank:
        return dim
    found = axes_of(dim, t, name)
    if name not in ("prod", "argmax", "argmin"):
        return found
    if isinstance(dim, (tuple, list)):
        raise TypeError(f"{name}: dim must be one axis; got {shown(dim)}")
    return found and found[0]


def _along(core: Callable[..., Any], t: Any, dim: Any) -> Any:
    rank = len(_core_shape(t))
    if dim.__class__ is int and -rank <= dim < rank:
        return core(t, dim)
    return along(core, t, axis_of(dim, rank, "dim"))


def _whole(name: str, core: Any, x: Any, y: Any, kind: Any, label: str) -> Tensor:
    """Arithmetic of integers, and of booleans, whose sum is "or" and whose product "and"."""
    rounded = name in ("remainder", "fmod")
    if rounded and not y.numpy().all():
        raise RuntimeError(f"{name}: other must not be 0 because integers have no infinity")
    if kind.kind == 1:
        return wrap(core(x, y), label, kind)
    if name in ("add", "maximum"):
        return wrap(x | y)
    if name in ("multiply", "minimum"):
        return wrap(x & y)
    powered = core(x, y)
    return wrap(powered.astype(bool) if rounded or name == "power" else powered)


def _check_differences(a: Any, b: Any) -> None:
    if 0 in (_core.result_dtype(a).kind, _core.result_dtype(b).kind):
        raise RuntimeError("sub: operands must not be booleans because these have no differences; use ^ or ~")


_SIGNS = {
    "equal": "==",
    "not_equal": "!=",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
}


def _compared(name: str, core: Any, a: Any, b: Any) -> Any:
    if not (
        (isinstance(a, Core) and isinstance(b, OPERANDS)) or (isinstance(b, Core) and isinstance(a, OPERANDS))
    ):
        words = "both must be Tensors or numbers, one a Tensor"
        raise TypeError(f"input {_SIGNS[name]} other: {words}; got {shown(a)} and {shown(b)}")
    if not isinstance(b, Core):
        return core(a, b)  # numbers that float32 or int64 would change beside integers
    x, y, _ = _core.promoted(a, b)
    return core(x, y)


def _joined(name: str, core: Any, tensors: Any, dim: Any, label: str) -> Tensor:
    try:
        kinds = {part.dtype for part in tensors} if tensors.__class__ is not Tensor else ()
        if len(kinds) == 1 and Tensor is tensors[0].__class__:
            return wrap(core(tensors, dim), label, *kinds)  # type: ignore[no-any-return]
    except (AttributeError, TypeError, ValueError):
        pass
    parts = [*tensors] if isinstance(tensors, (list, tuple)) else []
    if not all(isinstance(part, Core) for part in parts) or not isinstance(tensors, (list, tuple)):
        raise TypeError(f"{name}: tensors must be a list of Tensors; got {shown(tensors)}")
    if name == "cat" and any(_core_shape(part) != (0,) for part in parts):  # empty ones do not count
        parts = [part for part in parts if _core_shape(part) != (0,)]
    kinds = [_core.result_dtype(part) for part in parts] or [_dtypes.get_default_dtype()]
    kind = functools.reduce(_core.common_dtype, kinds)
    return wrap(core([_core.cast(part, kind) for part in parts], dim.__index__()), label, kind)  # type: ignore[no-any-return]


def _written(name: str, parameters: str, body: str, row: Operation, doc: str, **more: Any) -> Any:
    label = f"{row.gradient}Backward0" if row.gradient else ""
    space = _SPACE | {
        "core": row.compute,
        "label": label,
        "name": row.name,
        "word": name,
        "of_whole": row.whole,
    }
    space |= {"label_of_axes": f"{row.gradient}Backward1", **CHECKS} | more
    given = inspect.signature(eval(f"lambda {parameters}: None")).parameters.values()
    exec(f"def {name}({parameters}):{lines(name, given)}{body}", space)  # the texts are those of this module
    function: Any = space[name]
    function.__doc__, function.__module__, function.checked = doc, "qkv.torch", True
    return function


def function_of(row: Operation, name: str) -> Any:
    """The function of PyTorch's of this name."""
    parameters, body = row.signature, _BODIES.get(row.dtype, "")
    if row.parameters.startswith("x, axis=None"):
        body = _OVER[row.dtype]
        parameters += ", *, dtype=None" if row.dtype in (table.TOTAL, table.FLOATING) else ""
    elif row.dtype == table.FLOATING:
        body, parameters = _ALONG, "input, dim, dtype=None"
    elif row.dtype == table.JOINED:
        body = _JOINED.replace("word", repr(row.torch.split()[0]))
    elif row.whole is not None:
        lines = body.split("\n")
        body = "\n".join([*lines[:2], _WHOLE.strip("\n"), *lines[2:]])
    if row.name in ("add", "subtract"):
        parameters += ", *, alpha=1"
        body = "\n    if alpha != 1: other = scaled(alpha, other, input)" + body
    if row.name == "subtract":
        body = "\n    differ(input, other)" + body
    if row.name == "floor_divide":
        body = "\n    return divide_down(input, other)"
    if row.name == "power":
        parameters = parameters.replace("other", "exponent")
        body = "\n    return power(input, exponent)"
    doc = row.formula.replace("``a", "``input").replace("b``", "other``") + "."
    return _written(name, parameters, body, row, doc, scaled=_scaled, power=_power)


def _divided_down(a: Any, b: Any) -> Tensor:
    x, y, kind = _core.promoted(a, b)
    if kind.kind < 2 and not y.numpy().all():
        raise RuntimeError("floor_divide: other must not be 0 because integers have no infinity")
    quotient = Core.__floordiv__(Core.detach(x), Core.detach(y)).astype(kind.core)
    return wrap(_core.without_derivative("floor_divide", quotient, [x, y]), "NotImplemented", kind)


def _scaled(alpha: Any, x: Any, other: Any) -> Any:
    if isinstance(alpha, float) and _core.result_dtype(x, other).kind < 2:
        raise RuntimeError(f"alpha must be an integer because the operands are; got {alpha}")
    return FUNCTIONS["mul"](x, alpha)


def _power(a: Any, b: Any) -> Tensor:
    number = not isinstance(b, Core)
    if (
        number
        and b.__class__ is float
        and b == 0.5
        and isinstance(a, Core)
        and _core.result_dtype(a).kind == 2
    ):
        return wrap(_core.sqrt(a), "PowBackward0", None)
    x, y, kind = _core.promoted(a, b)
    label = "PowBackward0" if number else "PowBackward1" if isinstance(a, Core) else "PowBackward2"
    core = Core.__pow__
    return wrap(core(x, y), label, kind) if kind.kind == 2 else _whole("power", core, x, y, kind, label)


def _over(number: Any, x: Any) -> Tensor:
    """A number over a Tensor: PyTorch multiplies by the reciprocal."""
    if isinstance(number, (Core, np.ndarray)):
        return FUNCTIONS["div"](number, x)  # type: ignore[no-any-return]
    x = _floats("div", x)
    inverse = wrap(Core.__rtruediv__(x, 1.0), "MulBackward0" if number == 1 else "ReciprocalBackward0")
    return inverse if number == 1 else wrap(Core.__mul__(inverse, number), "MulBackward0")


def _operator(name: str, body: str, row: Operation, **more: Any) -> Any:
    return _written(
        name,
        "input, other",
        _OPERATOR.replace("BODY", body.replace("\n", "\n    ")),
        row,
        "",
        power=_power,
        **more,
    )


def _operators(row: Operation) -> None:
    """``a + b`` and ``b + a``: NotImplemented for what arithmetic does not take."""
    name = row.operator
    if row.parameters == "x":
        setattr(Tensor, f"__{name}__", FUNCTIONS[row.torch.split()[0]])
        return
    body = _BODIES[row.dtype]
    if row.name in ("power", "floor_divide"):
        body = f"\n    return {'power' if row.name == 'power' else 'divide_down'}(input, other)"
    if row.name == "subtract":
        body = "\n    differ(input, other)" + body
    setattr(Tensor, f"__{name}__", _operator(f"__{name}__", body, row))
    if row.dtype == table.TRUTH:
        return
    swapped = (
        re.sub(r"\((input), (other)\)", r"(\2, \1)", body)
        if name != "truediv"
        else "\n    return over(other, input)"
    )
    label = {"label": "RsubBackward1"} if name == "sub" else {}
    setattr(Tensor, f"__r{name}__", _operator(f"__r{name}__", swapped, row, **label))


_SPACE = {
    "__name__": "qkv.torch",
    **{"Tensor": Tensor, "OPERANDS": OPERANDS, "wrap": wrap, "promoted": _core.promoted, "double": _double},
    **{
        "tensor": _tensor,
        "floats": _floats,
        "converted": _converted,
        "refuse": _refuse,
        "refuse_floats": _refuse_floats,
        "refuse_truth": _refuse_truth,
        "axes": _axes,
    },
    **{
        "along": _along,
        "whole": _whole,
        "compared": _compared,
        "joined": _joined,
        "differ": _check_differences,
        "in_torch": _in_torch,
        "over": _over,
        "divide_down": _divided_down,
    },
    "cast": lambda t: _core.cast(t, _dtypes.get_default_dtype()),
}


def define_views() -> None:
    """Let `qkv.torch` have the functions, methods and operators of the table."""
    for row in OPERATIONS.values():
        for name in row.torch.split():
            FUNCTIONS[name] = told(name, function_of(row, name), _written_to)
            if row.dtype != table.JOINED:
                setattr(Tensor, name, FUNCTIONS[name])
        if row.operator:
            _operators(row)
