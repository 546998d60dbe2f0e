"""How a Tensor prints: four decimals, in PyTorch's style, because the documents print so."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from ._core import Tensor

DECIMALS = 4
SUMMARY_ABOVE = 1000  # elements
EDGE = 3  # entries kept at each end of an axis in a summary
LINE = 80


def number_format(values: np.ndarray) -> Callable[[Any], str]:
    """Formatter for all numbers of an array: one width, and e-notation if the range of sizes asks for it."""
    flat = values.ravel()
    if values.dtype == bool or not np.issubdtype(values.dtype, np.floating):
        width = max((len(str(v)) for v in flat.tolist()), default=0)
        return lambda v: str(v).rjust(width)
    plain: Callable[[Any], str]
    finite = np.abs(flat[np.isfinite(flat) & (flat != 0)].astype(np.float64))
    if finite.size == 0:
        plain = lambda v: f"{v:.0f}." if np.isfinite(v) else str(float(v))  # noqa: E731
    else:
        low, high = finite.min(), finite.max()
        if np.array_equal(finite, np.ceil(finite)):
            scientific = high / low > 1000.0 or high > 1.0e8
            text = f"{{:.{DECIMALS}e}}" if scientific else "{:.0f}."
        else:
            scientific = high / low > 1000.0 or high > 1.0e8 or low < 1.0e-4
            text = f"{{:.{DECIMALS}e}}" if scientific else f"{{:.{DECIMALS}f}}"
        plain = lambda v: text.format(v) if np.isfinite(v) else str(float(v))  # noqa: E731
    width = max((len(plain(v)) for v in flat.tolist()), default=0)
    return lambda v: plain(v).rjust(width)


def _body(
    values: np.ndarray, indent: int, one: Callable[[Any], str], summarize: bool, edge: np.ndarray
) -> str:
    if values.ndim == 0:
        return one(values.item())
    n = values.shape[0]
    cut = summarize and n > 2 * EDGE
    picked = [*range(EDGE), None, *range(n - EDGE, n)] if cut else list(range(n))
    if values.ndim == 1:
        per_line = max(1, (LINE - indent) // (len(one(edge.item())) + 2)) if n else 1
        words = ["..." if i is None else one(values[i].item()) for i in picked]
        lines = [", ".join(words[i : i + per_line]) for i in range(0, len(words), per_line)]
        return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"
    parts = ["..." if i is None else _body(values[i], indent + 1, one, summarize, edge) for i in picked]
    return "[" + ("," + "\n" * (values.ndim - 1) + " " * (indent + 1)).join(parts) + "]"


def _edges(values: np.ndarray) -> np.ndarray:
    """The numbers that a summary shows, which alone decide its format."""
    for axis, n in enumerate(values.shape):
        if n > 2 * EDGE:
            values = np.take(values, [*range(EDGE), *range(n - EDGE, n)], axis=axis)
    return values


def tensor_repr(t: Tensor) -> str:
    """``tensor([[0.1000, 0.2000]], dtype=float64, requires_grad=True)``."""
    values = t.numpy()
    name = "Parameter" if type(t).__name__ == "Parameter" else "tensor"
    notes = []
    if values.dtype == np.float64:
        notes.append("dtype=float64")
    if values.size == 0:
        body = "[]"
        if values.ndim != 1:
            notes.insert(0, f"size={values.shape}")
        if values.dtype in (np.int64, np.bool_):
            notes.append(f"dtype={values.dtype}")
    else:
        summarize = values.size > SUMMARY_ABOVE
        shown = _edges(values) if summarize else values
        body = _body(values, len(name) + 1, number_format(shown), summarize, shown.ravel()[:1])
    if t.requires_grad and t.is_leaf and name == "tensor":
        notes.append("requires_grad=True")
    elif not t.is_leaf:
        notes.append("computed")
    return f"{name}({', '.join([body, *notes])})"


def module_repr(module: Any) -> str:
    """The tree of a module's parts, each with the arguments that it was made with."""
    shown = {name: value for name, value in module._config().items() if value is not None}
    children = module._children()
    arguments = ", ".join(f"{name}={value!r}" for name, value in shown.items())
    name = type(module).__name__
    if not children:
        return f"{name}({arguments})"
    lines = [f"({child}): " + repr(part).replace("\n", "\n  ") for child, part in children]
    head = [arguments] if arguments else []
    return f"{name}(\n  " + "\n  ".join([*head, *lines]) + "\n)"
