"""Changes in place of what is computed number by number: ``add_``, ``+=``, ``fill_``, ``copy_``."""

from __future__ import annotations

import inspect
from typing import Any

from .. import _core
from . import _functions, _indexing, _matrices, _reductions  # noqa: F401  # whose functions have forms in place
from ._change import assign, before, in_place
from ._elementwise import OPERATORS, cast, is_operand
from ._tensor import Core, Tensor, constant, method

_IN_PLACE = """add sub mul div pow floor_divide remainder fmod exp log sqrt rsqrt sin cos tanh sigmoid relu neg abs
square floor ceil round trunc clamp clip clamp_min clamp_max addcmul addcdiv lerp reciprocal logical_not bitwise_and
bitwise_or bitwise_xor bitwise_not masked_fill scatter scatter_add index_add index_copy index_fill triu tril cumsum
cumprod"""


def _define(name: str) -> Any:
    changed = getattr(Tensor, name)

    def f(t: Tensor, *args: Any, **options: Any) -> Tensor:
        return in_place(t, changed, f"{name}_", *args, **options)

    f.__doc__ = f"`{name}`, in place."
    parameters = inspect.signature(changed).parameters.values()
    f.__signature__ = inspect.Signature([p for p in parameters if p.name != "out"])  # type: ignore[attr-defined]
    return method(f"{name}_")(f)


def _operator(f: Any) -> Any:
    return lambda t, other: f(t, other) if is_operand(other) else NotImplemented


_defined = {_name: _define(_name) for _name in _IN_PLACE.split()}
_defined |= {_name: _defined[f"bitwise_{_name}"] for _name in ("and", "or", "xor")}
for _name, _f in OPERATORS.items():
    _changed = _operator(_defined.get(_name) or _defined[_f.__name__])
    setattr(Tensor, f"__i{_name}__", _core.direct(f"__i{_name}__", _changed))


def _fill(t: Tensor, value: Any, op: str, operation: str) -> Tensor:
    number = cast(value, t.dtype) if isinstance(value, Core) else constant(value, t.dtype)
    _core.fill_in_place(operation, t, number)
    t._op = op
    return t


@method("fill_")
def fill_(t: Tensor, value: Any) -> Tensor:
    """One number everywhere, in place."""
    return _fill(t, value, "FillBackward0", "fill_")


@method("zero_")
def zero_(t: Tensor) -> Tensor:
    """0 everywhere, in place."""
    return _fill(t, 0, "ZeroBackward0", "zero_")


@method("copy_")
def copy_(t: Tensor, src: Any, non_blocking: bool = False) -> Tensor:
    """The numbers of another, in place."""
    _core.check_changeable("copy_", t)
    numbers = before(t, cast(src, t.dtype))
    return assign(t, _core.replacement(before(t, t), numbers), "CopyBackwards", "copy_")
