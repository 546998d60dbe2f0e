"""How Tensors print: PyTorch's text, digit for digit."""

from __future__ import annotations

import math
from typing import Any

from .._display.format import Layout
from .._words.errors import shown
from . import _dtypes

_NUMBERS = ("precision", "threshold", "edgeitems", "linewidth")
_PROFILES: dict[str, dict[str, Any]] = {
    "default": {},
    "short": {"precision": 2, "edgeitems": 2},
    "full": {"threshold": math.inf},
}
_LAYOUT = Layout(left_out=" ...", align_all=False)


def set_printoptions(
    precision=None, threshold=None, edgeitems=None, linewidth=None, profile=None, sci_mode=None
) -> None:
    """Set digits, length of summaries and width of lines; ``profile`` is "default", "short" or "full"."""
    values = zip(_NUMBERS, (precision, threshold, edgeitems, linewidth), strict=True)
    given = {name: value for name, value in values if value is not None}
    if profile is not None:
        if profile not in _PROFILES:
            known = "'default', 'short' or 'full'"
            raise ValueError(f"set_printoptions: profile must be {known}; got {shown(profile)}")
        vars(_LAYOUT).update({name: getattr(Layout, name) for name in _NUMBERS} | _PROFILES[profile])
    for name, value in given.items():
        if not isinstance(value, (int, float) if name == "threshold" else int) or not value >= 0:
            raise ValueError(f"set_printoptions: {name} must be a number from 0 on; got {shown(value)}")
    vars(_LAYOUT).update(given)
    _LAYOUT.sci_mode = None if sci_mode is None else bool(sci_mode)


def tensor_text(t) -> str:
    """``tensor([[0.1000, 0.2000]], grad_fn=<AddBackward0>)``."""
    prefix = "tensor("
    shape = tuple(t.shape)
    suffixes = [f"size={shape}"] if 0 in shape and len(shape) != 1 else []
    told = () if 0 in shape else (_dtypes.int64, _dtypes.bool_)  # by their numbers
    if t.dtype not in (_dtypes.get_default_dtype(), *told):
        suffixes.append(f"dtype={t.dtype}")
    if t.grad_fn is not None:
        suffixes.append(f"grad_fn=<{t.grad_fn.name()}>")
    elif t.requires_grad:
        suffixes.append("requires_grad=True")
    text = prefix + _LAYOUT.body(t.detach(), len(prefix))
    length = len(text) - text.rfind("\n") + 1
    for suffix in suffixes:
        fits = length + len(suffix) + 2 <= _LAYOUT.linewidth
        text += (", " if fits else ",\n" + " " * len(prefix)) + suffix
        length = (length + 2 if fits else len(prefix)) + len(suffix)
    return text + ")"
