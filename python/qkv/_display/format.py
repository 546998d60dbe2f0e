"""How a Tensor prints: four decimals, in PyTorch's style, because the documents print so."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from .._core import Tensor


@dataclass
class Layout:
    """What decides the text of numbers."""

    precision: int = 4  # decimals
    threshold: float = 1000  # more numbers are summarized
    edgeitems: int = 3  # entries kept at each end of an axis in a summary
    linewidth: int = 80
    sci_mode: bool | None = None  # e-notation; None lets the sizes of the numbers decide
    left_out: str = "..."  # in a row
    align_all: bool = True  # zeros, infinities and NaN widen columns, too; not in PyTorch

    def body(self, t: Any, indent: int) -> str:
        """All numbers of a Tensor in brackets, from a column of the page on; of a summary no others are read."""
        shape = tuple(t.shape)
        size = math.prod(shape)
        if not size:
            return "[]"
        summarized = size > self.threshold
        values = self._edges(t, 0) if summarized else t.numpy()
        return self._rows(values, shape, indent, Formatter(values, self), summarized)

    def _rows(
        self, values: np.ndarray, shape: tuple[int, ...], indent: int, one: Formatter, summarized: bool
    ) -> str:
        if not shape:
            return one(values.item())
        n, edge = len(values), self.edgeitems
        picked: list[int | None] = [*range(n)]
        if summarized and shape[0] > 2 * edge:
            picked.insert(edge, None)
        if len(shape) == 1:
            per_line = max(1, (self.linewidth - indent) // (one.width + 2))
            words = [self.left_out if i is None else one(values[i].item()) for i in picked]
            lines = [", ".join(words[i : i + per_line]) for i in range(0, len(words), per_line)]
            return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"
        parts = [
            "..." if i is None else self._rows(values[i], shape[1:], indent + 1, one, summarized)
            for i in picked
        ]
        return "[" + ("," + "\n" * (len(shape) - 1) + " " * (indent + 1)).join(parts) + "]"

    def _edges(self, t: Any, axis: int) -> np.ndarray:
        """The numbers that a summary shows, which alone decide its format."""
        if axis == len(t.shape):
            return t.numpy()  # type: ignore[no-any-return]
        n, edge = t.shape[axis], self.edgeitems
        if n <= 2 * edge:
            return self._edges(t, axis + 1)
        ends = (slice(edge), slice(n - edge, n))
        return np.concatenate(
            [self._edges(t[(slice(None),) * axis + (end,)], axis + 1) for end in ends], axis
        )


class Formatter:
    """One format for all numbers: whole numbers, fixed point or e-notation, to one width."""

    def __init__(self, values: np.ndarray, layout: Layout) -> None:
        self.layout, self.floating = layout, values.dtype.kind == "f"
        self.whole, self.scientific, self.width = True, False, 1
        if not self.floating:
            self.width = max((len(str(value)) for value in values.ravel().tolist()), default=1)
            return
        flat = values.astype(np.float64).ravel()
        nonzero = flat[np.isfinite(flat) & (flat != 0)]
        if nonzero.size:
            sizes = np.abs(nonzero)
            low, high = float(sizes.min()), float(sizes.max())
            self.whole = bool((nonzero == np.ceil(nonzero)).all())
            self.scientific = high / low > 1000.0 or high > 1.0e8 or (not self.whole and low < 1.0e-4)
        if layout.sci_mode is not None:
            self.scientific = layout.sci_mode
        shown = flat if layout.align_all else nonzero
        self.width = max((len(self._text(value)) for value in shown.tolist()), default=1)

    def _text(self, value: Any) -> str:
        if not self.floating:
            return str(value)
        if self.scientific:
            return f"{value:.{self.layout.precision}e}"
        if self.whole:
            return f"{value:.0f}." if math.isfinite(value) else f"{value:.0f}"
        return f"{value:.{self.layout.precision}f}"

    def __call__(self, value: Any) -> str:
        """The text of a number."""
        return self._text(value).rjust(self.width)


def tensor_repr(t: Tensor) -> str:
    """``tensor([[0.1000, 0.2000]], dtype=float64, requires_grad=True)``."""
    empty = 0 in t.shape
    name = "Parameter" if type(t).__name__ == "Parameter" else "tensor"
    notes = [f"size={t.shape}"] if empty and len(t.shape) != 1 else []
    if t.dtype == np.float64 or (empty and t.dtype in (np.int64, np.bool_)):
        notes.append(f"dtype={t.dtype}")
    if t.requires_grad and name == "tensor":
        notes.append("requires_grad=True")
    return f"{name}({', '.join([Layout().body(t.detach(), len(name) + 1), *notes])})"


def shown_config(module: Any) -> str:
    """What a module was made with; other names than usual are those of its parts."""
    config = module._config()
    return ", ".join(f"{k}={v!r}" for k, v in config.items() if v is not None and k != "names")


def module_repr(module: Any) -> str:
    """The tree of a module's parts, each with the arguments that it was made with."""
    lines = [f"({child}): {part!r}" for child, part in module._children()]
    return tree(type(module).__name__, shown_config(module), lines)


def tree(name: str, head: str, lines: list[str]) -> str:
    """A name with what it was made with and its parts, a line for each, in parentheses."""
    if head and "\n" not in head and not lines:
        return f"{name}({head})"
    inner = "\n".join([head] * bool(head) + lines).replace("\n", "\n  ")
    return f"{name}(\n  {inner}\n)" if inner else f"{name}()"
