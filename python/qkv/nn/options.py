"""Options of layers, which belong to their constructors: an assignment that a layer would not follow is an error."""

from __future__ import annotations

import functools
import inspect
from typing import Any

from .._words.errors import shown

_COMPARED = (bool, int, float, str, tuple, type(None))


@functools.cache
def options_of(core_class: type) -> frozenset[str]:
    """Names that may not be assigned to layers of a class of the core: what its constructor takes, and the mode."""
    return taken_by(core_class) | {"training"}


@functools.cache
def taken_by(layer_class: type) -> frozenset[str]:
    """Names of the arguments that a class is called with."""
    parameters = inspect.signature(layer_class).parameters.values()
    return frozenset(p.name for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD))


def refusal(kind: str, name: str, value: Any) -> AttributeError:
    """Say that an option must be given to the constructor."""
    return AttributeError(
        f"{kind}: {name} must be given to the constructor because the layer is made by it; got an assignment; make "
        f"the layer anew, as {kind}(..., {name}={shown(value)})"
    )


def check_assignment(layer: Any, core_class: type, name: str, value: Any) -> bool:
    """Refuse another value of an option than the layer's; return whether it is one that the layer shows already.

    What a class derived from the core's has of its own under that name is free.
    """
    owner = next((cls for cls in type(layer).__mro__ if name in vars(cls)), None)
    found = None if owner is None else vars(owner)[name]
    if owner is not None and not issubclass(core_class, owner):
        return False
    if isinstance(found, property) and found.fset is not None:
        return False
    kind = type(layer).__name__
    if name == "training":
        raise AttributeError(
            f"{kind}: training must be changed in all parts because each has its own; got an assignment; call train() "
            "or eval()"
        )
    now = layer._config().get(name, inspect.signature(core_class).parameters[name].default)
    if isinstance(value, _COMPARED) and isinstance(now, _COMPARED) and value == now:
        return found is not None
    raise refusal(kind, name, value)
