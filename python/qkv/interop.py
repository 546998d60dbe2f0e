"""Other libraries: einops and threadpoolctl know qkv's Tensors and threads.

Both are told about qkv at ``import qkv`` if they are imported already, and by :func:`register`; threadpoolctl also when
it is imported later. Nothing is imported for that.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from ._public import publish

__all__ = ["register"]

# Libraries, and the modules whose import tells them.
_TELLING = {"einops": ["qkv._einops"], "threadpoolctl": ["qkv._threadpoolctl"]}


def register() -> None:
    """Let einops take Tensors and threadpoolctl limit threads, as far as these libraries are imported.

    ``import qkv`` does so; call it where einops is imported later.

    Examples
    --------
    >>> qkv.interop.register()
    """
    for library, modules in _TELLING.items():
        for module in modules if library in sys.modules else ():
            with suppress(AttributeError, ImportError):  # a version without what is needed is left untold
                importlib.import_module(module)


def tell(library: str, module: str) -> None:
    """Let `register` import a module that tells a library more, now if the library is there already."""
    _TELLING[library].append(module)
    register()


class _Finder:
    """Has threadpoolctl, which the others find, told at the end of its import; then it goes."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != "threadpoolctl" or self not in sys.meta_path:
            return None
        place = sys.meta_path.index(self)
        del sys.meta_path[place]
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            sys.meta_path.insert(place, self)
            return None
        loader: Any = spec.loader
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            register()

        loader.exec_module = exec_module
        return spec


register()
if "threadpoolctl" not in sys.modules:
    sys.meta_path.insert(0, _Finder())
publish(__name__)
