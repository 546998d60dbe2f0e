"""When this rank computed and when it waited, for pictures of a job."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple


class Event(NamedTuple):
    """What a rank did from `begin` to `end`, in seconds of the machine's clock."""

    name: str
    begin: float
    end: float


_events: list[Event] | None = None


@contextmanager
def recording() -> Iterator[list[Event]]:
    """Keep what happens inside in the list that is given: ``compute``, ``reduce`` (starting sums) and ``wait``.

    Examples
    --------
    >>> from qkv.distributed import trace
    >>> with trace.recording() as events:
    ...     with trace.span("compute"):
    ...         x = qkv.rand(3)
    >>> [event.name for event in events]
    ['compute']
    """
    global _events
    before, _events = _events, []
    try:
        yield _events
    finally:
        _events = before


@contextmanager
def span(name: str) -> Iterator[None]:
    """Name what happens inside."""
    if _events is None:
        yield
        return
    begin = time.time()
    try:
        yield
    finally:
        if _events is not None:
            _events.append(Event(name, begin, time.time()))
