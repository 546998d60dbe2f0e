"""What ``tensor.grad_fn`` shows."""

from __future__ import annotations


class Node:
    """The operation that made a Tensor, by PyTorch's name: ``tensor.grad_fn``."""

    _kinds: dict[str, type[Node]] = {}  # noqa: RUF012

    @staticmethod
    def named(name: str) -> Node:
        """Give a node whose class has that name."""
        kind = Node._kinds.get(name)
        if kind is None:
            kind = Node._kinds[name] = type(name, (Node,), {"__module__": __name__})
        return kind()

    def name(self) -> str:
        """PyTorch's name of the operation."""
        return type(self).__name__

    def __repr__(self) -> str:
        return f"<{self.name()} object at {id(self):#x}>"
