"""What ``tensor.grad_fn`` shows."""

from __future__ import annotations

import functools


class Node:
    """The operation that made a Tensor, by PyTorch's name: ``tensor.grad_fn``."""

    @staticmethod
    def named(name: str) -> Node:
        """Return a node whose class has that name."""
        return _kind(name)()

    def name(self) -> str:
        """PyTorch's name of the operation."""
        return type(self).__name__

    def __repr__(self) -> str:
        return f"<{self.name()} object at {id(self):#x}>"


@functools.cache
def _kind(name: str) -> type[Node]:
    return type(name, (Node,), {"__module__": __name__})
