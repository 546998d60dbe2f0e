"""Waiting for other ranks: the core is left to others, and a rank that will not come is named.

A rank that was kept waiting for `QKV_TIMEOUT` seconds asks the others by notes; one that does not answer is at work
elsewhere, asleep, stopped or at its end, and the job ends with its name.
"""

from __future__ import annotations

import atexit
import os
import time
from collections.abc import Callable, Sequence
from typing import Any

from . import failure

TAG = 31999  # of notes, on the communicator of all ranks
ASKS, WAITS = "asks", "waits"
EAGER = 0.01  # seconds in which a message is looked for without a pause
PAUSE = 0.001  # the longest pause between two looks, in seconds
NOTES = 0.1  # seconds between two looks at notes
GRACE = 2.0  # seconds in which ranks that wait answer
PERIOD = 30.0  # seconds between two questions, in which every message has arrived
DEFAULT = 600.0

# To the last question of this rank: who waits, the how-manieth wait that is, and where.
_answers: dict[int, str] = {}
_questions = _waits = 0
_sending: list[Any] = []  # notes under way


def limit() -> float:
    """Return the seconds after which a rank that others wait for is named; infinity if it never is."""
    text = os.environ.get("QKV_TIMEOUT", "")
    try:
        seconds = float(text or DEFAULT)
    except ValueError:
        seconds = -1.0
    if not seconds >= 0:
        raise ValueError(f"distributed: QKV_TIMEOUT must be a number of seconds, 0 for none; got {text}")
    return seconds or float("inf")


def wait(done: Callable[[], bool], members: Callable[[], Sequence[int]], operation: str) -> None:
    """Wait until ``done()``; `members` are the ranks of the world that are waited for."""
    if done():
        return
    global _waits
    _waits += 1
    watch, begin = Watch(members, operation), time.monotonic()
    look = begin + NOTES
    while not done():
        now = time.monotonic()
        if now - begin > EAGER:
            time.sleep(min((now - begin) / 20, PAUSE))
        else:
            time.sleep(0)
        if now >= look:
            watch.look()
            look = now + NOTES


def watch() -> None:
    """From now on a failure of this rank that nobody catches ends the job."""
    if failure.watch():
        atexit.register(_hear)  # so that MPI ends with nothing left


def _world() -> Any:
    return failure.running().COMM_WORLD


def _send(rank: int, *words: object) -> None:
    _sending[:] = [request for request in _sending if not request.Test()]
    _sending.append(_world().Isend(" ".join(map(str, words)).encode(), rank, TAG))


def _hear(operation: str | None = None) -> None:
    """Read the notes that have come; answer those who ask if this rank waits."""
    mpi = failure.running()
    if mpi is None:
        return
    world, status = mpi.COMM_WORLD, mpi.Status()
    while world.Iprobe(mpi.ANY_SOURCE, TAG, status):
        note, source = bytearray(status.Get_count(mpi.BYTE)), status.Get_source()
        world.Recv(note, source, TAG)
        kind, _, rest = note.decode().partition(" ")
        if kind == ASKS and operation is not None:
            _send(source, WAITS, rest, _waits, operation)
        elif kind == WAITS and rest.partition(" ")[0] == str(_questions):
            _answers[source] = rest.partition(" ")[2]


class Watch:
    """One wait that has become long."""

    def __init__(self, members: Callable[[], Sequence[int]], operation: str) -> None:
        self._members, self._operation = members, operation
        self._begin, self._limit = time.monotonic(), limit()
        self._asked, self._next = 0.0, self._begin + min(self._limit, PERIOD)
        self._before: dict[int, str] = {}  # what was answered to the question before

    def look(self) -> None:
        """Read the notes, and end the job if a rank that is waited for does not come."""
        global _questions
        _hear(self._operation)
        now, me, count = time.monotonic(), _world().Get_rank(), _world().Get_size()
        if now < self._next or self._limit == float("inf"):
            return
        others = [rank for rank in self._members() if rank != me]
        if not self._asked:
            _questions, self._asked = _questions + 1, now
            _answers.clear()
            for rank in others:
                _send(rank, ASKS, _questions)
            return
        absent = [rank for rank in others if rank not in _answers]
        waiting, late = sorted({me, *_answers}), now - self._begin > self._limit
        # The first of those who wait speaks for them; the others do if it is not heard.
        if now - self._asked < GRACE * (3 if absent and late and waiting[0] != me else 1):
            return
        if absent and late:
            missing = "".join(f" and rank {rank}" for rank in absent[1:])
            who = " and ".join(f"rank {rank}" for rank in waiting)
            failure.end_job(
                f"rank {absent[0]} of {count}{missing} did not come while {who} waited {self._limit:g} s "
                f"(QKV_TIMEOUT) for it in {self._operation}"
            )
        where = {rank: answer.partition(" ")[2] for rank, answer in _answers.items()}
        if not absent and _answers == self._before and (late or set(where.values()) != {self._operation}):
            said = " and ".join(f"rank {rank} for it in {name}" for rank, name in sorted(where.items()))
            failure.end_job(
                f"rank {me} of {count} waits in {self._operation} for ranks that wait themselves, {said}"
            )
        self._before = {} if absent else dict(_answers)
        self._asked, self._next = 0.0, now + min(self._limit, PERIOD)
