"""Measured rates: how long pieces of work and messages take on a machine, and the file that keeps them."""

from __future__ import annotations

import itertools
import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..._atomic import write_file
from ..._errors import shown
from .pieces import PIECES

FORMAT = "qkv rates 1"
Point = tuple[tuple[int, ...], float]  # sizes and seconds


class Line(NamedTuple):
    """Seconds of a message of so many bytes: ``latency + bytes * per_byte``."""

    latency: float
    per_byte: float

    def seconds(self, size: float) -> float:
        return self.latency + size * self.per_byte


def fitted(points: Sequence[Sequence[float]], beyond: Sequence[float] | float = 0.0) -> Line:
    """Fit latency and time per byte to (bytes, seconds), all points alike in relative error; neither is negative.

    `beyond` are seconds of each point that something else takes; the line is that of the rest.
    """
    sizes, seconds = np.array(points, dtype=float).T
    rest = seconds - beyond
    columns = np.stack([1 / seconds, sizes / seconds], axis=1)
    latency, per_byte = (float(x) for x in np.linalg.lstsq(columns, rest / seconds, rcond=None)[0])
    if latency < 0 or per_byte < 0:  # what is small beside the other cannot be told from noise
        latency, per_byte = (0.0, np.mean(rest / sizes)) if latency < 0 else (np.mean(rest), 0.0)
    return Line(max(0.0, float(latency)), max(0.0, float(per_byte)))


class Curve:
    """Seconds of a piece by its sizes: linear between the measured points in logarithms of both."""

    def __init__(self, points: Sequence[Point], growth: Sequence[float]) -> None:
        self.growth = growth
        self.axes = [
            np.array(sorted(set(axis)), dtype=float) for axis in zip(*(p[0] for p in points), strict=True)
        ]
        known = {tuple(sizes): seconds for sizes, seconds in points}
        shape = [len(axis) for axis in self.axes]
        self.logs = np.log([known[sizes] for sizes in itertools.product(*self.axes)]).reshape(shape)

    def __call__(self, *sizes: float) -> float:
        beyond, values = 0.0, self.logs
        for axis, size, growth in zip(self.axes, sizes, self.growth, strict=True):
            place = math.log(size)
            logs = np.log(axis)
            if place > logs[-1]:
                beyond += growth * (place - logs[-1])
            flat = values.reshape(len(axis), -1)
            values = np.array([np.interp(place, logs, column) for column in flat.T]).reshape(values.shape[1:])
        return float(np.exp(values + beyond))


@dataclass(frozen=True)
class Rates:
    """What a machine does in a second, as :func:`measure` finds it.

    Attributes
    ----------
    machine : dict
        ``cpu``, ``cores``, ``threads`` of a rank, ``qkv`` (version), ``date``.
    pieces : dict
        By the number of processes that work at once, and by the name of a piece: ``[sizes, seconds]``.
    messages : dict
        By the number of ranks: ``shift`` and ``sum``, both ``[bytes, seconds]``, for a message from each rank to the
        next and a sum over all ranks, and which part of each is hidden behind computing (``shift_hidden``,
        ``sum_hidden``); ``ring``, ``[positions of a rank, seconds]``, both passes of causal attention, 4 heads of 64.
    start : float
        Seconds until a process has imported qkv and MPI.
    network : dict, optional
        ``latency``, ``bandwidth`` and ``hidden`` of the network between machines, if it was measured.

    Examples
    --------
    >>> rates = qkv.distributed.plan.load_rates()  # of the machine that the documentation names
    >>> rates.seconds("linear", 1024, 512, at_once=1) < rates.seconds("linear", 1024, 512, at_once=4)
    True
    """

    machine: Mapping[str, Any]
    pieces: Mapping[int, Mapping[str, Sequence[Point]]]
    messages: Mapping[int, Mapping[str, Any]]
    start: float
    network: Mapping[str, float] | None = None

    @cached_property
    def _curves(self) -> dict[tuple[int, str], Curve]:
        return {
            (at_once, name): Curve(points, PIECES[name].growth)
            for at_once, found in self.pieces.items()
            for name, points in found.items()
        }

    @property
    def cores(self) -> int:
        """How many ranks of a machine compute without taking turns."""
        return max(1, int(self.machine["cores"]) // int(self.machine["threads"]))

    def seconds(self, name: str, *sizes: float, at_once: int = 1) -> float:
        """Give the time of a piece while so many processes of a machine compute.

        Parameters
        ----------
        name : str
            Of the piece, such as ``"linear"``.
        *sizes : float
            Its sizes, such as rows and width.
        at_once : int
            Processes of the machine that compute at the same time. Between the measured numbers the time is
            interpolated; beyond them processes take turns.

        Returns
        -------
        float
        """
        counts = sorted(self.pieces)
        most = counts[-1]
        found = [self._curves[count, name](*sizes) for count in counts]
        turns = max(1.0, at_once / max(most, self.cores))
        return float(np.interp(at_once, counts, found)) * turns

    def line(self, kind: str, ranks: int) -> Line:
        """Give latency and time per byte of a message on this machine, ``"shift"`` or ``"sum"``, for so many ranks."""
        return self.between_counts(ranks, lambda count: fitted(self.messages[count][kind]))

    def between_counts(self, ranks: int, line_of: Callable[[int], Line]) -> Line:
        """Give what `line_of` makes of the numbers of ranks that were measured, for so many between them."""
        counts = sorted(self.messages)
        if not counts:
            return Line(0.0, 0.0)
        lines = [line_of(count) for count in counts]
        return Line(*(float(np.interp(ranks, counts, values)) for values in zip(*lines, strict=True)))

    def hidden(self, kind: str, ranks: int) -> float:
        """Give which part of a message's time is hidden behind computing on this machine, from 0 to 1."""
        counts = sorted(self.messages)
        if not counts:
            return 0.0
        return float(np.interp(ranks, counts, [self.messages[count][f"{kind}_hidden"] for count in counts]))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the rates to a JSON file.

        Parameters
        ----------
        path : path
        """
        content = {
            "format": FORMAT,
            "machine": dict(self.machine),
            "start": self.start,
            "pieces": self.pieces,
            "messages": self.messages,
            "network": self.network,
        }
        text = json.dumps(content, indent=None, separators=(",", ":")).replace('"pieces"', '\n"pieces"')
        write_file(path, lambda file: file.write((text + "\n").encode("utf8")))


def load_rates(path: str | os.PathLike[str] | None = None) -> Rates:
    """Read rates that :meth:`Rates.save` wrote.

    Parameters
    ----------
    path : path, optional
        By default the rates of the machine that the documentation names, which come with qkv.

    Returns
    -------
    Rates

    Raises
    ------
    OSError
        If the file cannot be read.
    ValueError
        If it is no file of rates, or damaged.

    Examples
    --------
    >>> qkv.distributed.plan.load_rates().cores
    2
    """
    path = Path(__file__).with_name("rates.json") if path is None else Path(path)
    try:
        content = json.loads(path.read_text(encoding="utf8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"plan: rates must be a file that `qkv plan measure` wrote; got {path}, which is no JSON ({error})"
        ) from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        kind = shown(content.get("format")) if isinstance(content, dict) else type(content).__name__
        raise ValueError(
            f"plan: rates must be a file that `qkv plan measure` wrote, of the format {FORMAT!r}; got {kind} in {path}"
        )
    try:
        rates = Rates(
            content["machine"],
            {
                int(count): {
                    name: [(tuple(map(int, sizes)), float(seconds)) for sizes, seconds in points]
                    for name, points in found.items()
                }
                for count, found in content["pieces"].items()
            },
            {int(count): found for count, found in content["messages"].items()},
            float(content["start"]),
            content.get("network"),
        )
        _check(rates)
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise ValueError(
            f"plan: rates must be whole because every piece of work has a price; got {path}, which lacks or garbles "
            f"{' '.join(str(error).split())} (measure anew)"
        ) from None
    return rates


def _are_measured(*numbers: float) -> bool:
    """Say whether these may be sizes, bytes or seconds of a machine; products of others overflow."""
    return all(1e-18 < number < 1e18 for number in numbers)


def _check(rates: Rates) -> None:
    if not rates.pieces:
        raise ValueError("pieces")
    for found in rates.pieces.values():
        for name in PIECES:
            if not all(_are_measured(*sizes, seconds) for sizes, seconds in found[name]):
                raise ValueError(f"the times of {name}")
    machine = rates.machine
    if not all(_are_measured(machine[name]) for name in ("cores", "threads")):
        raise ValueError("the cores of the machine")
    assert rates._curves and rates.cores and machine["cpu"] and machine["date"]  # noqa: PT018
    if not _are_measured(rates.start):
        raise ValueError("the start")
    for count, messages in rates.messages.items():
        for kind in ("shift", "sum"):
            measured = all(_are_measured(size, seconds) for size, seconds in messages[kind])
            if not (measured and messages[kind] and 0 <= float(messages[f"{kind}_hidden"]) <= 1):
                raise ValueError(f"the messages between {count} ranks")
        if not messages["ring"] or not all(_are_measured(*point) for point in messages["ring"]):
            raise ValueError(f"the rings of {count} ranks")
    between = rates.network
    if between is not None and not (
        _are_measured(between["bandwidth"]) and 0 <= between["latency"] < 1e18 and 0 <= between["hidden"] <= 1
    ):
        raise ValueError("the network")
