"""Changes in place of what is computed number by number: ``add_``, ``+=``, ``fill_``, ``copy_``."""

from __future__ import annotations

from typing import Any

from .. import _core
from ._change import assign, before, in_place
from ._elementwise import cast, is_operand
from ._tensor import Core, Tensor, constant, method

_IN_PLACE = """add sub mul div pow floor_divide remainder exp log sqrt rsqrt sin cos tanh sigmoid relu neg abs square
floor ceil round clamp clamp_min clamp_max addcmul addcdiv lerp reciprocal logical_not"""


def _define_in_place() -> None:
    for name in _IN_PLACE.split():

        def f(
            t: Tensor, *args: Any, _f: Any = getattr(Tensor, name), _name: str = name, **options: Any
        ) -> Tensor:
            return in_place(t, _f, f"{_name}_", *args, **options)

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
        method(f"__i{operator}__")(
            lambda t, o, _f=getattr(Tensor, f"{name}_"): _f(t, o) if is_operand(o) else NotImplemented
        )
    for name in ("and", "or", "xor"):
        setattr(
            Tensor,
            f"__i{name}__",
            lambda t, o, _f=getattr(Tensor, f"bitwise_{name}"): in_place(t, _f, "bitwise", o),
        )


_define_in_place()


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
