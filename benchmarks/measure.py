"""Timing side by side in turns, and the peak of the memory."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import machine
from registry import Case, Row, Skip, Times, ratio

import qkv

TURN = 2e-3  # seconds that a turn of a side lasts at least: quick calls are repeated within it
WARM = 20e-3  # a shorter call is made once more, untimed, before its turn: its caches and threads are warm


@dataclass
class Timing:
    """Seconds per call: the median over the turns, the quartiles, the least."""

    median: float
    low: float
    high: float
    least: float

    @classmethod
    def of(cls, values: list[float]) -> Timing:
        if len(values) == 1:
            return cls(*values * 4)
        low, median, high = statistics.quantiles(values, n=4, method="inclusive")
        return cls(median, low, high, min(values))


def interleave(case: Case, repeats: int, threads: int, budget: float) -> Times:
    """Time the calls of a case in turn, so that a slow moment of the machine meets all of them.

    With several threads a side starts when the workers of the side before it have stopped spinning.
    """
    counts: dict[str, int] = {}
    warm: dict[str, bool] = {}
    prepare = {name: case.before.get(name, _nothing) for name in case.calls}
    for name, call in case.calls.items():
        prepare[name]()
        call()
        start = time.perf_counter()
        call()
        once = time.perf_counter() - start
        counts[name] = max(1, min(100_000, round(TURN / max(once, 1e-9))))
        warm[name] = once < WARM
    times: Times = {name: [] for name in case.calls}
    end = time.perf_counter() + budget
    gc.collect()
    gc.disable()
    try:
        for turn in range(repeats):
            if turn >= min(3, repeats) and time.perf_counter() > end:
                break
            for name, call in case.calls.items():
                prepare[name]()
                if threads > 1:
                    machine.settle()
                if warm[name]:
                    call()
                count = range(counts[name])
                start = time.perf_counter()
                for _ in count:
                    call()
                times[name].append((time.perf_counter() - start) / len(count))
    finally:
        gc.enable()
    return times


def peak_memory(call: Callable[[], Any]) -> int | None:
    """Give how many bytes the process grows by at most during a call, or None where the system does not tell."""
    clear, status = Path("/proc/self/clear_refs"), Path("/proc/self/status")
    qkv.empty_cache()
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)  # else the call would fill what others have left
    try:
        clear.write_text("5", encoding="ascii")
        before = _status(status, "VmRSS")
        call()
        return max(0, _status(status, "VmHWM") - before)
    except (OSError, KeyError):
        return None


def _status(path: Path, name: str) -> int:
    for line in path.read_text(encoding="ascii").splitlines():
        if line.startswith(name + ":"):
            return 1024 * int(line.split()[1])
    raise KeyError(name)


def measure(row: Row, threads: int, repeats: int, budget: float) -> dict[str, Any]:
    """Measure one row: what the report, the pictures and results.json are made of."""
    result: dict[str, Any] = {"name": row.name, "subject": row.subject, "threads": threads, "axis": row.axis}
    machine.set_threads(threads)
    try:
        case = row.make(threads)
    except Skip as reason:
        return result | {"skipped": str(reason), "times": {}, "figures": []}
    with contextlib.ExitStack() as stack:
        if case.close is not None:
            stack.callback(case.close)
        peak = None
        times: Times = {}
        if case.calls:
            case.before.get("qkv", _nothing)()
            case.calls["qkv"]()  # what is made once and kept, such as packed weights, is no part of the peak
            peak = peak_memory(case.calls["qkv"])
            needs = {name for goal in row.goals for name in goal.needs}
            if "sgemm" in needs:
                case.calls["sgemm"] = machine.sgemm()
            if "copy" in needs and case.bytes is not None:
                case.calls["copy"] = machine.copy(case.bytes, threads)
            times = interleave(case, repeats, threads, budget)
        result |= {
            "times": {name: asdict(Timing.of(values)) for name, values in times.items()},
            "ratios": {name: asdict(Timing.of(ratio(times, name, "qkv"))) for name in times if name != "qkv"},
            "turns": len(next(iter(times.values()), [])),
            "figures": _figures(row, case, times),
            "peers": list(row.peers),
            "flops": case.flops,
            "bytes": case.bytes,
            "peak_memory": peak,
            "note": case.note,
        }
    return result


def _figures(row: Row, case: Case, times: Times) -> list[dict[str, Any]]:
    figures = []
    for goal in row.goals:
        values = goal.figure(times, case)
        figure: dict[str, Any] = {"label": goal.label, "goal": goal.sign(), "unit": goal.unit}
        if values:
            timing = Timing.of(values)
            figure |= {**asdict(timing), "text": goal.show(timing.median), "met": goal.met(timing.median)}
        else:
            figure |= {"median": None, "text": "", "met": None}
        figures.append(figure)
    return figures


def roofline(result: dict[str, Any], limits: dict[str, float] | None) -> dict[str, float] | None:
    """Give the least time that this run's rates of sgemm and of a copy allow, and the share of it that is reached."""
    timing, flops, moved = result["times"].get("qkv"), result.get("flops"), result.get("bytes")
    if limits is None or timing is None or (flops is None and moved is None):
        return None
    arithmetic, memory = (flops or 0.0) / limits["sgemm"], (moved or 0.0) / limits["copy"]
    return {"arithmetic": arithmetic, "memory": memory, "share": max(arithmetic, memory) / timing["median"]}


def _nothing() -> None:
    pass
