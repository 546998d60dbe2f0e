"""Results of several processes as an operation that gradients pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import _core
from .._core import Tensor

Gradients = Sequence[Any]  # arrays, or None where there is none


def recorded(
    operation: str,
    outputs: Sequence[Any],
    inputs: Sequence[Tensor],
    pull_back: Callable[[Gradients], Gradients],
) -> list[Tensor]:
    """Return the outputs as Tensors; ``pull_back`` turns their gradients into the inputs', not recorded."""
    made = [_core.tensor(output) for output in outputs]
    if not (_core.grad_enabled() and any(t.requires_grad for t in inputs)):
        return made
    kept = [_core.KeptTensor(t) for t in inputs]

    def rule(arriving: Sequence[Tensor | None]) -> list[Tensor | None]:
        if _core.grad_enabled():
            raise RuntimeError(f"{operation}: has no second derivative; leave out create_graph=True")
        shapes = [t.tensor().shape for t in kept]  # an error if one was changed
        found = pull_back([None if dy is None else dy.numpy() for dy in arriving])
        for gradient, shape in zip(found, shapes, strict=True):
            if gradient is not None and np.shape(gradient) != shape:
                raise ValueError(f"{operation}: gradient must be {shape}; got gradient {np.shape(gradient)}")
        return [None if gradient is None else _core.tensor(gradient) for gradient in found]

    return _core.record_rule(operation, made, inputs, rule)
