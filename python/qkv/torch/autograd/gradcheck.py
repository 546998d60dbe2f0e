"""Gradients against finite differences."""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np

from .._creation import tensor
from .._grad_mode import enable_grad
from .._tensor import Core
from .functional import _each, listed


class GradcheckError(RuntimeError):
    """A gradient that is not the slope."""


def gradcheck(func, inputs, *, eps=1e-6, atol=1e-5, rtol=1e-3, raise_exception=True, nondet_tol=0.0) -> bool:
    """Whether all derivatives of a function are its slopes at these inputs, which should be float64.

    Examples
    --------
    >>> import qkv.torch as torch
    >>> x = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
    >>> torch.autograd.gradcheck(torch.exp, x)
    True
    """
    given = listed(inputs)
    places = [i for i, x in enumerate(given) if _learned(x)]
    if not places:
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of the them have "
            "requires_grad=True."
        )
    try:
        with enable_grad():
            _check(func, given, places, eps, atol, rtol, nondet_tol)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def _learned(x) -> bool:
    return isinstance(x, Core) and bool(x.requires_grad)


def _check(func, given: list[Any], places: list[int], eps, atol, rtol, nondet_tol) -> None:
    xs = [given[i] for i in places]
    analytic, again = ([_each(y, xs, False) for y in _outputs(func, given)] for _ in range(2))
    for one, other in zip(chain(*analytic), chain(*again), strict=True):
        if one.numel() and (one - other).abs().max() > nondet_tol:
            raise GradcheckError(
                "Backward is not reentrant, i.e., running backward with same input and grad_output multiple "
                "times gives different values, although analytical gradient matches numerical gradient."
            )
    for j, x in enumerate(xs):
        for i, slopes in enumerate(_slopes(func, given, x, eps)):
            found = analytic[i][j].detach().numpy()
            if not np.allclose(found, slopes, rtol, atol):
                raise GradcheckError(
                    f"Jacobian mismatch for output {i} with respect to input {places[j]},\n"
                    f"numerical:{slopes}\nanalytical:{found}\n"
                )


def _outputs(func, given: list[Any]) -> list[Any]:
    result = func(*given)
    parts = result if isinstance(result, (tuple, list)) else [result]
    return [y for y in parts if isinstance(y, Core) and y.dtype.is_floating_point]


def _slopes(func, given: list[Any], x, eps: float) -> list[Any]:
    """For each output ``(*y.shape, *x.shape)``."""
    numbers, columns = x.data, []
    for place in np.ndindex(*x.shape):
        before, sides = float(numbers[place]), []
        for step in (eps, -eps):
            numbers[place] = before + step
            sides.append([np.array(y.detach().numpy()) for y in _outputs(func, given)])
        numbers[place] = before
        columns.append([(high - low) / (2 * eps) for high, low in zip(*sides, strict=True)])
    return [np.stack(parts, -1).reshape(*parts[0].shape, *x.shape) for parts in zip(*columns, strict=True)]


def gradgradcheck(
    func,
    inputs,
    grad_outputs=None,
    *,
    eps=1e-6,
    atol=1e-5,
    rtol=1e-3,
    raise_exception=True,
    nondet_tol=0.0,
) -> bool:
    """The same for the second derivatives; ``grad_outputs`` are random unless given."""
    from . import grad

    given, random = listed(inputs), np.random.default_rng(0)
    if grad_outputs is None:
        grad_outputs = [
            tensor(random.standard_normal(tuple(y.shape)), dtype=y.dtype, requires_grad=True)
            for y in _outputs(func, given)
            if y.requires_grad
        ]

    def slopes(*args):
        own, dys = list(args[: len(given)]), args[len(given) :]
        ys = [y for y in _outputs(func, own) if y.requires_grad]
        found = grad(ys, list(filter(_learned, own)), dys, create_graph=True, allow_unused=True)
        return tuple(slope for slope in found if slope is not None)

    settings = {"eps": eps, "atol": atol, "rtol": rtol, "nondet_tol": nondet_tol}
    return gradcheck(slopes, (*given, *listed(grad_outputs)), raise_exception=raise_exception, **settings)


__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]
