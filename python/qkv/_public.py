"""What every public module does with its public names: lists them alone, and knows what was meant by others."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable
from types import ModuleType
from typing import Any

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
        text = unknown_name(module, name, public, lambda name: _elsewhere(module, name))
        raise AttributeError(text, name=name, obj=None)

    space["__getattr__"], space["__dir__"] = get, lambda: public


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
