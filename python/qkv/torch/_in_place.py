"""Changes in place of what is computed number by number: ``add_``, ``+=``, ``fill_``, ``copy_``.

fill_: One number everywhere, in place.
zero_: 0 everywhere, in place.
copy_: The numbers of another, in place.
"""

from __future__ import annotations

import inspect

from .. import _core
from . import _functions, _indexing  # noqa: F401  # whose functions have forms in place
from ._arguments import OPERANDS
from ._change import assign, before, in_place
from ._elementwise import OPERATORS, cast
from ._indexing import _one_number
from ._tensor import Core, Tensor, _core_shape, define, named

_IN_PLACE = """add sub mul div pow floor_divide remainder exp log sqrt rsqrt sin cos tanh sigmoid relu neg abs square
floor ceil round clamp clip lerp logical_not bitwise_and bitwise_or bitwise_xor bitwise_not masked_fill scatter
scatter_add index_add index_fill triu tril"""


def _define(name: str):
    changed = getattr(Tensor, name)

    def f(t, *args, **options) -> Tensor:
        return in_place(t, changed, f"{name}_", *args, **options)

    f.__doc__, f.checked = f"`{name}`, in place.", True  # type: ignore[attr-defined]
    parameters = inspect.signature(changed).parameters.values()
    f.__signature__ = inspect.Signature([p for p in parameters if p.name != "out"])  # type: ignore[attr-defined]
    return named(f".{name}_")(f)


_defined = {_name: _define(_name) for _name in _IN_PLACE.split()}


def _attach(name: str, changed) -> None:
    """Let ``t += x`` and its like change `t`: floating numbers without a graph at once, all else as ``t.add_(x)``."""
    compute, operation = getattr(Core, f"__{name}__"), changed.__name__

    def operator(t, x):
        if not isinstance(x, OPERANDS):
            return NotImplemented
        if not (t.requires_grad or (isinstance(x, Core) and x.requires_grad)):
            a, b, kind = _core.promoted(t, x)
            if kind.kind == 2 and kind is t.dtype:
                result = compute(a, b)
                if _core_shape(result) == _core_shape(t):
                    _core.check_changeable(operation, t)
                    _core.set_in_place(operation, t, result)
                    return t
        return changed(t, x)

    setattr(Tensor, f"__i{name}__", operator)


for _name, _f in OPERATORS.items():
    _attach(_name, _defined[_f.__name__])


def _filled(name: str, t, value) -> Tensor:
    _core.check_changeable(name, t)
    number = _one_number(name, value, t.dtype)
    if _core.grad_enabled() and (t.requires_grad or number.requires_grad):
        return assign(
            t, _core.replacement(t, number), "FillBackward0" if name == "fill_" else "ZeroBackward0", name
        )
    _core.fill(t, number)
    return t


def _copied(t, src) -> Tensor:
    _core.check_changeable("copy_", t)
    source = before(t, cast(src, t.dtype))
    new = _core.replacement(before(t, t), source)
    return assign(t, new, "CopyBackwards" if new.requires_grad else "", "copy_")


define(
    {
        ".fill_": lambda t, value: _filled("fill_", t, value),
        ".zero_": lambda t: _filled("zero_", t, 0),
        ".copy_": lambda t, src, non_blocking=False: _copied(t, src),
    }
)
