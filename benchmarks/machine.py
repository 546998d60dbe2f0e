"""The machine: what it is, what is installed, how many threads everybody uses, and its own limits."""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import os
import platform
import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import level
import numpy as np
from registry import SGEMM, normal

import qkv

# Peers: what their column is called, the module, and what pip installs.
PEERS = {
    "NumPy": ("numpy", "numpy"),
    "PyTorch": ("torch", "torch --index-url https://download.pytorch.org/whl/cpu"),
    "ONNX Runtime": ("onnxruntime", "onnxruntime onnx onnxscript"),
    "CTranslate2": ("ctranslate2", "ctranslate2 transformers torch"),
    "JAX": ("jax", "jax"),
    "sentence-transformers": ("sentence_transformers", "sentence-transformers"),
}
NOTES = [
    "with several threads a side starts when the workers of the side before it have stopped spinning, and a call under "
    "20 ms is made once more before it is timed, so each has its threads and caches warm",
    "JAX uses all cores whatever it is told, so it is timed with as many threads as there are cores only",
    "of each peer the best form counts: ONNX Runtime with either of two fused graphs, PyTorch's encoder layers on "
    "their fast path or transformers' model, fused Adam",
]
LARGE = 96 << 20  # bytes of the arrays of the large copy: beyond any cache here
_modules: dict[str, ModuleType | None] = {}
_threads = 1


def cores() -> int:
    """Count the CPUs that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def peer(name: str) -> Any:
    """Import a peer, or give None where it is not installed (or cannot be told its number of threads)."""
    if name not in _modules:
        try:
            _modules[name] = importlib.import_module(PEERS[name][0])
        except ImportError:
            _modules[name] = None
        set_threads(_threads)  # the newcomer too
    if name == "JAX" and _threads != cores():
        return None  # its pool has as many threads as there are cores, not as many as one asks for
    return _modules[name]


def set_threads(count: int) -> None:
    """Set the threads of qkv, NumPy's BLAS and every imported peer; sessions of their own take it later."""
    global _threads
    _threads = count
    qkv.set_num_threads(count)
    torch = _modules.get("PyTorch")
    if torch is not None:
        torch.set_num_threads(count)
    for library in _blas_of_numpy():
        library.set_num_threads(count)


def _blas_of_numpy() -> list[Any]:
    """Find the BLAS that NumPy calls; that of qkv stays as it is, because qkv has its own threads above it."""
    from threadpoolctl import ThreadpoolController

    libraries = ThreadpoolController().lib_controllers
    ours = {"_openblas", "scipy_openblas32"}  # of an installed qkv, of one that is built in place
    return [x for x in libraries if x.user_api == "blas" and not ours & set(Path(x.filepath).parts)]


# Seconds. Linux counts the time of a thread that runs on only at its ticks, up to 10 ms apart.
SETTLED = 12e-3


def settle(limit: float = 0.5) -> None:
    """Wait until no thread of this process spins: workers that wait for more work would take another side's core.

    NumPy's BLAS spins for 100 ms after a product.
    """
    end = time.perf_counter() + limit
    while time.perf_counter() < end:
        start, used = time.perf_counter(), time.process_time()
        time.sleep(SETTLED)
        if time.process_time() - used < 0.2 * (time.perf_counter() - start):
            return


def sgemm() -> Callable[[], Any]:
    """Return the product that rates are compared with, through NumPy's BLAS."""
    a, b = normal(SGEMM, SGEMM), normal(SGEMM, SGEMM, seed=1)
    y = np.empty_like(a)
    return lambda: np.matmul(a, b, out=y)


def copy(nbytes: float, threads: int) -> Callable[[], Any]:
    """Return a copy that reads and writes so many bytes together, on as many threads.

    `np.copyto` uses one thread and lets others run at the same time, so each thread copies a share of its own.
    """
    size = max(threads, int(nbytes) // 8)
    source, target = np.ones(size, np.float32), np.zeros(size, np.float32)
    if threads == 1:
        return lambda: np.copyto(target, source)
    pool = ThreadPoolExecutor(threads - 1)
    shares = list(zip(np.array_split(target, threads), np.array_split(source, threads), strict=True))

    def run() -> None:
        others = [pool.submit(np.copyto, *share) for share in shares[1:]]
        np.copyto(*shares[0])
        for other in others:
            other.result()

    return run


def limits(threads: int, repeats: int) -> dict[str, float]:
    """Measure this machine at its best moment: operations per second of sgemm, bytes per second of a large copy."""
    product, mover = sgemm(), copy(2 * LARGE, threads)
    times: dict[str, list[float]] = {"sgemm": [], "copy": []}
    for turn in range(repeats + 1):
        for name, call in (("sgemm", product), ("copy", mover)):
            settle()
            start = time.perf_counter()
            call()
            if turn:
                times[name].append(time.perf_counter() - start)
    return {
        "sgemm": 2.0 * SGEMM**3 / min(times["sgemm"]),
        "copy": 2.0 * LARGE / min(times["copy"]),
    }


def head(thread_counts: list[int]) -> dict[str, Any]:
    """Describe CPU, versions and settings."""
    found, missing = {"Python": platform.python_version()}, {}
    for name, (module, install) in PEERS.items():
        try:
            found[name] = importlib.metadata.version(module.replace("_", "-"))
        except importlib.metadata.PackageNotFoundError:
            missing[name] = f"pip install {install}"
    prefixes = ("OPENBLAS_", "QKV_", "OMP_", "MKL_", "GOTO_", "KMP_", "CT2_", "XLA_")
    settings = {
        name: value
        for name, value in sorted(os.environ.items())
        if name.startswith(prefixes) or name in level.SETTINGS
    }
    warnings = [
        f"{name} is set: the products that rates are compared with may run at the speed of another CPU; unset it"
        for name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")
        if name in settings and name not in level.SETTINGS
    ]
    return {
        "cpu": cpu(),
        "cores": cores(),
        "system": f"{platform.system()} {platform.release()}",
        "threads": thread_counts,
        "versions": found,
        "missing": missing,
        "qkv": qkv.config(),
        "settings": settings,
        "notes": NOTES + level.NOTES,
        "warnings": warnings + list(qkv.config()["notes"]),
    }


def slug() -> str:
    """Name this CPU as its files are named: make, family, model and the instruction set of the kernels."""
    facts = _cpuinfo()
    parts = [re.sub(r"\(.*?\)|@.*|processor|cpu", "", cpu(), flags=re.IGNORECASE)]
    parts += [
        f"family {facts[key]}" if key == "cpu family" else f"model {facts[key]}"
        for key in ("cpu family", "model")
        if key in facts
    ]
    return re.sub(r"[^a-z0-9]+", "-", " ".join([*parts, qkv.config()["instruction_set"]]).lower()).strip("-")


def _cpuinfo() -> dict[str, str]:
    """Read the first CPU's facts, where the system tells."""
    with contextlib.suppress(OSError):
        first = Path("/proc/cpuinfo").read_text(encoding="utf8").split("\n\n")[0]
        pairs = (line.split(":", 1) for line in first.splitlines() if ":" in line)
        return {name.strip(): value.strip() for name, value in pairs}
    return {}


def cpu() -> str:
    return _cpuinfo().get("model name") or platform.processor() or platform.machine()
