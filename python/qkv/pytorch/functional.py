"""``torch.nn.functional.scaled_dot_product_attention`` by qkv, for a block of code."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch

from .variants import scaled_dot_product_attention

_inside: ContextVar[bool] = ContextVar("inside", default=False)
_pytorch = torch.nn.functional.scaled_dot_product_attention


def _is_taken(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> bool:
    """Whether the core takes a call: two to four axes, nothing that PyTorch would broadcast."""
    return (
        query.device.type == "cpu"
        and 2 <= query.dim() <= 4
        and not query.is_nested
        and query.shape[:-3] == key.shape[:-3] == value.shape[:-3]
    )


@functools.wraps(_pytorch)
def _chosen(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *args: Any, **options: Any) -> Any:
    f = scaled_dot_product_attention if _inside.get() and _is_taken(query, key, value) else _pytorch
    return f(query, key, value, *args, **options)


@contextmanager
def sdpa() -> Iterator[None]:
    """Inside, ``torch.nn.functional.scaled_dot_product_attention`` is qkv's, in this thread.

    What qkv does not take (five axes, a batch that broadcasts, nested tensors) goes to PyTorch's. Code that has
    imported the function by its name before keeps PyTorch's.

    Examples
    --------
    >>> with qkv.pytorch.sdpa():  # doctest: +SKIP
    ...     y = torch.nn.functional.scaled_dot_product_attention(q, k, v)
    """
    before = torch.nn.functional.scaled_dot_product_attention
    torch.nn.functional.scaled_dot_product_attention = _chosen
    token = _inside.set(True)
    try:
        yield
    finally:
        _inside.reset(token)
        torch.nn.functional.scaled_dot_product_attention = before
