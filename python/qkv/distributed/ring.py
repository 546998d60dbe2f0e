"""Blocks that travel from rank to rank, each while the block before it is computed with."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .agreed import agreed
from .positions import count, stretches
from .trace import span

Block = NDArray[Any]
POLL = 0.001  # seconds between two looks at messages under way
WORTH_POLLING = 1 << 18  # bytes; smaller messages are delivered without help
BLOCKS, GRADIENTS = 1, 2  # tags


def whole_length(operation: str, name: str, lengths: Sequence[int], causal: bool) -> int:
    """Give the length of a sequence whose ranks hold so many positions; an error, on all ranks, if they do not fit."""
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
        self._scored: NDArray[np.bool_] = self._scores(
            reach
        )  # (ranks, stretches of queries, ranks, stretches of keys)
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
        """Give the numbers of those stretches of a rank's queries and an owner's keys that have scores in common."""
        return [(int(i), int(j)) for i, j in np.argwhere(self._scored[rank, :, owner])]


@lru_cache(maxsize=32)
def layout_of(ranks: int, query_length: int, key_length: int, causal: bool, reach: Reach) -> Layout:
    """Give the layout, made once for the calls of many layers and steps."""
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
    """One round of blocks, of `sizes[rank]` numbers each, that visit the ranks which need them."""

    def __init__(self, comm: Any, sizes: Sequence[int], steps: Sequence[int], dtype: Any) -> None:
        self.comm, self.sizes, self.steps = comm, sizes, list(steps)
        self.rank, self.ranks = comm.Get_rank(), comm.Get_size()
        self.dtype = np.dtype(dtype)

    def _owner(self, step: int) -> int:
        return int((self.rank - step) % self.ranks)

    def _hop(self, i: int) -> int:
        """Give how many ranks further the block goes after step number i; after the last one home."""
        following = self.steps[i + 1] if i + 1 < len(self.steps) else self.ranks
        return int((following - self.steps[i]) % self.ranks)

    def blocks(self, own: Block) -> Iterator[tuple[int, Block]]:
        """Give (owner, block) for each step; the next block arrives while the caller uses this one.

        `own` stands at the beginning of room for the largest block, which is used again.
        """
        current = own
        del own  # when its block has gone on
        room = np.empty(max(self.sizes) if len(self.steps) > 1 else 0, self.dtype)  # for the next block
        for i, step in enumerate(self.steps):
            requests: list[Any] = []
            following = current
            if i + 1 < len(self.steps):
                hop = self._hop(i)
                following = room[: self.sizes[self._owner(self.steps[i + 1])]]
                requests = [
                    self.comm.comm.Irecv(following, (self.rank - hop) % self.ranks, BLOCKS),
                    self.comm.comm.Isend(current, (self.rank + hop) % self.ranks, BLOCKS),
                ]
            with progress(requests, following.nbytes if requests else 0), span("compute"):
                yield self._owner(step), current
            with span("wait"):
                self.comm.wait(*requests)
            if requests:
                room, current = np.asarray(current.base), following
            if i + 2 >= len(self.steps):
                room = following = current  # no more room is needed

    def sums(self, own: Block, share: Callable[[int, Block], Block]) -> Block:
        """Give the sum of ``share(owner, block)`` over the ranks, for this rank's own block.

        The sums travel one step behind the blocks: at each rank the share is computed while the sum of the ranks before
        it is under way.
        """
        sending: list[Any] = []
        kept: list[Block] = []
        blocks = self.blocks(own)
        del own
        for i, (owner, block) in enumerate(blocks):
            arriving: list[Any] = []
            if i > 0:
                before = np.empty(self.sizes[owner], self.dtype)
                arriving = [
                    self.comm.comm.Irecv(before, (self.rank - self._hop(i - 1)) % self.ranks, GRADIENTS)
                ]
            total = share(owner, block)
            if arriving:
                self.comm.wait(*arriving)
                total += before
            self.comm.wait(*sending)
            hop = self._hop(i)
            sending = [self.comm.comm.Isend(total, (self.rank + hop) % self.ranks, GRADIENTS)] if hop else []
            kept = [total]
        if not sending:
            return kept[0]
        home = np.empty(self.sizes[self.rank], self.dtype)
        source = (self.rank - self._hop(len(self.steps) - 1)) % self.ranks
        self.comm.wait(self.comm.comm.Irecv(home, source, GRADIENTS), *sending)
        return home
