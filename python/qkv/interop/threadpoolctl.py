"""threadpoolctl's limits hold for qkv's threads once this module is imported."""

from __future__ import annotations

import threadpoolctl  # type: ignore[import-untyped]

from .. import _core


class Controller(threadpoolctl.LibController):  # type: ignore[misc]
    """How threadpoolctl asks for threads and sets them."""

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


threadpoolctl.register(Controller)
