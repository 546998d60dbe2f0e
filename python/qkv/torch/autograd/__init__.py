"""Gradients: ``torch.autograd.grad``, ``Function``, ``functional``."""

from __future__ import annotations

from functools import partial
from typing import Any

from ... import _core
from .._grad_mode import enable_grad as enable_grad
from .._grad_mode import inference_mode as inference_mode
from .._grad_mode import no_grad as no_grad
from .._grad_mode import set_grad_enabled as set_grad_enabled
from .._tensor import Core, named, refuse_attribute, wrap
from . import function as function
from . import functional as functional
from .function import Function as Function
from .functional import listed


@named(".backward")
def _backward(t, gradient=None, retain_graph=None, create_graph=False, inputs=None) -> None:
    """Add the gradients of this Tensor to the leaves that it was computed from, or to these inputs alone.

    With ``create_graph`` the gradients can be differentiated again, and the sum is a new Tensor.
    """
    if not t.requires_grad:
        raise RuntimeError("backward: the Tensor must require a gradient or be computed from one that does")
    if not create_graph and inputs is None:
        Core.backward(t, gradient, bool(retain_graph))
        return
    members: list[Any] = _core.leaves(t) if inputs is None else listed(inputs)
    if not members:
        raise RuntimeError("backward: inputs must be at least one Tensor; got none")
    for x, part in zip(members, grad(t, members, gradient, retain_graph, create_graph, True), strict=True):
        if part is not None and x.grad is not None and not create_graph:
            x.grad.add_(part)
        elif part is not None:
            x.grad = part if x.grad is None else x.grad + part


def backward(tensors, grad_tensors=None, retain_graph=None, create_graph=False, *, inputs=None) -> None:
    """Call ``backward`` on several Tensors; what they share is kept for the next."""
    given = listed(tensors)
    gradients = [None] * len(given) if grad_tensors is None else list(grad_tensors)
    for i, (t, gradient) in enumerate(zip(given, gradients, strict=True)):
        _backward(t, gradient, retain_graph or i + 1 < len(given), create_graph, inputs)


def grad(
    outputs,
    inputs,
    grad_outputs=None,
    retain_graph=None,
    create_graph=False,
    allow_unused=None,
    materialize_grads=False,
):
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
    ys, xs = listed(outputs), listed(inputs)
    given = [None] if grad_outputs is None else listed(grad_outputs)
    given = given * len(ys) if len(given) < len(ys) else given
    if materialize_grads and allow_unused is False:
        raise ValueError("Expected allow_unused to be True or not passed when materialize_grads=True")
    if not all(x.requires_grad for x in xs):
        raise RuntimeError("One of the differentiated Tensors does not require grad")
    gradients_of: Any = _core.grad if materialize_grads else _core.grad_where_used
    totals: list[Any] = [None] * len(xs)
    for i, (y, dy) in enumerate(zip(ys, given, strict=True)):
        keep = bool(retain_graph) or i + 1 < len(ys)
        for j, part in enumerate(gradients_of(y, xs, dy, keep, create_graph)):
            if part is not None:
                totals[j] = part if totals[j] is None else Core.__add__(totals[j], part)
    if not allow_unused and any(total is None for total in totals):
        raise RuntimeError(
            "One of the differentiated Tensors appears to not have been used in the graph. Set allow_unused=True if "
            "this is the desired behavior."
        )
    found = (t if t is None or create_graph else Core.detach(t) for t in totals)
    return tuple(None if t is None else wrap(t, _core.history_name(t) or "MulBackward0") for t in found)


__all__ = ["Function", "backward", "function", "functional", "grad"]


__getattr__ = partial(refuse_attribute, "torch.autograd")
