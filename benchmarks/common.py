"""Timing side by side, and what a table of timings must say about the machine."""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple


class Timing(NamedTuple):
    """Milliseconds over the repeats."""

    median: float
    low: float  # lower and upper quartile
    high: float

    def __str__(self) -> str:
        return f"{self.median:.2f} ({self.low:.2f}-{self.high:.2f})"


def interleave(functions: dict[str, Callable[[], Any]], repeats: int = 21) -> dict[str, Timing]:
    """Time functions in turn, so that a slow moment of the machine meets all of them.

    Each is called once before the clock starts.
    """
    for function in functions.values():
        function()
    times: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(repeats):
        for name, function in functions.items():
            start = time.perf_counter()
            function()
            times[name].append((time.perf_counter() - start) * 1e3)
    return {name: _timing(t) for name, t in times.items()}


def machine() -> str:
    """Describe CPU, versions and settings as Markdown."""
    import numpy

    import qkv

    versions = {"Python": platform.python_version(), "NumPy": numpy.__version__, "qkv": qkv.__version__}
    try:
        import torch

        versions["PyTorch"] = torch.__version__
    except ImportError:
        pass
    settings = [
        f"{name}={value}"
        for name, value in sorted(os.environ.items())
        if name.startswith(("OPENBLAS_", "QKV_", "OMP_", "MKL_"))
    ]
    core = ", ".join(f"{key}: {value}" for key, value in qkv.config().items())
    return "\n".join(
        [
            f"- CPU: {_cpu()}, {len(os.sched_getaffinity(0))} cores for this process",
            "- " + ", ".join(f"{name} {version}" for name, version in versions.items()),
            f"- qkv: {core}",
            f"- settings: {', '.join(settings) or 'none'}",
        ]
    )


def table(header: list[str], rows: list[list[Any]]) -> str:
    """Set rows as a Markdown table."""
    lines = [header, ["---"] * len(header), *[[str(cell) for cell in row] for row in rows]]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _timing(times: list[float]) -> Timing:
    low, median, high = statistics.quantiles(times, n=4) if len(times) > 1 else times * 3
    return Timing(median, low, high)


def _cpu() -> str:
    try:
        info = Path("/proc/cpuinfo").read_text(encoding="utf8")
        return next(
            line.split(":", 1)[1].strip() for line in info.splitlines() if line.startswith("model name")
        )
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
