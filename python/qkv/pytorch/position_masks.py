"""Masks of transformers, told by positions: memory grows with the length alone."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree


class PositionMask(torch.Tensor):
    """A boolean mask ``(B, 1, Lq, Lk)`` that is told by positions.

    Code that computes with it finds an array: it is made then, once, and is the mask from then on, as it may be changed
    in place.

    Attributes
    ----------
    options : dict
        The same mask as options of ``scaled_dot_product_attention``.
    """

    options: dict[str, Any]

    @staticmethod
    def __new__(cls, shape: tuple[int, ...], options: dict[str, Any]) -> PositionMask:
        made: PositionMask = torch.Tensor._make_wrapper_subclass(cls, shape, dtype=torch.bool)
        made.options, made._array = options, None
        return made

    _array: torch.Tensor | None

    @property
    def is_array(self) -> bool:
        """Whether code has computed with it."""
        return self._array is not None

    def array(self) -> torch.Tensor:
        """Return the mask as a plain tensor."""
        if self._array is None:
            self._array = array_of(self.options, self.shape)
        return self._array

    def __repr__(self, **_: Any) -> str:
        return f"PositionMask({tuple(self.shape)}, {', '.join(self.options)})"

    @classmethod
    def __torch_dispatch__(cls, f: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        plain = _pytree.tree_map_only(cls, cls.array, (args, kwargs or {}))
        return f(*plain[0], **plain[1])


def array_of(options: dict[str, Any], shape: tuple[int, ...]) -> torch.Tensor:
    """Return options of ``scaled_dot_product_attention`` as a mask ``(B, 1, Lq, Lk)``, True = may attend."""
    batch, _, queries, keys = shape
    at = torch.arange(queries)[:, None] + options.get("q_offset", 0)
    key = torch.arange(keys)
    left, right = options.get("window", (-1, -1))
    found = torch.ones(queries, keys, dtype=torch.bool)
    if options.get("is_causal", False):
        found = found & (key <= at)
    if left >= 0:
        found = found & (key >= at - left)
    if right >= 0:
        found = found & (key <= at + right)
    found = found[None, None]
    if (lengths := options.get("valid_lens")) is not None:
        found = found & (key < lengths[:, None, None, None])
    if (mask := options.get("attn_mask")) is not None:
        found = found & mask
    return found.expand(batch, 1, queries, keys).clone()


def of_functions(mask_function: Callable[..., Any]) -> dict[str, Any] | None:
    """Return a mask function as options of ``scaled_dot_product_attention``; None: it is another one."""
    name = f"{mask_function.__module__}.{mask_function.__qualname__}"
    inner = inspect.getclosurevars(mask_function).nonlocals
    match name.removeprefix("transformers.masking_utils."):
        case "causal_mask_function":
            return {"is_causal": True}
        case "bidirectional_mask_function":
            return {}
        case "sliding_window_overlay.<locals>.inner_mask":
            return {"window": (inner["sliding_window"] - 1, -1)}
        case "sliding_window_bidirectional_overlay.<locals>.inner_mask":
            return {"window": (inner["sliding_window"],) * 2}
        case "and_masks.<locals>.and_mask":
            parts = [of_functions(part) for part in inner["mask_functions"]]
            options: dict[str, Any] = {}
            for part in parts:
                if part is None or ("window" in part and "window" in options):
                    return None
                options |= part
            return options
    return None


def of_keys(allowed: torch.Tensor, first: int, count: int) -> dict[str, Any]:
    """Return keys that may be attended to, boolean ``(B, L)``, as options for `count` of them from `first` on."""
    keys = allowed[:, first : first + count]
    if (missing := count - keys.shape[1]) > 0:
        keys = torch.nn.functional.pad(keys, (0, missing))
    lengths = keys.sum(1)
    if not torch.equal(keys, torch.arange(count) < lengths[:, None]):
        return {"attn_mask": keys[:, None, None, :]}
    return {} if bool((lengths == count).all()) else {"valid_lens": lengths}
