"""Times pieces of work and messages while all ranks of a job do the same; rank 0 writes what it found as JSON.

mpiexec -n N python -m qkv.distributed.plan.probe FILE SECONDS REPEATS
"""

from __future__ import annotations

import itertools
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import qkv

from ..ring import progress
from .pieces import LENGTHS, PIECES
from .sequence import RING_HEADS, RING_WIDTH

MESSAGES = (8, 1 << 12, 1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 24)
RING_POSITIONS = [2 * length for length in LENGTHS]  # of two stretches, each as long as pieces that are timed
MOST = 20  # exchanges that are timed, for each repetition
UNDER_WAY = 1 << 22  # bytes of the message that is to be hidden: a bucket of gradients
Call = Callable[[], object]


class OneProcess:
    """The ranks of a process without MPI."""

    rank, size = 0, 1

    def barrier(self) -> None:
        """Wait for nobody."""

    def allgather(self, value: Any) -> list[Any]:
        return [value]


def timed(call: Call, seconds: float, repeats: int, clock: Callable[[], float]) -> float:
    """Give the time of a call that is repeated for some seconds; the least of some means."""
    call()
    begin = clock()
    call()
    count = max(1, min(int(seconds / max(clock() - begin, 1e-7)), 10_000))
    found = []
    for _ in range(repeats):
        begin = clock()
        for _ in range(count):
            call()
        found.append((clock() - begin) / count)
    return float(min(found))


def delivered(comm: Any, call: Call, seconds: float, repeats: int) -> float:
    """Give the time of an exchange between all ranks, the least of many: other programs only add to it."""
    begin = time.perf_counter()
    call()
    call()
    once = max(comm.allgather((time.perf_counter() - begin) / 2))
    count = repeats * max(4, min(int(seconds / once), MOST))
    found = np.zeros(count)
    for i in range(count):
        begin = time.perf_counter()
        call()
        found[i] = time.perf_counter() - begin
    return float(np.min(np.max(comm.allgather(found), axis=0)))


def pieces(comm: Any, seconds: float, repeats: int) -> dict[str, list[Any]]:
    """Give the time of each piece, with a core for each rank.

    With one thread it is the processor's time, to which neither other programs add nor a rank that has the core for a
    while; more threads wait for each other, and only the clock sees it.
    """
    clock = time.process_time if qkv.get_num_threads() == 1 else time.perf_counter
    comm.barrier()
    wanted = [(name, sizes) for name, piece in PIECES.items() for sizes in itertools.product(*piece.sizes)]
    times = [timed(PIECES[name].make(*sizes), seconds, repeats, clock) for name, sizes in wanted]
    found: dict[str, list[Any]] = {}
    for (name, sizes), each in zip(wanted, np.max(comm.allgather(times), axis=0), strict=True):
        found.setdefault(name, []).append([sizes, float(each) / PIECES[name].share])
    return found


class Exchange:
    """A message, or several, that the call sends and waits for."""

    def __init__(self, begin: Callable[[], list[Any]]) -> None:
        self._begin = begin
        self.requests: list[Any] = []

    def start(self) -> None:
        self.requests[:] = self._begin()

    def end(self) -> None:
        for request in self.requests:
            request.Wait()

    def __call__(self) -> None:
        self.start()
        self.end()


def shift(comm: Any, size: int) -> Exchange:
    """Give a message from each rank to the next."""
    sent, received = np.ones(size, "uint8"), np.empty(size, "uint8")
    before, after = (comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size
    return Exchange(lambda: [comm.Irecv(received, before, 1), comm.Isend(sent, after, 1)])


def total(comm: Any, size: int) -> Exchange:
    """Give a sum over all ranks."""
    from mpi4py import MPI

    numbers = np.zeros(max(1, size // 4), "float32")
    return Exchange(lambda: [comm.Iallreduce(MPI.IN_PLACE, numbers, MPI.SUM)])


def hidden(comm: Any, kind: str, make: Callable[[Any, int], Exchange], repeats: int) -> float:
    """Give which part of a message's time is hidden behind work that takes about twice as long."""
    exchange = make(comm, UNDER_WAY)
    work = PIECES["linear_both" if kind == "sum" else "block"].make(
        *((256, 256) if kind == "sum" else (512, 64))
    )
    of_message = delivered(comm, exchange, 0.1, repeats)
    of_work = delivered(comm, work, 0.1, repeats)
    count = max(1, round(2 * of_message / of_work))

    def alone() -> None:
        for _ in range(count):
            work()

    def both() -> None:
        exchange.start()
        if kind == "sum":
            for _ in range(count):
                work()
                exchange.requests[0].Test()
        else:
            with progress(exchange.requests, UNDER_WAY):
                alone()
        exchange.end()

    of_work = delivered(comm, alone, 0.1, repeats)
    of_both = delivered(comm, both, 0.1, repeats)
    return float(np.clip((of_work + of_message - of_both) / min(of_work, of_message), 0, 1))


def messages(comm: Any, seconds: float, repeats: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for kind, make in (("shift", shift), ("sum", total)):
        found[kind] = [[size, delivered(comm, make(comm, size), seconds, repeats)] for size in MESSAGES]
        found[f"{kind}_hidden"] = hidden(comm, kind, make, repeats)
    return found


def rings(comm: Any, seconds: float, repeats: int) -> list[list[float]]:
    """Give positions of a rank and the time of both passes of causal attention round the ring."""
    found = []
    for positions in RING_POSITIONS:
        shape = 1, RING_HEADS, positions, RING_WIDTH
        q, k, v = (qkv.tensor(qkv.randn(*shape), requires_grad=True) for _ in range(3))
        dout = qkv.randn(*shape)

        def both_passes(q: Any = q, k: Any = k, v: Any = v, dout: Any = dout) -> None:
            for leaf in (q, k, v):
                leaf.grad = None
            qkv.distributed.attention(q, k, v, comm, is_causal=True).backward(dout)

        found.append([positions, delivered(comm, both_passes, seconds, repeats)])
    return found


def one_of_each_machine(comm: Any) -> Any:
    """Give a communicator of the first ranks of all machines; None to other ranks."""
    from mpi4py import MPI

    first = comm.Split_type(MPI.COMM_TYPE_SHARED).rank == 0
    found = comm.Split(0 if first else MPI.UNDEFINED, comm.rank)
    return found if first else None


def main(path: str, seconds: float, repeats: int) -> None:
    comm = qkv.distributed.launch.world() or OneProcess()
    result: dict[str, Any] = {"pieces": pieces(comm, seconds, repeats), "messages": None}
    if comm.size > 1:
        result["messages"] = {**messages(comm, seconds, repeats), "ring": rings(comm, seconds, repeats)}
    if comm.rank == 0:
        Path(path).write_text(json.dumps(result), encoding="utf8")


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), int(sys.argv[3]))
