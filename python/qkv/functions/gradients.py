"""Making Tensors and asking for gradients."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import DTypeLike

from .. import _core
from .._core import Tensor
from .._public import explained
from .._types import Numbers
from .grad_mode import GradMode

F = TypeVar("F", bound=Callable[..., Any])


@explained
def tensor(data: Numbers, dtype: DTypeLike | None = None, requires_grad: bool = False) -> Tensor:
    """Copy numbers into a Tensor.

    Parameters
    ----------
    data : array_like
        Nested lists, NumPy arrays, Tensors, or anything with ``__array__``, ``__dlpack__`` or the buffer protocol.
    dtype : dtype, optional
        ``"float32"``, ``"float64"``, ``"int64"`` or ``"bool"``. By default floating arrays keep their width, Python's
        floats become float32, integers int64 and booleans bool.
    requires_grad : bool
        Collect the gradient of this Tensor in ``.grad``.

    Returns
    -------
    Tensor

    Raises
    ------
    TypeError
        If the data are not numbers, or integers are to require a gradient.

    Examples
    --------
    >>> qkv.tensor([[1.0, 2.0], [3.0, 4.0]]).shape
    (2, 2)
    """
    return _core.tensor(data, dtype, requires_grad)


@explained
def grad(
    output: Tensor,
    inputs: Tensor | Sequence[Tensor],
    gradient: Numbers | None = None,
    retain_graph: bool = False,
    create_graph: bool = False,
) -> Tensor | list[Tensor]:
    """Gradients of ``output`` with respect to ``inputs``; nobody's ``.grad`` changes.

    Parameters
    ----------
    output : Tensor
        What is differentiated.
    inputs : Tensor or sequence of Tensor
        Leaves, or results of operations on the way.
    gradient : array_like, optional
        Gradient of the goal with respect to ``output``, in its shape; may be left out for one number.
    retain_graph : bool
        Keep what a second pass needs.
    create_graph : bool
        Record how the gradients are computed, so that they can be differentiated again, any number of times (Hessians,
        gradient penalties); the graph is kept. Fused operations are recomputed for that by composed ones, attention
        with arrays of ``(B, H, Lq, Lk)``.

    Returns
    -------
    Tensor or list of Tensor
        In the shapes of the inputs; zeros where ``output`` does not depend on one.

    Raises
    ------
    RuntimeError
        If nothing that ``output`` was made of requires a gradient, or its graph was freed. To differentiate anything
        that a result without ``create_graph`` took part in is a RuntimeError, too, where PyTorch gives the rest of the
        derivative; ``detach()`` makes it a constant.

    Examples
    --------
    >>> x = qkv.tensor([3.0], requires_grad=True)
    >>> qkv.grad(x * x, x)
    tensor([6.])
    >>> qkv.grad(qkv.grad(x * x * x, x, create_graph=True), x)
    tensor([18.])
    """
    if isinstance(inputs, Tensor):
        return _core.grad(output, [inputs], gradient, retain_graph, create_graph)[0]
    return _core.grad(output, list(inputs), gradient, retain_graph, create_graph)


@explained
def jacobian(f: Callable[[Tensor], Tensor], x: Numbers) -> np.ndarray:
    """All partial derivatives ``d f(x)_i / d x_j``.

    Parameters
    ----------
    f : callable
        Takes a Tensor in the shape of ``x`` and gives a Tensor. If it asks :func:`qkv.grad` for a gradient, with
        ``create_graph=True``, these are second derivatives.
    x : array_like
        Where to differentiate; float64 arrays are treated in float64.

    Returns
    -------
    ndarray of shape ``(*f(x).shape, *x.shape)``

    Examples
    --------
    >>> qkv.jacobian(lambda x: x * x, [1.0, 2.0])
    array([[2., 0.],
           [0., 4.]], dtype=float32)
    >>> qkv.jacobian(lambda x: qkv.grad((x * x * x).sum(), x, create_graph=True), [1.0, 2.0])
    array([[ 6.,  0.],
           [ 0., 12.]], dtype=float32)
    """
    point = tensor(x.detach() if isinstance(x, Tensor) else x)
    if not np.issubdtype(point.dtype, np.floating):
        point = tensor(point, dtype="float32")
    point.requires_grad = True
    with GradMode(True):
        return _jacobian_at(f, point)


def _jacobian_at(f: Callable[[Tensor], Tensor], point: Tensor) -> np.ndarray:
    y = f(point)
    if not isinstance(y, Tensor):
        raise TypeError(
            f"jacobian: f must return a Tensor because anything else has lost the gradient; got {type(y).__name__}"
        )
    count = math.prod(y.shape)
    rows = np.zeros((count, *point.shape), dtype=point.dtype)
    if _core.is_differentiable(y):
        flat = y.reshape(-1)
        unit = np.zeros(count, dtype=y.dtype)
        for i in range(count):
            unit[i] = 1
            rows[i] = _core.grad(flat, [point], unit, True)[0].numpy()
            unit[i] = 0
    return rows.reshape(*y.shape, *point.shape)


class no_grad(GradMode):
    """Within this block, or in a function that it decorates, nothing is recorded for gradients.

    Examples
    --------
    >>> x = qkv.tensor([1.0], requires_grad=True)
    >>> with qkv.no_grad():
    ...     y = x * 2
    >>> y.requires_grad
    False
    """

    def __init__(self) -> None:
        super().__init__(False)
