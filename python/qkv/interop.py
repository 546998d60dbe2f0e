"""Other libraries: einops and threadpoolctl know qkv's Tensors and threads.

Both are told about qkv at ``import qkv`` if they are imported already, and by :func:`register`; threadpoolctl also when
it is imported later. Nothing is imported for that.
"""

from __future__ import annotations

import functools
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


def register() -> None:
    """Let einops take Tensors and threadpoolctl limit threads, as far as these libraries are imported.

    ``import qkv`` does so; call it where einops is imported later.

    Examples
    --------
    >>> qkv.interop.register()
    """
    with suppress(
        AttributeError, ImportError
    ):  # a version without what is needed goes on as if qkv were not there
        if "einops" in sys.modules:
            importlib.import_module("qkv._einops")
    with suppress(AttributeError, ImportError):
        if "threadpoolctl" in sys.modules:
            _limit_threads(sys.modules["threadpoolctl"])


@functools.cache
def _limit_threads(library: Any) -> None:
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
