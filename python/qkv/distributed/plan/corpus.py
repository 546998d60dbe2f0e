"""Embedding the lines of a file: `mpiexec -n N qkv embed`."""

from __future__ import annotations

import dataclasses
import math
from typing import ClassVar

from .job import Job, Place, Step, shares

FLOAT = 4
PART = 256  # lines that a rank takes at a time


@dataclasses.dataclass(frozen=True)
class Embed(Job):
    """Embedding a corpus with a model of BERT's family; the ranks share its lines.

    A step is the whole corpus, from the start of the processes to the file.

    Attributes
    ----------
    lines : int
        Of the file.
    length : int
        Tokens of a line, on average.
    width, heads, layers, inner, vocabulary : int
        Of the model; by default those of all-MiniLM-L6-v2.
    batch : int
        Lines that are computed together.

    Examples
    --------
    >>> rates = qkv.distributed.plan.load_rates()
    >>> job = qkv.distributed.plan.Embed(lines=1_000_000)
    >>> job.step(64, rates, "ethernet-10").seconds < job.step(1, rates).seconds / 40
    True
    """

    lines: int = 20_000
    length: int = 32
    width: int = 384
    heads: int = 12
    layers: int = 6
    inner: int = 1536
    vocabulary: int = 30_522
    batch: int = 32

    name: ClassVar[str] = "embed"
    step_is: ClassVar[str] = "the whole corpus"
    reasons: ClassVar[dict[str, str]] = {
        "communication": "the ranks tell each other where their lines begin",
        "waiting": f"there are not enough parts of {PART} lines: some ranks have more than others, or nothing to do",
        "repeated": "every rank starts Python, compares and loads the model, for a few lines as for many",
        "slower pieces": "ranks share cores and memory",
    }

    @property
    def parameters(self) -> int:
        """Numbers in the model."""
        of_layer = 4 * self.width**2 + 2 * self.width * self.inner
        return self.layers * of_layer + (self.vocabulary + 514) * self.width

    def part_seconds(self, place: Place, lines: float) -> float:
        """Give the time of so many lines."""
        rows, width, price = self.batch * self.length, self.width, place.price
        inner = math.sqrt(width * self.inner)
        layer = (
            4 * price("linear_alone", rows, width)
            + 2 * price("linear_alone", rows, inner)
            + 2 * price("norm_alone", rows * width)
            + price("gelu_alone", rows * self.inner)
            + self.batch * self.heads * price("block", self.length, width / self.heads)
        )
        embedded = 3 * price("copy", FLOAT * rows * width) + price("norm_alone", rows * width)
        return (self.layers * layer + embedded) * lines / self.batch

    def _step(self, place: Place) -> Step:
        parts = -(-self.lines // PART)
        most, few, part = shares(parts, place.ranks)
        each = self.part_seconds(place, PART if parts > 1 else self.lines)
        mean = each * (part * most + (1 - part) * few)
        size = FLOAT * self.parameters
        start = place.rates.start * place.turns + 3 * place.price("copy", size) + place.price("digest", size)
        communication = 8 * place.messages.small()
        return Step(place.ranks, mean, start, communication, each * most - mean, self.memory())

    def memory(self) -> float:
        """Give the bytes of the model, its packed products, and a batch on its way."""
        rows = self.batch * self.length
        of_products = self.parameters - (self.vocabulary + 514) * self.width
        of_batch = rows * (8 * self.width + 2 * self.inner)
        return FLOAT * (self.parameters + of_products + of_batch)
