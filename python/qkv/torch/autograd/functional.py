"""Derivatives of functions."""

from __future__ import annotations

from functools import partial
from typing import Any

from ... import _core
from .._creation import zeros
from .._grad_mode import enable_grad
from .._shaping import stack
from .._tensor import Core, refuse_attribute, wrap


def listed(tensors) -> list[Any]:
    """One Tensor or several as a list."""
    return [tensors] if isinstance(tensors, Core) else list(tensors)


def _leaves(inputs) -> list[Any]:
    return [wrap(_core.tensor(t)).requires_grad_() for t in listed(inputs)]


def _each(y, xs: list[Any], create_graph: bool) -> list[Any]:
    """For each input the derivatives of all numbers of y, ``(*y.shape, *x.shape)``."""
    if not (y.requires_grad and y.numel()):
        return [zeros(*y.shape, *x.shape, dtype=x.dtype) for x in xs]
    rows = zip(*(_core.grad(one, xs, None, True, create_graph) for one in y.reshape(-1)), strict=True)
    parts = [stack(list(map(wrap, row))) for row in rows]
    return [part.reshape((*y.shape, *x.shape)) for part, x in zip(parts, xs, strict=True)]


def jacobian(func, inputs, create_graph: bool = False, strict: bool = False, vectorize: bool = False):
    """All partial derivatives of a function's result: ``(*result.shape, *input.shape)``.

    Examples
    --------
    >>> import qkv.torch as torch
    >>> torch.autograd.functional.jacobian(lambda x: x**2, torch.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    with enable_grad():
        xs = _leaves(inputs)
        y = func(*xs)
        parts = [_each(one, xs, create_graph) for one in (y if isinstance(y, tuple) else (y,))]
    found = tuple(part[0] if isinstance(inputs, Core) else tuple(part) for part in parts)
    return found if isinstance(y, tuple) else found[0]


__getattr__ = partial(refuse_attribute, "torch.autograd.functional")
