"""Attention to a sequence that is split over the ranks: `distributed.attention`, both passes."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from ..._errors import shown
from .job import Job, Place, Step
from .rates import Line, Rates, fitted

FLOAT = 4
RING_HEADS, RING_WIDTH = 4, 64  # of the rings that are timed, which are causal
WORKSPACE = 4 << 20  # bytes of the kernels' tiles


@dataclasses.dataclass(frozen=True)
class Attention(Job):
    """Attention of one layer to a sequence of which each rank holds a part, forward and backward.

    Blocks of keys and values go from rank to rank while each computes with the block that it has. In a causal sequence
    each rank holds a stretch from either end.

    Attributes
    ----------
    length : int
        Of the whole sequence.
    heads, features : int
        Of queries, keys and values.
    batch : int
    causal : bool

    Examples
    --------
    >>> rates = qkv.distributed.plan.load_rates()
    >>> job = qkv.distributed.plan.Attention(length=262_144)
    >>> few, many = (job.step(ranks, rates, "infiniband-hdr") for ranks in (8, 64))
    >>> 7 < few.memory / many.memory < 9
    True
    """

    length: int = 16384
    heads: int = 8
    features: int = 64
    batch: int = 1
    causal: bool = True

    name: ClassVar[str] = "attention"
    step_is: ClassVar[str] = "both passes of a layer"
    reasons: ClassVar[dict[str, str]] = {
        "communication": "a block of keys and values travels longer than the scores with it take: their number falls "
        "with the square of the ranks, the block's size with the ranks alone, its latency not at all",
        "waiting": "the sequence does not divide evenly",
        "repeated": "at each step of its round every rank calls, waits, and merges what it computed with what it has",
        "slower pieces": "the blocks are too short for the kernels' full speed, or ranks share a core",
    }

    def _step(self, place: Place) -> Step:
        ranks, heads = place.ranks, self.batch * self.heads
        if self.length < ranks:
            raise ValueError(
                f"plan.Attention: ranks must be at most the length {self.length} because each of them holds a part; "
                f"got {shown(ranks)}"
            )
        if ranks == 1:
            each = heads * (
                place.price("causal_both", self.length, self.features)
                if self.causal
                else place.price("block", self.length, self.features)
                + place.price("block_backward", self.length, self.features)
            )
            return Step(1, each, 0.0, 0.0, 0.0, self.memory(1))
        parts = 2 * ranks if self.causal else ranks
        longest = self._passes(place, -(-self.length // parts))
        mean = self._passes(place, self.length / parts)
        forward, backward, exposed = longest
        numbers = heads * self.length / ranks * self.features
        others = ranks * place.turns * _others(place.rates, ranks).seconds(numbers)
        mean_time = min(mean[0] + mean[1], forward + backward)
        return Step(ranks, mean_time, others, exposed, forward + backward - mean_time, self.memory(ranks))

    def _passes(self, place: Place, size: float) -> tuple[float, float, float]:
        """Give the computing of both passes and the messages that it does not hide, with stretches of a size."""
        ranks, heads, D, price = place.ranks, self.batch * self.heads, self.features, place.price
        bytes_each = FLOAT * heads * size * D  # of the queries, keys or values of a stretch
        stretches = 2 if self.causal else 1
        pair, pair_back = heads * price("block", size, D), heads * price("block_backward", size, D)
        diagonal = heads * price("causal", size, D)
        both = heads * price("causal_both", size, D) - diagonal
        first, first_back = (pair + 2 * diagonal, pair_back + 2 * both) if self.causal else (pair, pair_back)
        later, later_back = stretches * pair, stretches * pair_back
        message, hidden = place.messages.shift(2 * stretches * bytes_each), place.messages.hidden("shift")
        exposed = 0.0
        for step in range(ranks - 1):
            work = first if step == 0 else later
            exposed += message - hidden * min(message, work)
            back = first_back if step == 0 else later_back
            # The sums of the gradients follow, one step behind.
            under_way = message if step == 0 else 2 * message
            exposed += under_way - hidden * min(under_way, back)
        exposed += message - hidden * min(message, later_back)  # the sums of the step before the last
        exposed += message  # home, when nothing is left to compute
        return first + (ranks - 1) * later, first_back + (ranks - 1) * later_back, exposed

    def memory(self, ranks: int) -> float:
        """Give the bytes of a rank: its queries, keys and values, results, gradients, and two blocks on their way."""
        rows = -(-self.length // ranks) * self.batch * self.heads
        one = FLOAT * rows * self.features
        # Queries, keys, values, the result, the gradients of the four, sums of the backward pass.
        if ranks == 1:
            return 9 * one + FLOAT * 2 * rows + WORKSPACE
        # In the backward pass: queries, keys, values, result, its copy for that pass, its gradient (6), those three cut
        # into stretches (3), the gradient of the queries (1), the sums of gradients here, before and after (6), a
        # stretch's results (1.5); one or two blocks on their way; and the freed memory of the step before that qkv
        # keeps, as `qkv.cached_bytes` tells (6).
        blocks = 2 * min(2, ranks - 1)
        return (17.5 + blocks + 6) * one + 8 * 4 * rows + WORKSPACE


def _others(rates: Rates, ranks: int) -> Line:
    """Give what a step of a ring takes beside kernels and messages, by the numbers in a rank's keys.

    That are calls, waiting, copies into stretches, and merging and adding results in memory that is not in the cache.
    """
    return rates.between_counts(ranks, lambda count: _measured(rates, count))


def _measured(rates: Rates, ranks: int) -> Line:
    place, points, known = Place(rates, ranks, None, ranks), [], []
    for positions, seconds in rates.messages[ranks]["ring"]:
        job = Attention(ranks * positions, RING_HEADS, RING_WIDTH)
        steps = ranks * place.turns
        points.append((RING_HEADS * positions * RING_WIDTH, seconds / steps))
        known.append(sum(job._passes(place, positions / 2)) / steps)
    return fitted(points, known)
