"""Measures the rates of this machine: one process, as many as it has cores, and more than that."""

from __future__ import annotations

import datetime
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ... import _core
from ..._errors import count_of, shown
from ...config import processor
from ..launch import world
from ..starting import environment, find_mpiexec
from .networks import Network
from .rates import Rates, fitted

SECONDS, REPEATS = 0.05, 3  # of each figure


def measure(
    at_once: Sequence[int] | None = None,
    *,
    threads: int = 1,
    seconds: float = SECONDS,
    repeats: int = REPEATS,
) -> Rates:
    """Measure how long pieces of work and messages take on this machine, which should have nothing else to do.

    Parameters
    ----------
    at_once : sequence of int, optional
        How many processes work at the same time; by default one, one per core, and twice as many. Each number takes
        some 20 seconds, and those above one need ``mpiexec``.
    threads : int
        Of each process.
    seconds : float
        In which a figure's calls are repeated.
    repeats : int
        Of each figure; the least counts.

    Returns
    -------
    Rates

    Raises
    ------
    ImportError
        If several processes are asked for, and `mpi4py` or ``mpiexec`` is missing.
    ValueError
        If a number is not positive.
    RuntimeError
        If a process fails; its words are in the message.

    Examples
    --------
    >>> rates = qkv.distributed.plan.measure([1], seconds=0.0001, repeats=1)
    >>> rates.seconds("linear", 64, 64) > 0
    True
    """
    cores = _cores()
    ranks = max(1, cores // threads) if threads > 0 else 1
    counts = sorted(set(at_once if at_once is not None else (1, ranks, 2 * ranks)))
    for name, value in (("at_once", min(counts, default=0)), ("threads", threads), ("repeats", repeats)):
        count_of("plan.measure", name, value, 1)
    if not seconds > 0:
        raise ValueError(f"plan.measure: seconds must be above 0; got {shown(seconds)}")
    launcher = find_mpiexec("plan.measure") if counts[-1] > 1 else None
    pieces, messages = {}, {}
    for count in counts:
        found = _probe(launcher if count > 1 else None, count, threads, seconds, repeats)
        turns = max(1.0, count / cores) if threads == 1 else 1.0  # processes that share a core
        pieces[count] = {
            name: [(tuple(sizes), turns * each) for sizes, each in points]
            for name, points in found["pieces"].items()
        }
        if found["messages"] is not None:
            messages[count] = found["messages"]
    machine = {
        "cpu": processor(),
        "cores": cores,
        "threads": threads,
        "qkv": _core.config()["version"],
        "date": datetime.date.today().isoformat(),
    }
    return Rates(machine, pieces, messages, _start_time(launcher, ranks, threads))


def measure_network(*, seconds: float = SECONDS, repeats: int = REPEATS) -> Network:
    """Measure the network between machines, in a program that ``mpiexec`` has started on several of them.

    One rank of each machine sends; the others wait. All ranks call it.

    Parameters
    ----------
    seconds : float
        In which messages of a size are repeated.
    repeats : int
        Of each figure; the least counts.

    Returns
    -------
    Network
        ``"measured"``: its latency, its bandwidth, and which part of a message computing hides.

    Raises
    ------
    ValueError
        If all ranks are on one machine.

    Examples
    --------
    >>> try:
    ...     qkv.distributed.plan.measure_network()
    ... except ValueError as error:
    ...     print(str(error).partition(" because")[0])
    plan.measure_network: ranks must be on several machines
    """
    from .probe import messages, one_of_each_machine

    comm = world()
    senders = None if comm is None else one_of_each_machine(comm)
    found = None if senders is None or senders.size < 2 else messages(senders, seconds, repeats)
    found = None if comm is None else comm.bcast(found)
    if found is None:
        raise ValueError(
            "plan.measure_network: ranks must be on several machines because it is what is between them that is "
            f"measured; got {1 if comm is None else comm.size} on one (mpiexec -n 2 -ppn 1 -hosts A,B)"
        )
    line = fitted(found["shift"])
    hidden = min(found["shift_hidden"], found["sum_hidden"])
    return Network("measured", line.latency, 1 / line.per_byte, hidden)


def _run(command: Sequence[str], threads: int) -> None:
    found = subprocess.run(command, env=environment(threads), capture_output=True, text=True)
    if found.returncode:
        said = (found.stderr or found.stdout).strip().splitlines()
        raise RuntimeError(
            f"plan.measure: a process failed with status {found.returncode}: {said[-1] if said else 'it said nothing'}"
        )


def _command(launcher: str | None, count: int) -> list[str]:
    return [launcher, "-n", str(count), sys.executable] if launcher else [sys.executable]


def _probe(launcher: str | None, count: int, threads: int, seconds: float, repeats: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "found.json"
        program = ["-m", "qkv.distributed.plan.probe", str(path), str(seconds), str(repeats)]
        _run([*_command(launcher, count), *program], threads)
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf8"))
    return found


def _start_time(launcher: str | None, ranks: int, threads: int) -> float:
    """Give the time until a process on each core has imported qkv and what reads models, and MPI if launched by it."""
    reading = [name for name in ("safetensors.numpy", "tokenizers") if find_spec(name.partition(".")[0])]
    begin = time.perf_counter()
    program = f"import {', '.join(['qkv', *reading])}; qkv.models, qkv.distributed.rank()"
    _run([*_command(launcher, ranks), "-c", program], threads)
    return time.perf_counter() - begin


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
