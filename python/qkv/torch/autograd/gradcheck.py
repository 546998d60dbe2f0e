"""Gradients against finite differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .._creation import tensor
from .._grad_mode import enable_grad
from .._tensor import Core
from .functional import _each


class GradcheckError(RuntimeError):
    """A gradient that is not the slope."""


def gradcheck(
    func: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
) -> bool:
    """Whether all derivatives of a function are its slopes at these inputs, which should be float64.

    Examples
    --------
    >>> import qkv.torch as torch
    >>> x = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
    >>> torch.autograd.gradcheck(torch.exp, x)
    True
    """
    given = [inputs] if isinstance(inputs, Core) else list(inputs)
    places = [i for i, x in enumerate(given) if isinstance(x, Core) and x.requires_grad]
    if not places:
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of the them have "
            "requires_grad=True."
        )
    xs = [given[i] for i in places]
    try:
        with enable_grad():
            ys = _outputs(func, given)
            analytic = [_each(y, xs, False) for y in ys]
            again = [_each(y, xs, False) for y in _outputs(func, given)]
            for one, other in zip(analytic, again, strict=True):
                if any(
                    (a - b).abs().max() > nondet_tol for a, b in zip(one, other, strict=True) if a.numel()
                ):
                    raise GradcheckError(
                        "Backward is not reentrant, i.e., running backward with same input and grad_output multiple "
                        "times gives different values, although analytical gradient matches numerical gradient."
                    )
            for j, x in enumerate(xs):
                numeric = _slopes(func, given, x, eps)
                for i, slopes in enumerate(numeric):
                    found = analytic[i][j].detach().numpy()
                    if not np.allclose(found, slopes, rtol, atol):
                        raise GradcheckError(
                            f"Jacobian mismatch for output {i} with respect to input {places[j]},\n"
                            f"numerical:{slopes}\nanalytical:{found}\n"
                        )
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def _outputs(func: Callable[..., Any], given: list[Any]) -> list[Any]:
    result = func(*given)
    parts = result if isinstance(result, (tuple, list)) else [result]
    return [y for y in parts if isinstance(y, Core) and y.dtype.is_floating_point]


def _slopes(func: Callable[..., Any], given: list[Any], x: Any, eps: float) -> list[Any]:
    """For each output ``(*y.shape, *x.shape)``."""
    numbers = x.data
    columns = []
    for place in np.ndindex(*x.shape):
        before, sides = float(numbers[place]), []
        for step in (eps, -eps):
            numbers[place] = before + step
            sides.append([np.array(y.detach().numpy()) for y in _outputs(func, given)])
        numbers[place] = before
        columns.append([(high - low) / (2 * eps) for high, low in zip(*sides, strict=True)])
    return [np.stack(parts, -1).reshape(*parts[0].shape, *x.shape) for parts in zip(*columns, strict=True)]


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
) -> bool:
    """The same for the second derivatives; ``grad_outputs`` are random unless given."""
    from . import grad

    given = [inputs] if isinstance(inputs, Core) else list(inputs)
    if grad_outputs is None:
        random = np.random.default_rng(0)
        grad_outputs = [
            tensor(random.standard_normal(tuple(y.shape)), dtype=y.dtype, requires_grad=True)
            for y in _outputs(func, given)
            if y.requires_grad
        ]
    dys = [grad_outputs] if isinstance(grad_outputs, Core) else list(grad_outputs)

    def slopes(*args: Any) -> Any:
        xs = [x for x in args[: len(given)] if isinstance(x, Core) and x.requires_grad]
        ys = [y for y in _outputs(func, list(args[: len(given)])) if y.requires_grad]
        found = grad(ys, xs, args[len(given) :], create_graph=True, allow_unused=True)
        return tuple(slope for slope in found if slope is not None)

    return gradcheck(
        slopes,
        (*given, *dys),
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
        nondet_tol=nondet_tol,
    )


__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]
