"""Changes in place of what is computed number by number: ``add_``, ``+=``, ``fill_``, ``copy_``."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _core
from ._elementwise import cast, is_operand
from ._tensor import Core, Tensor, _core_shape, method, wrap_array
from ._views import assign


def in_place(t: Tensor, result: Tensor, operation: str) -> Tensor:
    """Let `t` become the result, in its own dtype."""
    kind = t.dtype
    if result.dtype.kind > kind.kind:
        raise RuntimeError(
            f"{operation}: the result must be {kind} because the Tensor is changed in place; got {result.dtype}"
        )
    op = result._op
    return assign(t, cast(result, kind) if result.dtype is not kind else result, op, operation)


_IN_PLACE = """add sub mul div pow floor_divide remainder exp log sqrt rsqrt sin cos tanh sigmoid relu neg abs square
floor ceil round clamp clamp_min clamp_max addcmul addcdiv lerp reciprocal logical_not"""


def _define_in_place() -> None:
    for name in _IN_PLACE.split():

        def f(
            t: Tensor, *args: Any, _f: Any = getattr(Tensor, name), _name: str = name, **options: Any
        ) -> Tensor:
            return in_place(t, _f(t, *args, **options), f"{_name}_")

        f.__doc__ = f"``{name}``, in place."
        method(f"{name}_")(f)
    for operator, name in {
        "add": "add",
        "sub": "sub",
        "mul": "mul",
        "truediv": "div",
        "pow": "pow",
        "floordiv": "floor_divide",
        "mod": "remainder",
    }.items():
        setattr(
            Tensor,
            f"__i{operator}__",
            lambda t, o, _f=getattr(Tensor, f"{name}_"): _f(t, o) if is_operand(o) else NotImplemented,
        )
    for name in ("and", "or", "xor"):
        setattr(
            Tensor,
            f"__i{name}__",
            lambda t, o, _f=getattr(Tensor, f"bitwise_{name}"): in_place(t, _f(t, o), "bitwise"),
        )


_define_in_place()


@method("fill_")
def fill_(t: Tensor, value: Any) -> Tensor:
    """One number everywhere, in place."""
    number = value if isinstance(value, Core) else wrap_array(np.asarray(value, t.dtype.core))
    return assign(t, _core.expanded(cast(number, t.dtype), tuple(_core_shape(t))), "FillBackward0", "fill_")


@method("zero_")
def zero_(t: Tensor) -> Tensor:
    """0 everywhere, in place."""
    return assign(t, _core.tensor(np.zeros(_core_shape(t), t.dtype.core)), "ZeroBackward0", "zero_")


@method("copy_")
def copy_(t: Tensor, src: Any, non_blocking: bool = False) -> Tensor:
    """The numbers of another, in place."""
    numbers = cast(src, t.dtype)
    return assign(t, _core.expanded(numbers, tuple(_core_shape(t))), "CopyBackwards", "copy_")
