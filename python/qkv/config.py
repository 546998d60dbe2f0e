"""What qkv runs on."""

from __future__ import annotations

import os
import platform
from typing import Any

import numpy as np

from . import _core

# OpenBLAS's cores by what they use; a core that is not listed is not judged.
_BLAS_LEVEL = {
    **dict.fromkeys(("Prescott", "Core2", "Nehalem", "Sandybridge"), "baseline"),
    **dict.fromkeys(("Haswell", "Zen"), "avx2"),
    **dict.fromkeys(("SkylakeX", "Cooperlake", "SapphireRapids"), "avx512"),
}
_LEVELS = ("baseline", "avx2", "avx512")


def config() -> dict[str, Any]:
    """Versions, instruction sets, BLAS and threads as a dictionary.

    Returns
    -------
    dict
        ``version``, ``instruction_set`` (of qkv's kernels), ``best_instruction_set`` (of this CPU),
        ``instruction_sets`` (the levels up to it, which ``QKV_ISA`` may ask for), ``blas``, ``blas_core``, ``threads``,
        ``compiler``, ``numpy``, ``python``, and ``notes``: what slows things down, if anything does.

    Examples
    --------
    >>> qkv.config()["threads"] >= 1
    True
    """
    facts: dict[str, Any] = _core.config()
    facts["numpy"] = np.__version__
    facts["python"] = platform.python_version()
    notes = []
    best = facts["best_instruction_set"]
    facts["instruction_sets"] = list(_LEVELS[: _LEVELS.index(best) + 1])
    if facts["instruction_set"] != best:
        kept = facts["instruction_set"]
        notes.append(
            f"QKV_ISA={os.environ.get('QKV_ISA', '')} keeps qkv's kernels at {kept}; this CPU has {best}"
        )
    level = _BLAS_LEVEL.get(facts["blas_core"])
    if level is not None and _LEVELS.index(level) < _LEVELS.index(best):
        forced = os.environ.get("OPENBLAS_CORETYPE")
        why = f"OPENBLAS_CORETYPE={forced} forces" if forced else "OpenBLAS chose"
        notes.append(f"{why} the core {facts['blas_core']}, which uses {level}; this CPU has {best}")
    facts["notes"] = notes
    return facts


def show_config() -> None:
    """Print :func:`config`, one fact a line.

    Examples
    --------
    >>> qkv.show_config()  # doctest: +ELLIPSIS
    qkv ...
    """
    facts = config()
    print(
        f"qkv {facts['version']} (Python {facts['python']}, NumPy {facts['numpy']}, built with {facts['compiler']})"
    )
    print(f"kernels   {facts['instruction_set']} (this CPU: {facts['best_instruction_set']})")
    print(f"BLAS      {facts['blas'].split()[0]} {facts['blas'].split()[1]}, core {facts['blas_core']}")
    print(f"threads   {facts['threads']}")
    for note in facts["notes"]:
        print(f"note      {note}")
