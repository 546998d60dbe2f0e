"""A data-parallel training of a causal language model: `Trainer(comm=)`."""

from __future__ import annotations

import dataclasses
import math
from typing import ClassVar, NamedTuple

from ..buckets import SIZE
from .job import Job, Place, Price, Step, shares

FLOAT = 4


class Part(NamedTuple):
    """A part of a model: seconds of both passes, and the bytes of gradients that it finishes."""

    forward: float
    backward: float
    gradients: float


@dataclasses.dataclass(frozen=True)
class Train(Job):
    """Training a :class:`qkv.models.CausalLM` with AdamW, each batch shared among the ranks.

    A step is one update. Gradients are summed in buckets of 4 MB while the backward pass goes on.

    Attributes
    ----------
    width, heads, layers, vocabulary : int
        Of the model; its feed-forward layers have four times the width.
    batch : int
        Items of a batch, over all ranks.
    length : int
        Tokens of an item.

    Examples
    --------
    >>> rates = qkv.distributed.plan.load_rates()
    >>> job = qkv.distributed.plan.Train(width=512, batch=64)
    >>> job.step(8, rates, "ethernet-25").seconds < job.step(1, rates).seconds
    True
    """

    width: int = 256
    heads: int = 4
    layers: int = 4
    vocabulary: int = 1000
    batch: int = 16
    length: int = 128

    name: ClassVar[str] = "train"
    step_is: ClassVar[str] = "an update"
    reasons: ClassVar[dict[str, str]] = {
        "communication": "the sums of gradients take longer than the backward pass that should hide them; they do not "
        "get shorter with more ranks, the backward pass does",
        "waiting": "there are not enough items in a batch: some ranks have more than others, or nothing to do",
        "repeated": "every rank updates all parameters",
        "slower pieces": "each rank has so few items that its products are small and slow, or shares its core",
    }

    @property
    def parameters(self) -> int:
        """Numbers in the model."""
        return (
            12 * self.layers * self.width**2
            + 2 * self.vocabulary * self.width
            + (2 * self.layers + 1) * self.width
        )

    def parts(self, items: float, price: Price) -> list[Part]:
        """Give the parts of the model in the order of the forward pass, for so many items."""
        rows, width = items * self.length, self.width

        def linear(inner: int, outer: int) -> Part:
            side = math.sqrt(inner * outer)
            forward = price("linear", rows, side)
            return Part(forward, price("linear_both", rows, side) - forward, FLOAT * inner * outer)

        def elementwise(name: str, numbers: float, gradients: float = 0) -> Part:
            both = price(name, numbers)  # forward reads and writes; backward reads two arrays and writes one
            return Part(both * 2 / 5, both * 3 / 5, gradients)

        norm, add = (elementwise(name, rows * width) for name in ("norm_both", "add_both"))
        turned = elementwise("rotary_both", 2 * rows * width)
        heads = items * self.heads
        forward = heads * price("causal", self.length, width / self.heads)
        attention = Part(forward, heads * price("causal_both", self.length, width / self.heads) - forward, 0)
        projection = linear(width, width)
        first, last = linear(width, 4 * width), linear(4 * width, width)
        gelu = elementwise("gelu_both", 4 * rows * width)
        layer = [norm, *[projection] * 3, turned, attention, projection, add, norm, first, gelu, last, add]
        # The gradient of an embedding is an array of its size, most of it zeros.
        table = Part(
            price("copy", FLOAT * rows * width),
            price("copy", FLOAT * self.vocabulary * width) + price("copy", FLOAT * rows * width),
            FLOAT * self.vocabulary * width,
        )
        loss = elementwise("loss_both", rows * self.vocabulary)
        return [table, *layer * self.layers, norm, linear(width, self.vocabulary), loss]

    def _step(self, place: Place) -> Step:
        most, few, part = shares(self.batch, place.ranks)
        parts = self.parts(most, place.price)
        longest = sum(p.forward + p.backward for p in parts)
        shorter = sum(p.forward + p.backward for p in self.parts(few, place.price)) if few else 0.0
        mean = part * longest + (1 - part) * shorter
        size = FLOAT * self.parameters
        # Gradients go into the buckets and back; AdamW reads and writes all parameters.
        repeated = place.price("adam", self.parameters) + 2 * place.price("copy", size)
        messages = place.messages
        communication = self.exposed(place, parts) + 3 * messages.small()
        return Step(place.ranks, mean, repeated, communication, longest - mean, self.memory(most))

    def exposed(self, place: Place, parts: list[Part]) -> float:
        """Give the time of the sums of gradients behind the end of the backward pass.

        A bucket's sum starts when the backward pass has filled it and the sum before it is done.
        """
        if place.ranks == 1:
            return 0.0
        now = free = total = filled = 0.0
        for part in reversed(parts):
            now += part.backward
            filled += part.gradients
            if filled >= SIZE:
                took = place.messages.sum(filled)
                free, total, filled = max(now, free) + took, total + took, 0.0
        if filled:
            took = place.messages.sum(filled)
            free, total = max(now, free) + took, total + took
        behind = max(0.0, free - now)
        return total - place.messages.hidden("sum") * (total - behind)

    def memory(self, items: int) -> float:
        """Give the bytes of parameters, gradients, buckets, both moments of AdamW, and what the backward pass needs."""
        rows = items * self.length
        # Of a layer: results of both norms (2), q, k, v, turned (5), of attention (1), sums (2), feed-forward (4 + 4).
        of_layers = self.layers * rows * (18 * self.width + 2 * self.heads)
        of_loss = 3 * rows * self.vocabulary  # logits, their logarithms, their gradient
        return FLOAT * (5 * self.parameters + of_layers + of_loss)
