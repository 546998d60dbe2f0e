"""Finds the OpenBLAS that the core needs, where the core itself does not.

The core looks for it beside itself: in the folder ``scipy_openblas32`` of the site folder that qkv is in. The two can
stand in different ones (``pip install --user`` or ``--target``, an environment with the system's packages, PYTHONPATH).
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import sys
from pathlib import Path

PACKAGE = "scipy_openblas32"


def preload(error: ImportError) -> None:
    """Load OpenBLAS from wherever Python finds its package, so that the core finds it loaded.

    Raises
    ------
    ImportError
        If that is not what the core misses, or the package is not there; from `error`, which the core's import raised.
    """
    if "subinterpreter" in str(error):
        raise error
    if not _misses_openblas(error):
        raise ImportError(
            f"qkv's compiled core could not be loaded ({error}); build it from the checkout: pip install ."
        ) from error
    try:
        folder = _library_folder()
        if sys.platform == "win32":
            os.add_dll_directory(str(folder))
            return
        for library in sorted(folder.glob("libscipy_openblas*")):
            ctypes.CDLL(str(library))
            return
        raise OSError(f"there is no library in {folder}")
    except OSError as why:
        raise ImportError(
            f"qkv needs the OpenBLAS library of the package scipy-openblas32 ({why}); install it: pip install "
            "scipy-openblas32"
        ) from error


def _misses_openblas(error: ImportError) -> bool:
    # Windows does not say which library is missing.
    return "scipy_openblas" in str(error) or "DLL load failed" in str(error)


def _library_folder() -> Path:
    found = importlib.util.find_spec(PACKAGE)
    if found is None or not found.submodule_search_locations:
        raise OSError("Python finds none")
    return Path(found.submodule_search_locations[0]) / "lib"
