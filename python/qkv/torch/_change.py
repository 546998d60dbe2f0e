"""What every change in place goes through; the memory, its views and their gradients are the core's."""

from __future__ import annotations

from .. import _core
from ._elementwise import cast
from ._tensor import Core, Tensor, _core_shape, wrap


def assign(t, new, op: str, operation: str) -> Tensor:
    """Let `t`, and all who show its memory, hold the numbers and the history of `new`."""
    _core.check_changeable(operation, t)
    if tuple(_core_shape(new)) != tuple(_core_shape(t)):
        raise RuntimeError(
            f"{operation}: the result must have the Tensor's shape {tuple(_core_shape(t))} because it is changed in "
            f"place; got {tuple(_core_shape(new))}"
        )
    _core.set_in_place(operation, t, new)
    if op:
        t._op = op
    return t


def before(t, x):
    """Return `x` as an operand of what `t` is to become; a copy if the change would overwrite what the graph needs."""
    if not isinstance(x, Core) or not _core.grad_enabled():
        return x
    kept = _core.before_change(t, x)
    if kept is None:
        return x
    kept = wrap(kept, getattr(x, "_op", ""))
    kept._kind = getattr(x, "_kind", None)
    return kept


def in_place(t, f, operation: str, *args, **options) -> Tensor:
    """Let `t` become ``f(t, *args)``, in its own dtype."""
    _core.check_changeable(operation, t)
    recorded = options or t.requires_grad
    for one in args:
        recorded = recorded or (isinstance(one, Core) and one.requires_grad)
    if recorded and _core.grad_enabled():
        options = {name: before(t, value) for name, value in options.items()}
        result = f(before(t, t), *(before(t, one) for one in args), **options)
    else:
        result = f(t, *args, **options)
    kind, found = t.dtype, result.dtype
    if found is not kind:
        if found.kind > kind.kind:
            raise RuntimeError(
                f"{operation}: the result must be {kind} because the Tensor is changed in place; got {found}"
            )
        result = cast(result, kind)
    if result.requires_grad or _core_shape(result) != _core_shape(t):
        return assign(t, result, result._op, operation)
    _core.set_in_place(operation, t, result)
    return t
