"""Timing side by side in turns, of which the quiet ones count, and the peak of the memory."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import machine
from quiet import Pace, Turn
from registry import Case, Row, Skip, Times, ratio

import qkv

TURN = 2e-3  # seconds that a turn of a side lasts at least: quick calls are repeated within it
PROBE = "sgemm"  # the side that a turn's own product is kept as
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


def interleave(case: Case, repeats: int, threads: int, budget: float, pace: Pace) -> list[Turn]:
    """Time the calls of a case in turn until `repeats` quiet turns are there or the time is up.

    With several threads a side starts when the workers of the side before it have stopped spinning. After `budget`
    seconds three quiet turns are enough; after three times as long it ends without them.
    """
    counts: dict[str, int] = {}
    warm: dict[str, bool] = {}
    prepare = {name: case.before.get(name, _nothing) for name in (*case.calls, PROBE)}
    for name, call in case.calls.items():
        prepare[name]()
        call()
        start = time.perf_counter()
        call()
        once = time.perf_counter() - start
        counts[name] = max(1, min(100_000, round(TURN / max(once, 1e-9))))
        warm[name] = once < WARM

    def probe() -> float:
        prepare[PROBE]()
        return pace.probe()

    turns: list[Turn] = []
    gc.collect()
    gc.disable()
    try:
        prepare[PROBE]()
        pace.start()
        begin, before = time.perf_counter(), probe()
        while True:
            turn = Turn(before, 0.0)
            for name, call in case.calls.items():
                prepare[name]()
                if threads > 1:
                    machine.settle()
                if warm[name]:
                    call()
                count = range(counts[name])
                start, used = time.perf_counter(), time.thread_time()
                for _ in count:
                    call()
                turn.wall[name] = (time.perf_counter() - start) / len(count)
                turn.cpu[name] = (time.thread_time() - used) / len(count)
            turn.after = before = probe()
            turns.append(turn)
            passed, quiet = time.perf_counter() - begin, sum(map(pace.is_quiet, turns))
            if quiet >= repeats or (passed > budget and quiet >= min(3, repeats)) or passed > 3 * budget:
                return turns
    finally:
        gc.enable()


def peak_memory(call: Callable[[], Any]) -> int | None:
    """Return how many bytes the process grows by at most during a call, or None where the system does not tell."""
    _give_memory_back()
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
        before = _status("VmRSS")
        call()
        return max(0, _status("VmHWM") - before)
    except (OSError, KeyError):
        return None


def kept_memory(call: Callable[[], Any]) -> int | None:
    """Return how many bytes the process has grown by while the result of a call lives, or None as above."""
    _give_memory_back()
    try:
        before = _status("VmRSS")
        result = call()
        _give_memory_back()
        kept = max(0, _status("VmRSS") - before)
        del result
        return kept
    except (OSError, KeyError):
        return None


def _give_memory_back() -> None:
    qkv.empty_cache()
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)  # else the call would fill what others have left


def _status(name: str) -> int:
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(name + ":"):
            return 1024 * int(line.split()[1])
    raise KeyError(name)


@dataclass
class Measured:
    """A row with one number of threads: what was timed, and what is known beside times."""

    row: Row
    case: Case  # without its calls, which hold arrays
    turns: list[Turn]
    facts: dict[str, Any]


def measure(row: Row, threads: int, repeats: int, budget: float, pace: Pace) -> Measured:
    """Measure one row."""
    facts: dict[str, Any] = {"name": row.name, "subject": row.subject, "threads": threads, "axis": row.axis}
    machine.set_threads(threads)
    try:
        case = row.make(threads)
    except Skip as reason:
        return Measured(row, Case({}), [], facts | {"skipped": str(reason), "times": {}, "figures": []})
    with contextlib.ExitStack() as stack:
        if case.close is not None:
            stack.callback(case.close)
        peak = None
        turns: list[Turn] = []
        if case.calls:
            case.before.get("qkv", _nothing)()
            case.calls["qkv"]()  # what is made once and kept, such as packed weights, is no part of the peak
            peak = peak_memory(case.calls["qkv"])
            if case.bytes is not None and any("copy" in goal.needs for goal in row.goals):
                case.calls["copy"] = machine.copy(case.bytes, threads)
            turns = interleave(case, repeats, threads, budget, pace)
    facts |= {
        "flops": case.flops,
        "bytes": case.bytes,
        "peak_memory": peak,
        "note": case.note,
        "peers": list(row.peers),
    }
    return Measured(row, replace(case, calls={}, before={}, close=None), turns, facts)


def judge(measured: Measured, pace: Pace) -> dict[str, Any]:
    """Return what the report, the pictures and the file of results are made of, from the turns that were quiet."""
    row, case, facts = measured.row, measured.case, measured.facts
    if "skipped" in facts:
        return facts
    quiet = [turn for turn in measured.turns if pace.is_quiet(turn)]
    times: Times = {name: [turn.wall[name] for turn in quiet] for name in (quiet[0].wall if quiet else ())}
    if quiet:
        times[PROBE] = [turn.sgemm for turn in quiet]
    disturbed = bool(measured.turns) and not quiet
    figures = [] if disturbed else _figures(row, case, times)
    cpu = None
    if quiet and facts["threads"] == 1:
        cpu = asdict(Timing.of([turn.cpu["qkv"] for turn in quiet]))
    return facts | {
        "times": {name: asdict(Timing.of(values)) for name, values in times.items()},
        "cpu": cpu,
        "ratios": {name: asdict(Timing.of(ratio(times, name, "qkv"))) for name in times if name != "qkv"},
        "turns": len(quiet),
        "disturbed": len(measured.turns) - len(quiet),
        "no_quiet_turn": disturbed,
        "figures": figures,
    }


def _figures(row: Row, case: Case, times: Times) -> list[dict[str, Any]]:
    figures = []
    for goal in row.goals:
        values = goal.figure(times, case)
        figure: dict[str, Any] = {"label": goal.label, "goal": goal.sign(), "unit": goal.unit}
        if values:
            timing = Timing.of(values)
            fault = goal.is_impossible(timing.median)
            met = None if fault else goal.met(timing.median)
            figure |= {**asdict(timing), "text": goal.show(timing.median), "met": met, "fault": fault}
        else:
            figure |= {"median": None, "text": "", "met": None}
        figures.append(figure)
    return figures


def roofline(result: dict[str, Any], limits: dict[str, float] | None) -> dict[str, float] | None:
    """Return the least time that this run's rates of sgemm and of a copy allow, and the share of it that is reached."""
    timing, flops, moved = result["times"].get("qkv"), result.get("flops"), result.get("bytes")
    if limits is None or timing is None or (flops is None and moved is None):
        return None
    arithmetic, memory = (flops or 0.0) / limits["sgemm"], (moved or 0.0) / limits["copy"]
    return {"arithmetic": arithmetic, "memory": memory, "share": max(arithmetic, memory) / timing["median"]}


def _nothing() -> None:
    pass
