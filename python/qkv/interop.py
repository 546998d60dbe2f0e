"""Other libraries: einops and threadpoolctl know qkv's Tensors and threads.

They are told about qkv when they are imported, before qkv or after it; nothing is imported for that.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from ._public import publish

__all__ = ["register"]

_registered: set[str] = set()


def register() -> None:
    """Let einops take Tensors and threadpoolctl limit threads, as far as these libraries are imported.

    It happens by itself; call it where something has removed this package's finder from ``sys.meta_path``.

    Examples
    --------
    >>> qkv.interop.register()
    """
    for name in _LIBRARIES:
        if name in sys.modules:
            _register(name)


def _register(name: str) -> None:
    if name not in _registered:
        _registered.add(name)
        # A version without what is needed goes on as if qkv were not there.
        with suppress(AttributeError, ImportError):
            _LIBRARIES[name](sys.modules[name])


def _tell_einops(library: ModuleType) -> None:
    importlib.import_module("qkv._einops")


def _tell_threadpoolctl(library: Any) -> None:
    from . import _core

    class Controller(library.LibController):  # type: ignore[misc]
        user_api = "blas"  # what limits products in other libraries limits ours
        internal_api = "qkv"
        filename_prefixes = ("_core",)
        check_symbols = ("PyInit__core_in_main",)  # no other package's _core has it

        def get_num_threads(self) -> int:
            return _core.get_num_threads()

        def set_num_threads(self, num_threads: int) -> None:
            _core.set_num_threads(num_threads)

        def get_version(self) -> str:
            return str(_core.config()["version"])

    library.register(Controller)


_LIBRARIES: dict[str, Callable[[ModuleType], None]] = {
    "einops": _tell_einops,
    "threadpoolctl": _tell_threadpoolctl,
}


class _Finder:
    """Finds nothing itself: of a library above, it has what others find register behind its import."""

    def __init__(self) -> None:
        self.asking: set[str] = set()

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in _LIBRARIES or name in _registered or name in self.asking:
            return None
        self.asking.add(name)
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self.asking.discard(name)
        if spec is None or spec.loader is None:
            return None
        loader: Any = spec.loader
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            if module.__name__ == name:
                _register(name)

        with suppress(AttributeError):
            loader.exec_module = exec_module
        return spec


sys.meta_path.insert(0, _Finder())
register()
publish(__name__)
