"""Gradients: ``torch.autograd.grad``, ``Function``, ``functional``, ``gradcheck``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import _core
from .._grad_mode import enable_grad, inference_mode, no_grad, set_grad_enabled
from .._tensor import Core, Tensor, method, wrap
from . import function, functional
from .function import Function
from .gradcheck import GradcheckError, gradcheck, gradgradcheck


@method("backward")
def _backward(
    t: Tensor,
    gradient: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """Add the gradients of this Tensor to the leaves that it was computed from, or to these inputs alone.

    With ``create_graph`` the gradients can be differentiated again, and the sum is a new Tensor.
    """
    if not t.requires_grad:
        raise RuntimeError("backward: the Tensor must require a gradient or be computed from one that does")
    if not create_graph and inputs is None:
        Core.backward(t, gradient, bool(retain_graph))
        return
    members: list[Any] = (
        [inputs] if isinstance(inputs, Core) else _core.leaves(t) if inputs is None else list(inputs)
    )
    if not members:
        raise RuntimeError("backward: inputs must be at least one Tensor; got none")
    for x, part in zip(members, grad(t, members, gradient, retain_graph, create_graph, True), strict=True):
        if part is not None and x.grad is not None and not create_graph:
            x.grad.add_(part)
        elif part is not None:
            x.grad = part if x.grad is None else x.grad + part


def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: Any = None,
    inputs: Any = None,
) -> None:
    """Call ``backward`` on several Tensors; what they share is kept for the next."""
    if grad_variables is not None:
        raise TypeError("backward: grad_variables must be None; its name is grad_tensors")
    given = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    gradients = [None] * len(given) if grad_tensors is None else list(grad_tensors)
    for i, (t, gradient) in enumerate(zip(given, gradients, strict=True)):
        _backward(t, gradient, retain_graph or i + 1 < len(given), create_graph, inputs)


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: bool | None = None,
    materialize_grads: bool = False,
) -> tuple[Any, ...]:
    """Gradients of outputs with respect to inputs; nobody's ``.grad`` changes.

    An input that has no part in the outputs is refused; with ``allow_unused`` its gradient is None, with
    ``materialize_grads`` zeros.

    Examples
    --------
    >>> import qkv.torch as torch
    >>> x = torch.tensor(3.0, requires_grad=True)
    >>> (slope,) = torch.autograd.grad(x**2, x, create_graph=True)
    >>> torch.autograd.grad(slope, x)
    (tensor(2.),)
    """
    ys: Sequence[Any] = [outputs] if isinstance(outputs, Core) else list(outputs)
    xs: Sequence[Any] = [inputs] if isinstance(inputs, Core) else list(inputs)
    given = [grad_outputs] if grad_outputs is None or isinstance(grad_outputs, Core) else list(grad_outputs)
    given = given * len(ys) if len(given) < len(ys) else given
    if materialize_grads and allow_unused is False:
        raise ValueError("Expected allow_unused to be True or not passed when materialize_grads=True")
    if not all(x.requires_grad for x in xs):
        raise RuntimeError("One of the differentiated Tensors does not require grad")
    gradients_of: Any = _core.grad if materialize_grads else _core.grad_where_used
    totals: list[Any] = [None] * len(xs)
    for i, (y, dy) in enumerate(zip(ys, given, strict=True)):
        keep = bool(retain_graph) or i + 1 < len(ys)
        parts = gradients_of(y, list(xs), dy, keep, create_graph)
        totals = [
            part if total is None else total if part is None else Core.__add__(total, part)
            for total, part in zip(totals, parts, strict=True)
        ]
    if not allow_unused and any(total is None for total in totals):
        raise RuntimeError(
            "One of the differentiated Tensors appears to not have been used in the graph. Set allow_unused=True if "
            "this is the desired behavior."
        )
    return tuple(
        None if total is None else _finished(total if create_graph else Core.detach(total))
        for total in totals
    )


def _finished(gradient: Any) -> Tensor:
    t = wrap(gradient)
    if not t._op:
        t._op = "MulBackward0"
    return t


__all__ = [
    "Function",
    "GradcheckError",
    "backward",
    "enable_grad",
    "function",
    "functional",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "inference_mode",
    "no_grad",
    "set_grad_enabled",
]
