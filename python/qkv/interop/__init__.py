"""Other libraries: einops and threadpoolctl know qkv's Tensors and threads.

einops is told about qkv at ``import qkv`` if it is imported already, else by :func:`register`; nothing is imported for
that. threadpoolctl, which is small, is imported with qkv where it is installed, so that its limits always hold.
"""

from __future__ import annotations

import importlib
import sys
from contextlib import suppress

from .._public import explained, publish

__all__ = ["register"]

# The modules whose import tells einops.
_TELLING = ["qkv.interop.einops"]


@explained
def register() -> None:
    """Let einops take Tensors, if it is imported.

    ``import qkv`` does so; call it where einops is imported later.

    Examples
    --------
    >>> qkv.interop.register()
    """
    for module in _TELLING if "einops" in sys.modules else ():
        with suppress(AttributeError, ImportError):  # a version without what is needed is left untold
            importlib.import_module(module)


def tell_einops(module: str) -> None:
    """Let `register` import a module that tells einops more, now if it is there already."""
    _TELLING.append(module)
    register()


register()
with suppress(AttributeError, ImportError):  # not installed, or an old version
    importlib.import_module("qkv.interop.threadpoolctl")
publish(__name__)
