"""Blocks that travel from rank to rank, each while the block before it is computed with."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .agreed import agreed
from .split import count, stretches
from .trace import span

Array = NDArray[Any]
Block = Sequence[Array]  # keys and values of a rank
Shape = tuple[int, ...]
POLL = 0.001  # seconds between two looks at messages under way
WORTH_POLLING = 1 << 18  # bytes; smaller messages are delivered without help
BLOCKS, GRADIENTS = 1, 2  # tags


def whole_length(operation: str, name: str, lengths: Sequence[int], causal: bool) -> int:
    """Return the length of a sequence whose ranks hold so many positions; all ranks raise if they do not fit."""
    length, ranks = sum(lengths), len(lengths)
    if length < ranks:
        raise agreed(
            ValueError(
                f"{operation}: {name} must hold at least one position on each rank; got {length} positions on "
                f"{ranks} ranks"
            )
        )
    middle = sorted(lengths)[ranks // 2]
    for rank, given in sorted(enumerate(lengths), key=lambda entry: -abs(entry[1] - middle)):
        wanted = count(length, ranks, rank, causal)
        if given != wanted:
            raise agreed(
                ValueError(
                    f"{operation}: {name} of rank {rank} must hold {wanted} positions, which is its part of {length} "
                    f"by qkv.distributed.positions({length}, comm, is_causal={causal}); got {given}"
                )
            )
    return length


class Reach(NamedTuple):
    """Which keys a query at position p may attend to: those that all of these allow."""

    rules: tuple[bool, int, int]  # causal order, and a window
    offsets: tuple[int, int]  # the least and the largest position of query 0
    longest: int | None  # j < longest
    everywhere: bool  # excluded scores are replaced and not skipped


class Layout:
    """Where the positions of a sequence are, and the steps of the ring in which some rank needs the block it gets."""

    def __init__(self, ranks: int, query_length: int, key_length: int, causal: bool, reach: Reach) -> None:
        self.queries = [stretches(query_length, ranks, rank, causal) for rank in range(ranks)]
        self.keys = [stretches(key_length, ranks, rank, causal) for rank in range(ranks)]
        # (ranks, stretches of queries, ranks, stretches of keys)
        self._scored: NDArray[np.bool_] = self._scores(reach)
        between: NDArray[np.bool_] = np.any(self._scored, axis=(1, 3))
        rank = np.arange(ranks)
        # At step t, rank r has the block of rank r - t.
        self.steps = [t for t in range(ranks) if t == 0 or between[rank, (rank - t) % ranks].any()]

    def _scores(self, reach: Reach) -> NDArray[np.bool_]:
        queries, keys = np.array(self.queries), np.array(self.keys)[None, None]
        begin, end = keys[..., 0], keys[..., 1]
        found: NDArray[np.bool_] = (queries[..., 0] < queries[..., 1])[..., None, None] & (begin < end)
        if reach.everywhere:
            return found
        # Both limits of a query's keys grow with its position.
        length = int(end.max()) if reach.longest is None else reach.longest
        first, last = np.clip(reach.offsets, -(2**60), 2**60)
        low, _ = _core.allowed_keys(queries[..., 0] + first, 1, length, *reach.rules)
        _, high = _core.allowed_keys(queries[..., 1] - 1 + last, 1, length, *reach.rules)
        low, high = low[..., None], high[..., None]
        found &= (low < high) & (begin < high) & (end > low)
        return found

    def pairs(self, rank: int, owner: int) -> list[tuple[int, int]]:
        """Return the numbers of those stretches of a rank's queries and an owner's keys that have scores in common."""
        return [(int(i), int(j)) for i, j in np.argwhere(self._scored[rank, :, owner])]


@lru_cache(maxsize=32)
def layout_of(ranks: int, query_length: int, key_length: int, causal: bool, reach: Reach) -> Layout:
    """Return the layout, made once for the calls of many layers and steps."""
    return Layout(ranks, query_length, key_length, causal, reach)


@contextmanager
def progress(requests: Sequence[Any], bytes_under_way: int) -> Iterator[None]:
    """Keep messages going while this thread computes: most libraries deliver large ones only when they are called."""
    from mpi4py import MPI

    if not requests or bytes_under_way < WORTH_POLLING or MPI.Query_thread() < MPI.THREAD_MULTIPLE:
        yield
        return
    stop = threading.Event()

    def poll() -> None:
        while not stop.wait(POLL) and not MPI.Request.Testall(list(requests)):
            pass

    thread = threading.Thread(target=poll, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


class Ring:
    """One round of blocks that visit the ranks which need them; `shapes[rank]` are those of the block's arrays."""

    def __init__(
        self, comm: Any, shapes: Sequence[Sequence[Shape]], steps: Sequence[int], dtype: Any
    ) -> None:
        self.comm, self.shapes, self.steps = comm, shapes, list(steps)
        self.rank, self.ranks = comm.Get_rank(), comm.Get_size()
        self.dtype = np.dtype(dtype)

    def _owner(self, step: int) -> int:
        return int((self.rank - step) % self.ranks)

    def _hop(self, i: int) -> int:
        """Return how many ranks further the block goes after step number i; after the last one back to its owner."""
        following = self.steps[i + 1] if i + 1 < len(self.steps) else self.ranks
        return int((following - self.steps[i]) % self.ranks)

    def _room(self) -> list[Array]:
        """Return memory for any rank's block."""
        largest = [max(map(math.prod, shapes)) for shapes in zip(*self.shapes, strict=True)]
        return [np.empty(size, self.dtype) for size in largest]

    def _receive(self, block: Block, source: int, tag: int) -> list[Any]:
        return [self.comm.comm.Irecv(array, source % self.ranks, tag) for array in block]

    def _send(self, block: Block, target: int, tag: int) -> list[Any]:
        return [self.comm.comm.Isend(array, target % self.ranks, tag) for array in block]

    def blocks(self, own: Block) -> Iterator[tuple[int, Block]]:
        """Return (owner, block) for each step; the next block arrives while the caller uses this one.

        `own` is sent from its own memory; the others arrive in two buffers, in turn.
        """
        current, rooms = own, []
        for i, step in enumerate(self.steps):
            requests: list[Any] = []
            following: Block = []
            if i + 1 < len(self.steps):
                if i < 2:
                    rooms.append(self._room())
                shapes, hop = self.shapes[self._owner(self.steps[i + 1])], self._hop(i)
                parts = zip(rooms[i % 2], shapes, strict=True)
                following = [room[: math.prod(shape)].reshape(shape) for room, shape in parts]
                requests = self._receive(following, self.rank - hop, BLOCKS)
                requests += self._send(current, self.rank + hop, BLOCKS)
            with progress(requests, sum(array.nbytes for array in following)), span("compute"):
                yield self._owner(step), current
            with span("wait"):
                self.comm.wait(*requests)
            current = following

    def sums(self, own: Block, share: Callable[[int, Block], Block]) -> Block:
        """Return the sum of ``share(owner, block)`` over the ranks, for this rank's own block.

        The sums travel one step after the blocks: at each rank the share is computed while the sum of the ranks before
        it is under way.
        """
        sending: list[Any] = []
        kept: Block = []
        for i, (owner, block) in enumerate(self.blocks(own)):
            arriving: list[Any] = []
            before: Block = []
            if i > 0:
                before = [np.empty(shape, self.dtype) for shape in self.shapes[owner]]
                arriving = self._receive(before, self.rank - self._hop(i - 1), GRADIENTS)
            total = share(owner, block)
            if arriving:
                self.comm.wait(*arriving)
                for array, other in zip(total, before, strict=True):
                    array += other
            self.comm.wait(*sending)
            hop = self._hop(i)
            sending = self._send(total, self.rank + hop, GRADIENTS) if hop else []
            kept = total
        if not sending:
            return kept
        home = [np.empty(shape, self.dtype) for shape in self.shapes[self.rank]]
        source = self.rank - self._hop(len(self.steps) - 1)
        self.comm.wait(*self._receive(home, source, GRADIENTS), *sending)
        return home
