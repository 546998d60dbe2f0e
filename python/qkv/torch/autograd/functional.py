"""Derivatives of functions: Jacobian, Hessian, products with vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import _core
from .._creation import zeros
from .._shaping import stack
from .._tensor import Core, wrap


def _leaves(inputs: Any) -> list[Any]:
    given = [inputs] if isinstance(inputs, Core) else list(inputs)
    return [wrap(_core.tensor(t)).requires_grad_() for t in given]


def _each(y: Any, xs: list[Any], create_graph: bool) -> list[Any]:
    """For each input the derivatives of all numbers of y, ``(*y.shape, *x.shape)``."""
    flat = y.reshape(-1)
    rows = []
    for i in range(flat.numel()):
        if flat.requires_grad:
            found = _core.grad(flat[i], xs, None, True, create_graph)
            rows.append([wrap(part) for part in found])
        else:
            rows.append([zeros(*x.shape, dtype=x.dtype) for x in xs])
    return [stack([row[j] for row in rows]).reshape((*y.shape, *x.shape)) for j, x in enumerate(xs)]


def jacobian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
) -> Any:
    """All partial derivatives of a function's result: ``(*result.shape, *input.shape)``.

    Examples
    --------
    >>> import qkv.torch as torch
    >>> torch.autograd.functional.jacobian(lambda x: x**2, torch.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    alone = isinstance(inputs, Core)
    with_gradients = _core.grad_enabled()
    _core.set_grad_enabled(True)
    try:
        xs = _leaves(inputs)
        y = func(*xs)
        if isinstance(y, tuple):
            parts = [_each(one, xs, create_graph) for one in y]
            return tuple(part[0] if alone else tuple(part) for part in parts)
        result = _each(y, xs, create_graph)
    finally:
        _core.set_grad_enabled(with_gradients)
    return result[0] if alone else tuple(result)


def hessian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
) -> Any:
    """All second derivatives of a function whose result is one number."""

    def slope(*xs: Any) -> Any:
        found = _core.grad(func(*xs), list(xs), None, True, True)
        return wrap(found[0]) if isinstance(inputs, Core) else tuple(map(wrap, found))

    return jacobian(slope, inputs, create_graph)


def vjp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> Any:
    """The result of a function, and the product of a vector with its Jacobian."""
    xs = _leaves(inputs)
    y = func(*xs)
    found = [wrap(part) for part in _core.grad(y, xs, v, create_graph, create_graph)]
    return y if create_graph else y.detach(), found[0] if isinstance(inputs, Core) else tuple(found)
