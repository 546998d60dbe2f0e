"""``torch.testing``: whether results are close, with PyTorch's tolerances and words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, NoReturn

import numpy as np

from ._elementwise import as_tensor
from ._tensor import Tensor, refuse_attribute

# rtol and atol; those of whole numbers are 0.
_TOLERANCES = {"float32": (1.3e-6, 1e-5), "float64": (1e-7, 1e-7)}


class _Rules(NamedTuple):
    rtol: float | None
    atol: float | None
    equal_nan: bool
    check_dtype: bool
    allow_subclasses: bool
    msg: str | Callable[[str], str] | None

    def fail(self, text: str, path: tuple[Any, ...]) -> NoReturn:
        """Raise with PyTorch's text, or the caller's."""
        if path:
            text += "\n\nThe failure occurred for item " + "".join(f"[{key!r}]" for key in path)
        raise AssertionError(self.msg(text) if callable(self.msg) else self.msg or text)

    def tolerances(self, *kinds) -> tuple[float, float]:
        """What is given, or the larger ones of both dtypes."""
        if self.rtol is not None and self.atol is not None:
            return self.rtol, self.atol
        both = [_TOLERANCES.get(str(kind), (0.0, 0.0)) for kind in kinds]
        return max(r for r, _ in both), max(a for _, a in both)


def assert_close(
    actual,
    expected,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: str | Callable[[str], str] | None = None,
) -> None:
    """Raise an AssertionError unless ``|actual - expected| <= atol + rtol |expected|`` everywhere.

    Numbers, Tensors, arrays, and sequences and mappings of them. There is one device and one layout; strides are those
    of a fresh array.

    Examples
    --------
    >>> import qkv.torch as torch
    >>> torch.testing.assert_close(torch.tensor([0.1]) + 0.2, torch.tensor([0.3]))
    """
    if (rtol is None) != (atol is None):
        missing = "rtol" if rtol is None else "atol"
        raise ValueError(f"Both 'rtol' and 'atol' must be either specified or omitted, but got no {missing}.")
    if check_stride:
        raise ValueError("assert_close: check_stride must be False because strides here are not PyTorch's")
    _compare(actual, expected, _Rules(rtol, atol, equal_nan, check_dtype, allow_subclasses, msg), ())


def _compare(a, b, rules: _Rules, path: tuple[Any, ...]) -> None:
    def both(kind) -> bool:
        return isinstance(a, kind) and isinstance(b, kind)

    if both(Mapping):
        missing, added = (sorted(x.keys() - y.keys(), key=str) for x, y in ((b, a), (a, b)))
        if missing or added:
            text = "The keys of the mappings do not match:\nMissing keys in the actual mapping: "
            rules.fail(f"{text}{missing}\nAdditional keys in the actual mapping: {added}", path)
        for key in a:
            _compare(a[key], b[key], rules, (*path, key))
    elif both(Sequence) and not (isinstance(a, str) or isinstance(b, str)):
        if len(a) != len(b):
            rules.fail(f"The length of the sequences mismatch: {len(a)} != {len(b)}", path)
        for i, (x, y) in enumerate(zip(a, b, strict=True)):
            _compare(x, y, rules, (*path, i))
    elif a is None or b is None:
        if a is not b:
            rules.fail(f"None mismatch: {a} is not {b}", path)
    elif both((bool, np.bool_)):
        if a != b:
            rules.fail(f"Booleans mismatch: {a} is not {b}", path)
    elif both((int, float)):
        if rules.check_dtype and type(a) is not type(b):
            rules.fail(f"The (d)types do not match: {type(a)} != {type(b)}.", path)
        _compare_numbers(np.asarray(a), np.asarray(b), rules, path)
    elif (both(Tensor) or both(np.ndarray)) and (rules.allow_subclasses or type(a) is type(b)):
        x, y = as_tensor(a), as_tensor(b)
        for name in ("shape", "dtype") if rules.check_dtype else ("shape",):
            mine, other = getattr(x, name), getattr(y, name)
            if mine != other:
                rules.fail(f"The values for attribute {name!r} do not match: {mine} != {other}.", path)
        _compare_numbers(x.detach().numpy(), y.detach().numpy(), rules, path)
    else:
        kinds = f"{type(a)} and {type(b)}"
        raise TypeError(f"No comparison pair was able to handle inputs of type {kinds}.")


def _compare_numbers(a: np.ndarray, b: np.ndarray, rules: _Rules, path: tuple[Any, ...]) -> None:
    rtol, atol = rules.tolerances(a.dtype, b.dtype)
    kind = np.result_type(a, b)
    kind = kind if kind.kind == "f" else np.dtype("int64")  # narrow integers and booleans do not overflow
    x, y = a.astype(kind), b.astype(kind)
    with np.errstate(all="ignore"):
        difference, size = np.abs(x - y), np.abs(y)
        close = (x == y) | (np.isfinite(difference) & (difference <= atol + rtol * size))
        close |= rules.equal_nan & np.isnan(x) & np.isnan(y)
        if close.all():
            return
        difference = np.where(close, 0, difference)
        ratio = np.where(close, 0, difference / size).astype(kind if kind.kind == "f" else "float32")
    exact, number = rtol == 0 and atol == 0, not a.shape
    lines = [f"{'Scalars' if number else 'Tensor-likes'} are not {'equal' if exact else 'close'}!\n"]
    if number:
        lines.append(f"Expected {b.item()} but got {a.item()}.")
    else:
        wrong, percent = close.size - close.sum(), f"{1 - close.mean():.1%}"
        lines.append(f"Mismatched elements: {wrong} / {close.size} ({percent})")
    for name, values, allowed in (("absolute", difference, atol), ("relative", ratio, rtol)):
        place = np.unravel_index(int(values.argmax()), values.shape)
        where = f"Greatest {name} difference: {values.max().item()} at index {tuple(map(int, place))}"
        text = f"{name.title()} difference: {values.item()}" if number else where
        lines.append(text + (f" (up to {allowed} allowed)" if allowed else ""))
    rules.fail("\n".join(lines), path)


__all__ = ["assert_close"]


__getattr__ = partial(refuse_attribute, "torch.testing")
