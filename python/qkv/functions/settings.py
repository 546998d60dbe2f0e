"""What qkv runs on."""

from __future__ import annotations

import os
import platform
from typing import Any

import numpy as np

from .. import _core
from .._public import explained
from .._words.errors import count_of

# OpenBLAS's cores by what they use; a core that is not listed is not judged.
_BLAS_LEVEL = {
    **dict.fromkeys(("Prescott", "Core2", "Nehalem", "Sandybridge"), "baseline"),
    **dict.fromkeys(("Haswell", "Zen"), "avx2"),
    **dict.fromkeys(("SkylakeX", "Cooperlake", "SapphireRapids"), "avx512"),
}
_LEVELS = ("baseline", "avx2", "avx512")


def processor() -> str:
    """Name the processor as the system does."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            lines = file.readlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


@explained
def config() -> dict[str, Any]:
    """Versions, instruction sets, BLAS and threads as a dictionary.

    Returns
    -------
    dict
        ``version``, ``instruction_set`` (of qkv's kernels), ``best_instruction_set`` (of this CPU),
        ``instruction_sets`` (the levels up to it, which ``QKV_ISA`` may ask for), ``blas``, ``blas_core``, ``threads``,
        ``reproducible``, ``fused_multiply_add`` (whether it can be), ``compiler``, ``numpy``, ``python``, and
        ``notes``: what slows things down, if anything does.

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


@explained
def set_reproducible(on: bool) -> None:
    """Whether every result is the same bits on every CPU with fused multiply-add, and for an item in any batch.

    On, functions, layers, gradients, optimizers, trainings and generation, in float32 and float64, give the same bits
    with AVX-512, AVX2 and NEON, for any number of threads. The result of an item does not depend on what it is
    computed beside: a row of ``a`` in ``a @ b``; an item of a layer's or a model's input, recorded for gradients or
    not, among items of any number and length; one query alone and among others (a token decoded with a cache and the
    same token in the whole text); and the gradient of an item's input. Gradients of parameters are sums over the
    batch and not among these.

    Off, which is the default, kernels are the same for every CPU too, but small products are OpenBLAS's, which sums in
    an order of its own on each, CPUs with AVX512-BF16 multiply bfloat16 weights themselves, and kernels are chosen by
    the size of the whole work.

    It holds for all threads, from the next call on. ``QKV_REPRODUCIBLE=1`` turns it on when qkv is imported.

    Parameters
    ----------
    on : bool
        Whether results are the same bits everywhere.

    Raises
    ------
    RuntimeError
        If it is turned on where no product is fused with a sum: on x86 CPUs without AVX2 and FMA (before 2013), or
        with ``QKV_ISA=baseline``. Two roundings cannot be made one but at many times the cost.

    Notes
    -----
    Not among these are the sign of a NaN, other versions of qkv, random normal and exponential numbers where the
    system's mathematics library is not glibc, ``NadarayaWatson(degree=1)``, whose equations NumPy solves, and numbers
    that a caller's own functions make with NumPy.

    Large products, layers on sequences and their gradients take as long as without, within a tenth. One row times a
    matrix that is read by columns (a recorded ``Linear`` of one row) takes up to three times as long, attention of one
    query over 1024 keys 2.6 times, additive attention of one query 1.4 times.

    References
    ----------
    He et al., Defeating Nondeterminism in LLM Inference, Thinking Machines Lab, 2025.

    Examples
    --------
    >>> a, b = qkv.randn(64, 300), qkv.randn(300, 7)
    >>> qkv.set_reproducible(True)
    >>> bool((qkv.matmul(a, b)[:1] == qkv.matmul(a[:1], b)).all())
    True
    >>> qkv.set_reproducible(False)
    """
    if not isinstance(on, (bool, np.bool_)):
        raise TypeError(f"set_reproducible: on must be True or False; got {type(on).__name__}")
    _core.set_reproducible(bool(on))


@explained
def get_reproducible() -> bool:
    """Whether :func:`set_reproducible` is on.

    Examples
    --------
    >>> qkv.get_reproducible()
    False
    """
    return _core.get_reproducible()


@explained
def set_num_threads(n: int) -> None:
    """Let everything from the next call on run on at most so many threads, those of OpenBLAS among them.

    Results are the same bits for any number of threads. At the start it is the number of CPUs that the process may use,
    or ``QKV_NUM_THREADS`` or ``OMP_NUM_THREADS``.

    Parameters
    ----------
    n : int
        At least 1.

    Raises
    ------
    TypeError, ValueError
        If it is no such number.

    Examples
    --------
    >>> before = qkv.get_num_threads()
    >>> qkv.set_num_threads(1)
    >>> qkv.get_num_threads()
    1
    >>> qkv.set_num_threads(before)
    """
    _core.set_num_threads(count_of("set_num_threads", "n", n, 1))


@explained
def get_num_threads() -> int:
    """On how many threads qkv computes at most; :func:`set_num_threads` sets it.

    Returns
    -------
    int

    Examples
    --------
    >>> qkv.get_num_threads() >= 1
    True
    """
    return _core.get_num_threads()


@explained
def cached_bytes() -> int:
    """How much memory of freed arrays is kept for the next ones; :func:`empty_cache` gives it back.

    Returns
    -------
    int
        Bytes.

    Examples
    --------
    >>> qkv.empty_cache()
    >>> qkv.cached_bytes()
    0
    """
    return _core.cached_bytes()


@explained
def empty_cache() -> None:
    """Return the memory of freed arrays, which is kept for the next ones, to the system.

    Examples
    --------
    >>> qkv.empty_cache()
    """
    _core.empty_cache()


@explained
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
    same = "the same bits on every CPU with fused multiply-add"
    print(f"results   {same if facts['reproducible'] else 'may differ between CPUs in their last bits'}")
    for note in facts["notes"]:
        print(f"note      {note}")
