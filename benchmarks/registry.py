"""What a row of the table is: the calls that are timed side by side, and the goals that they are judged by.

A row is a function of the number of threads that gives a :class:`Case`, put into the list by :func:`row`::

    @row("softmax of a million", goals=[faster_than("PyTorch", 1.0)], peers=["PyTorch"])
    def softmax(threads: int) -> Case:
        x = np.random.default_rng(0).standard_normal((1000, 1000), "float32")
        calls = {"qkv": lambda: qkv.softmax(x)}
        if torch := peer("PyTorch"):
            calls["PyTorch"] = lambda: torch.softmax(torch.from_numpy(x), -1)
        return Case(calls, bytes=2 * x.nbytes)
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import qkv

Times = dict[str, list[float]]  # seconds per call of each side, turn by turn
SGEMM = 1024  # the product that rates are compared with has three sides of this length


@dataclass
class Case:
    """What a row compares; the side "qkv" is the one that the row is about."""

    calls: dict[str, Callable[[], Any]]
    flops: float | None = None  # of qkv's call, as the textbook counts them
    bytes: float | None = None  # that qkv's call must at least read and write
    before: dict[str, Callable[[], None]] = field(default_factory=dict)  # untimed, before each turn of a side
    close: Callable[[], None] | None = None
    values: dict[str, float] | None = None  # figures that are not times, already measured
    work: float = 1.0  # products that qkv's call needs, those of the side "plain" being 1
    note: str = ""


@dataclass(frozen=True)
class Goal:
    """A figure made of a row's times, turn by turn, and what it should be."""

    label: str
    target: float | None
    figure: Callable[[Times, Case], list[float]]
    at_least: bool = True
    unit: str = "x"  # "x": a ratio, "%": a share, else what the number counts
    needs: tuple[str, ...] = ()  # what the runner adds to the calls: "copy"; every turn has its own "sgemm"
    most: float | None = None  # a larger figure is a fault of the benchmark

    def met(self, value: float) -> bool | None:
        if self.target is None:
            return None
        return value >= self.target if self.at_least else value <= self.target

    def is_impossible(self, value: float) -> bool:
        """Say whether the benchmark itself must be wrong, rather than qkv that fast."""
        return self.most is not None and value > self.most

    def show(self, value: float) -> str:
        if self.unit == "%":
            return f"{value:.0%}"
        return f"{value:.2f}" if self.unit == "x" else f"{value:.3g} {self.unit}"

    def sign(self) -> str:
        if self.target is None:
            return ""
        return ("≥ " if self.at_least else "≤ ") + self.show(self.target)


@dataclass(frozen=True)
class Row:
    name: str
    subject: str
    make: Callable[[int], Case]
    goals: tuple[Goal, ...]
    peers: tuple[str, ...]
    quick: bool
    threads: str  # "each" number that was asked for, "one": the least, "two": 2 if more than one
    full: bool  # only when --full asks for it
    axis: tuple[str, float] | None  # the curve of a picture that it is a point of, and where


class Skip(Exception):  # noqa: N818
    """A row cannot be measured here; its text says why."""


ROWS: list[Row] = []


def row(
    name: str,
    *,
    goals: Sequence[Goal] = (),
    peers: Sequence[str] = (),
    quick: bool = False,
    threads: str = "each",
    full: bool = False,
    axis: tuple[str, float] | None = None,
    subject: str | None = None,
) -> Callable[[Callable[[int], Case]], Callable[[int], Case]]:
    """Put a function that gives a Case into the list of rows, under a subject: by default its module's name."""
    if any(known.name == name for known in ROWS):
        raise ValueError(f"row: name must be new because results are kept by it; got {name}")

    def add(make: Callable[[int], Case]) -> Callable[[int], Case]:
        function = getattr(make, "func", make)  # of a partial
        own = function.__module__.rpartition(".")[2].replace("_", " ")
        ROWS.append(Row(name, subject or own, make, tuple(goals), tuple(peers), quick, threads, full, axis))
        return make

    return add


def by_level(avx2: float, avx512: float) -> float:
    """Return the goal of the instruction set that the kernels use; other levels have that of AVX2."""
    return avx512 if qkv.config()["instruction_set"] == "avx512" else avx2


def of_sgemm(share: float | None) -> Goal:
    """Rate of qkv as a share of the rate of a 1024 x 1024 x 1024 product in the same turns."""

    def figure(times: Times, case: Case) -> list[float]:
        assert case.flops is not None
        work = case.flops / (2.0 * SGEMM**3)
        return [work * product / own for own, product in zip(times["qkv"], times["sgemm"], strict=True)]

    return Goal("of sgemm", share, figure, unit="%", most=1.05)


def of_copy(share: float | None) -> Goal:
    """Bytes that must move per second, as a share of the rate of a copy of as many bytes in the same turns."""

    def figure(times: Times, case: Case) -> list[float]:
        return [copy / own for own, copy in zip(times["qkv"], times["copy"], strict=True)]

    return Goal("of a copy", share, figure, unit="%", needs=("copy",))


def faster_than(side: str, target: float | None) -> Goal:
    """How many times the time of qkv another side takes."""

    def figure(times: Times, case: Case) -> list[float]:
        return ratio(times, side, "qkv")

    return Goal(f"times as fast as {side}", target, figure)


def faster_than_best(sides: Sequence[str], target: float | None) -> Goal:
    """How many times the time of qkv the fastest of several sides takes."""

    def figure(times: Times, case: Case) -> list[float]:
        present = [side for side in sides if side in times]
        if not present:
            return []
        return ratio(times, min(present, key=lambda side: statistics.median(times[side])), "qkv")

    return Goal("times as fast as the best of " + ", ".join(sides), target, figure)


def time_over(side: str, other: str, limit: float) -> Goal:
    """Time of one side over that of another, where neither need be qkv's own."""
    return Goal(
        f"{side}'s time over {other}'s", limit, lambda times, case: ratio(times, side, other), at_least=False
    )


def within(side: str, other: str, microseconds: float, share: float) -> Goal:
    """Time of one side over what it may take: so many microseconds, or that share of another's time if it is more."""

    def figure(times: Times, case: Case) -> list[float]:
        theirs = times.get(other, [0.0] * len(times.get(side, ())))
        allowed = [max(microseconds / 1e6, share * time) for time in theirs]
        return [own / most for own, most in zip(times.get(side, ()), allowed, strict=True)]

    label = f"{side}'s time over {microseconds:g} us" + (f" or {share:g} times {other}'s" if share else "")
    return Goal(label, 1.0, figure, at_least=False)


def cost(limit: float | None) -> Goal:
    """Time of qkv over that of the side "plain", per product that is needed."""

    def figure(times: Times, case: Case) -> list[float]:
        return [value / case.work for value in ratio(times, "qkv", "plain")]

    return Goal("of the plain call's time per product", limit, figure, at_least=False)


def over_fill(limit: float) -> Goal:
    """Time of qkv beyond that of the side "plain", over the time of filling a fresh array."""

    def figure(times: Times, case: Case) -> list[float]:
        turns = zip(times["qkv"], times["plain"], times["fill"], strict=True)
        return [(own - plain) / fill for own, plain, fill in turns]

    return Goal("extra time over filling a fresh array", limit, figure, at_least=False)


def value(label: str, limit: float | None, unit: str) -> Goal:
    """A number that the row has measured itself, under this label; a peer that is not installed has none."""

    def figure(times: Times, case: Case) -> list[float]:
        assert case.values is not None
        return [case.values[label]] if label in case.values else []

    return Goal(label, limit, figure, at_least=False, unit=unit)


def ratio(times: Times, above: str, below: str) -> list[float]:
    """Return the ratio of two sides in each turn; nothing if one was not measured."""
    if above not in times or below not in times:
        return []
    return [a / b for a, b in zip(times[above], times[below], strict=True)]


def agree(ours: Any, theirs: Any, rtol: float = 1e-3, atol: float = 1e-4) -> None:
    """Compare the results of two sides, which must be equal before their times mean anything."""
    if hasattr(theirs, "detach"):
        theirs = theirs.detach().numpy()
    np.testing.assert_allclose(np.asarray(ours), np.asarray(theirs), rtol=rtol, atol=atol)


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    """Return float32 numbers of the standard normal distribution."""
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)
