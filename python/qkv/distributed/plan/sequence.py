"""Attention to a sequence that is split over the ranks: `distributed.attention`, both passes."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from ..._errors import shown
from .job import Job, Place, Step

FLOAT = 4
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
        "repeated": "every rank calls and waits at each step of its round",
        "slower pieces": "the blocks are so short that merging their results takes long beside computing them, or "
        "ranks share a core",
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
        calls = place.rates.ring(ranks) * place.turns
        mean_time = min(mean[0] + mean[1], forward + backward)
        return Step(ranks, mean_time, calls, exposed, forward + backward - mean_time, self.memory(ranks))

    def _passes(self, place: Place, size: float) -> tuple[float, float, float]:
        """Give the computing of both passes and the messages that it does not hide, with stretches of a size."""
        ranks, heads, D, price = place.ranks, self.batch * self.heads, self.features, place.price
        bytes_each = FLOAT * heads * size * D  # of the queries, keys or values of a stretch
        stretches = 2 if self.causal else 1
        # The share of a block is scaled and added, and rows of statistics are in float64.
        merge = 4 * price("copy", bytes_each) + 12 * price("copy", 8 * heads * size)
        add = 3 * price("copy", 1.5 * bytes_each)
        pair = heads * price("block", size, D) + merge
        pair_back = heads * price("block_backward", size, D) + add
        diagonal = heads * price("causal", size, D) + merge
        both = heads * (price("causal_both", size, D) - price("causal", size, D)) + add
        first, first_back = (pair + 2 * diagonal, pair_back + 2 * both) if self.causal else (pair, pair_back)
        later, later_back = stretches * pair, stretches * pair_back
        own = stretches * bytes_each
        prepare = price("copy", 3 * own) + 2 * price("copy", own)
        prepare_back = price("copy", 2 * own) + price("copy", 3 * own) + price("copy", 2 * own)
        message, hidden = place.messages.shift(2 * own), place.messages.hidden("shift")
        exposed = 0.0
        for step in range(ranks - 1):
            work = first if step == 0 else later
            exposed += message - hidden * min(message, work)
            back = first_back if step == 0 else later_back
            under_way = (
                message if step == 0 else 2 * message
            )  # and the sums of the gradients, one step behind
            exposed += under_way - hidden * min(under_way, back)
        exposed += message - hidden * min(message, later_back)  # the sums of the step before the last
        exposed += message  # home, when nothing is left to compute
        forward = first + (ranks - 1) * later + prepare
        backward = first_back + (ranks - 1) * later_back + prepare_back
        return forward, backward, exposed

    def memory(self, ranks: int) -> float:
        """Give the bytes of a rank: its queries, keys and values, results, gradients, and two blocks on their way."""
        rows = -(-self.length // ranks) * self.batch * self.heads
        one = FLOAT * rows * self.features
        if (
            ranks == 1
        ):  # queries, keys, values, the result, the gradients of the four, sums of the backward pass
            return 9 * one + FLOAT * 2 * rows + WORKSPACE
        # In the backward pass: queries, keys, values, result, its copy for that pass, its gradient (6), those three cut
        # into stretches (3), the gradient of the queries (1), the sums of gradients here, before and after (6), a
        # stretch's results (1.5); one or two blocks on their way; and the freed memory of the step before that qkv
        # keeps, as `qkv.cached_bytes` tells (6).
        blocks = 2 * min(2, ranks - 1)
        return (17.5 + blocks + 6) * one + 8 * 4 * rows + WORKSPACE
