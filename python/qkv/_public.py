"""What every public module does with its public names: lists them alone, knows what was meant by others, and has its
functions refuse arguments in qkv's words.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable
from types import FunctionType, ModuleType
from typing import Any

from . import _core
from ._errors import plain, unknown_name


def publish(module: str, submodules: Iterable[str] = ()) -> None:
    """Finish a public module, when everything in its ``__all__`` is defined.

    Parameters
    ----------
    module : str
        Its ``__name__``.
    submodules : iterable of str
        Names in ``__all__`` that are modules, imported when they are asked for.
    """
    space = vars(sys.modules[module])
    public, late = sorted(space["__all__"]), frozenset(submodules)

    def get(name: str) -> Any:
        if name in late:
            return importlib.import_module(f"{module}.{name}")
        if name.startswith("_"):  # asked for by tools, which have no typing errors
            raise AttributeError(f"module {module!r} has no attribute {name!r}", name=name, obj=None)
        raise unknown_name(module, name, public, lambda name: _elsewhere(module, name))

    space["__getattr__"], space["__dir__"] = get, lambda: public
    for name in public:
        value = space.get(name)
        if isinstance(value, FunctionType) and value.__module__.startswith("qkv."):
            space[name] = _published(value, sys.modules[value.__module__])
        elif isinstance(value, type) and not issubclass(value, BaseException):
            if value.__module__ == _core.__name__:
                value.__module__ = module
            for cls in value.__mro__:
                if cls.__module__.startswith("qkv.") and not of_core(cls):
                    _explain_methods(cls)


def _published(function: FunctionType, home: ModuleType) -> Any:
    found = vars(home).get(function.__name__)
    if getattr(found, "__wrapped__", None) is function:  # published by another module, too
        return found
    explained = _core.explained(function)
    if found is function:
        setattr(home, function.__name__, explained)  # so that it can be pickled
    return explained


def of_core(cls: type) -> bool:
    """Say whether a class is one of the compiled core."""
    return vars(_core).get(cls.__name__) is cls


def _explain_methods(cls: type) -> None:
    for name, value in list(vars(cls).items()):
        if name.startswith("_") and name not in ("__init__", "__call__"):
            continue
        if isinstance(value, FunctionType):
            setattr(cls, name, _core.explained(value))
        elif isinstance(value, (classmethod, staticmethod)) and isinstance(value.__func__, FunctionType):
            setattr(cls, name, type(value)(_core.explained(value.__func__)))


def _elsewhere(module: str, name: str) -> str | None:
    """Find a public name in the other modules of qkv, however it is spelled."""
    for path in public_modules():
        for known in sys.modules[path].__all__ if path != module else ():
            if plain(known) == plain(name):
                return f"{path}.{known}"
    return None


def public_modules() -> list[str]:
    """Import all public modules but the imitation of PyTorch, and give their names."""
    found: list[str] = []
    waiting = ["qkv"]
    while waiting:
        path = waiting.pop(0)
        found.append(path)
        for name in importlib.import_module(path).__all__:
            try:
                part = getattr(sys.modules[path], name, None)
            except ImportError:  # of an extra
                continue
            if isinstance(part, ModuleType) and part.__name__ != "qkv.torch":
                waiting.append(part.__name__)
    return found
