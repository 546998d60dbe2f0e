"""What random statements are made of: a stream of random numbers and the Tensors of PyTorch that live so far."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Tensors = dict[str, Any]
LARGEST = 120  # numbers of a Tensor that others are made of


class Choice:
    """Choices of one statement."""

    def __init__(self, stream: np.random.Generator, tensors: Tensors) -> None:
        self.stream, self.tensors = stream, tensors

    def below(self, n: int) -> int:
        return int(self.stream.integers(n))

    def among(self, options: Any) -> Any:
        return options[self.below(len(options))]

    def chance(self, share: float) -> bool:
        return bool(self.stream.random() < share)

    def tensor(self, *, rank: int = 0, whole: bool = False, leaf: bool = False) -> str:
        """Name one with at least that many axes."""
        fitting = [
            name
            for name, t in self.tensors.items()
            if t.dim() >= rank
            and 0 < t.numel() <= LARGEST
            and t.is_floating_point() is not whole
            and (t.is_leaf or not leaf)
        ]
        if not fitting:
            raise LookupError
        return str(self.among(fitting))

    def beside(self, name: str, *, within: bool = False) -> str:
        """Name one that broadcasts with another (within its shape), or a number."""
        shape = self.tensors[name].shape
        fitting = [
            other
            for other, t in self.tensors.items()
            if t.is_floating_point() and t.numel() <= LARGEST and broadcasts(t.shape, shape, within)
        ]
        return self.number() if not fitting or self.chance(0.2) else str(self.among(fitting))

    def number(self) -> str:
        return str(self.among(["0.5", "-1.5", "2.0", "0.0", "1.0"]))

    def axis(self, name: str) -> int:
        rank = self.tensors[name].dim()
        return self.below(rank) - (rank if self.chance(0.3) else 0)

    def shape(self, name: str) -> tuple[int, ...]:
        """Another shape of as many numbers, one size perhaps -1."""
        size, sizes = self.tensors[name].numel(), []
        while size > 1 and len(sizes) < 3 and self.chance(0.8):
            factor = self.among([n for n in range(1, size + 1) if size % n == 0])
            sizes.append(factor)
            size //= factor
        sizes.append(size)
        if self.chance(0.3):
            sizes[self.below(len(sizes))] = -1
        return tuple(sizes)

    def item(self, name: str) -> str:
        """Text between brackets that selects by numbers and slices."""
        parts = []
        for size in self.tensors[name].shape[: 1 + self.below(2)]:
            begin = self.below(size)
            parts.append(
                self.among([str(begin), str(begin - size), f"{begin}:", f":{begin + 1}", ":", f"{begin}::2"])
            )
        return ", ".join(parts) if parts and not self.chance(0.1) else "..."


def broadcasts(one: Any, other: Any, within: bool) -> bool:
    try:
        shape = np.broadcast_shapes(tuple(one), tuple(other))
    except ValueError:
        return False
    return shape == tuple(other) if within else math.prod(shape) <= LARGEST
