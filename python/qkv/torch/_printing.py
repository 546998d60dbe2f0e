"""How Tensors print: PyTorch's text, digit for digit."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .._errors import shown
from . import _dtypes

_DEFAULT: dict[str, Any] = {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80}
_PROFILES: dict[str, dict[str, Any]] = {
    "default": _DEFAULT,
    "short": {**_DEFAULT, "precision": 2, "edgeitems": 2},
    "full": {**_DEFAULT, "threshold": math.inf},
}
_OPTIONS: dict[str, Any] = {**_DEFAULT, "sci_mode": None}


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Set digits, length of summaries and width of lines; ``profile`` is "default", "short" or "full"."""
    if profile is not None:
        if profile not in _PROFILES:
            raise ValueError(
                f"set_printoptions: profile must be 'default', 'short' or 'full'; got {shown(profile)}"
            )
        _OPTIONS.update(_PROFILES[profile])
    given = dict(zip(_DEFAULT, (precision, threshold, edgeitems, linewidth), strict=True))
    for name, value in given.items():
        whole = isinstance(value, int) or (name == "threshold" and isinstance(value, float))
        if value is not None and not (whole and value >= 0):
            raise ValueError(f"set_printoptions: {name} must be a number from 0 on; got {shown(value)}")
    _OPTIONS.update({name: value for name, value in given.items() if value is not None})
    _OPTIONS["sci_mode"] = sci_mode


class _Formatter:
    """One format for all numbers of a Tensor: whole numbers, fixed point or e-notation, to one width."""

    def __init__(self, values: np.ndarray) -> None:
        self.floating = values.dtype.kind == "f"
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
        if _OPTIONS["sci_mode"] is not None:
            self.scientific = bool(_OPTIONS["sci_mode"])
        self.width = max((len(self._text(value)) for value in nonzero.tolist()), default=1)

    def _text(self, value: Any) -> str:
        if not self.floating:
            return str(value)
        if self.scientific:
            return f"{value:.{_OPTIONS['precision']}e}"
        if self.whole:
            return f"{value:.0f}." if math.isfinite(value) else f"{value:.0f}"
        return f"{value:.{_OPTIONS['precision']}f}"

    def __call__(self, value: Any) -> str:
        return self._text(value).rjust(self.width)


def _body(values: np.ndarray, indent: int, one: _Formatter, summarize: bool) -> str:
    if values.ndim == 0:
        return one(values.item())
    n, edge = values.shape[0], _OPTIONS["edgeitems"]
    cut = summarize and n > 2 * edge
    picked = [*range(edge), None, *range(n - edge, n)] if cut else list(range(n))
    if values.ndim == 1:
        per_line = max(1, (_OPTIONS["linewidth"] - indent) // (one.width + 2))
        words = [" ..." if i is None else one(values[i].item()) for i in picked]
        lines = [", ".join(words[i : i + per_line]) for i in range(0, len(words), per_line)]
        return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"
    parts = ["..." if i is None else _body(values[i], indent + 1, one, summarize) for i in picked]
    return "[" + ("," + "\n" * (values.ndim - 1) + " " * (indent + 1)).join(parts) + "]"


def _edges(values: np.ndarray) -> np.ndarray:
    """The numbers that a summary shows, which alone decide its format."""
    edge = _OPTIONS["edgeitems"]
    for axis, n in enumerate(values.shape):
        if n > 2 * edge:
            values = np.take(values, [*range(edge), *range(n - edge, n)], axis=axis)
    return values


def tensor_text(t: Any) -> str:
    """``tensor([[0.1000, 0.2000]], grad_fn=<AddBackward0>)``."""
    prefix = "tensor("
    values = t.detach().numpy()
    suffixes = [f"size={tuple(values.shape)}"] if values.size == 0 and values.ndim != 1 else []
    told = (_dtypes.int64, _dtypes.bool_) if values.size else ()  # by their numbers
    if t.dtype not in (_dtypes.get_default_dtype(), *told):
        suffixes.append(f"dtype={t.dtype}")
    summarize = values.size > _OPTIONS["threshold"]
    one = _Formatter(_edges(values) if summarize else values)
    body = _body(values, len(prefix), one, summarize) if values.size else "[]"
    if t.grad_fn is not None:
        suffixes.append(f"grad_fn=<{t.grad_fn.name()}>")
    elif t.requires_grad:
        suffixes.append("requires_grad=True")
    text = prefix + body
    length = len(text) - text.rfind("\n") + 1
    for suffix in suffixes:
        fits = length + len(suffix) + 2 <= _OPTIONS["linewidth"]
        text += (", " if fits else ",\n" + " " * len(prefix)) + suffix
        length = (length + 2 if fits else len(prefix)) + len(suffix)
    return text + ")"
