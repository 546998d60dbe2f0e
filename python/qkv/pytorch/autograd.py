"""Functions of qkv as functions of PyTorch: memory shared both ways, gradients by ``torch.autograd``."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from typing import Any, TypeVar

import numpy as np
import torch
from torch.autograd import forward_ad
from torch.utils import _pytree

from .. import _core
from .._formulas.values import stand_in
from ..functions.gradients import grad, no_grad
from .memory import HALF, shared, to_torch

F = TypeVar("F", bound=Callable[..., Any])


class _Place(int):
    """The place of an argument among the inputs that take a gradient."""


class Call:
    """One call of a function of qkv on torch tensors: what stands for them, and its history until the backward pass.

    Attributes
    ----------
    tensors, inputs : list
        The torch tensors that take a gradient, arguments first, and the Tensors that stand for them.
    """

    def __init__(
        self, f: Callable[..., Any], record: bool, known: Iterable[tuple[torch.Tensor, _core.Tensor]] = ()
    ) -> None:
        self.f, self._record = f, record
        # By the identity of the torch tensor, which lives on: what stands for it.
        self._known = {id(t): (t, x) for t, x in known}
        self.tensors: list[torch.Tensor] = []
        self.inputs: list[_core.Tensor] = []
        self.outputs: list[Any] = []

    def stand_in(self, t: torch.Tensor) -> _core.Tensor:
        """Return the Tensor of an argument, or of a tensor that a formula captures and meets while it is traced."""
        if id(t) not in self._known:
            refuse_transforms(t)
            x = shared(t)
            self._known[id(t)] = t, x
            if self._record and t.requires_grad and t.is_floating_point():
                x.requires_grad = True
                self.tensors.append(t)
                self.inputs.append(x)
        return self._known[id(t)][1]

    def run(self, args: tuple[Any, ...], options: dict[str, Any]) -> tuple[list[Any], Any]:
        """Return the results of the function in a list, and how they were nested."""
        leaves, self.spec = _pytree.tree_flatten((args, options))
        made = [self.stand_in(x) if isinstance(x, torch.Tensor) else x for x in leaves]
        places = {id(x): i for i, x in enumerate(self.inputs)}
        self.leaves = [_Place(places[id(x)]) if id(x) in places else x for x in made]
        return self.evaluated(made)

    def evaluated(self, leaves: Sequence[Any]) -> tuple[list[Any], Any]:
        args, options = _pytree.tree_unflatten(leaves, self.spec)
        token = stand_in.set(self.stand_in)
        try:
            results, spec = _pytree.tree_flatten(self.f(*args, **options))
            return results, spec
        finally:
            stand_in.reset(token)

    def stood_for(self) -> list[_core.Tensor]:
        return [x for _, x in self._known.values()]

    def again(self, tensors: Sequence[torch.Tensor], inputs: Sequence[_core.Tensor]) -> list[Any]:
        """Return the results that are computed once more, of these in the places of its inputs."""
        call = Call(self.f, True, zip(tensors, inputs, strict=True))
        call.spec = self.spec
        return call.evaluated([inputs[x] if isinstance(x, _Place) else x for x in self.leaves])[0]


def refuse_transforms(t: torch.Tensor) -> None:
    """Raise for tensors whose derivatives would be lost in silence."""
    if torch._C._functorch.is_functorch_wrapped_tensor(t) or forward_ad.unpack_dual(t).tangent is not None:
        raise NotImplementedError(
            "qkv.pytorch: torch.func and forward-mode derivatives are not computed; use torch.autograd"
        )


def _total(outputs: Sequence[Any], dys: Sequence[_core.Tensor | None]) -> Any:
    """Return the number whose gradient is that of the outputs that have one."""
    parts = [(y * dy).sum() for y, dy in zip(outputs, dys, strict=True) if dy is not None]
    return functools.reduce(lambda a, b: a + b, parts)


def _leaf(x: _core.Tensor) -> _core.Tensor:
    x = x.detach()
    x.requires_grad = True
    return x


class _Node(torch.autograd.Function):
    """Joins a call that has been made to PyTorch's graph; qkv's own graph, with what its kernels saved, is in it."""

    @staticmethod
    def forward(ctx: Any, call: Call, results: list[torch.Tensor], *tensors: torch.Tensor) -> Any:
        ctx.call, ctx.tensors = call, tensors
        ctx.save_for_backward(*tensors)  # PyTorch finds changes in place, and further derivatives read them
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(*[y for y, own in zip(results, call.outputs, strict=True) if own is None])
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *dys: torch.Tensor | None) -> Any:
        call, tensors = ctx.call, ctx.saved_tensors
        if torch.is_grad_enabled():  # create_graph
            found = _gradients_again(call, ctx.tensors, tensors, dys)
        elif all(dy is None for dy in dys):
            found = [None] * len(tensors)
        else:
            keep = torch._C._autograd._get_current_graph_task_keep_graph()
            found = _gradients(call, dys, keep)
            if not keep:
                call.outputs = []
        return (
            None,
            None,
            *(None if g is None else g.to(t.dtype) for g, t in zip(found, tensors, strict=True)),
        )


def _gradients(call: Call, dys: Sequence[torch.Tensor | None], keep: bool) -> list[torch.Tensor]:
    given = [None if dy is None else shared(dy) for dy in dys]
    which = [i for i, dy in enumerate(given) if dy is not None]
    if len(which) == 1:
        found = grad(call.outputs[which[0]], call.inputs, given[which[0]], retain_graph=keep)
    else:
        found = grad(_total(call.outputs, given), call.inputs, retain_graph=keep)
    return [to_torch(g, None, ()) for g in found]


def _gradients_again(
    call: Call, known: Sequence[torch.Tensor], tensors: Sequence[torch.Tensor], dys: Sequence[Any]
) -> Any:
    """Return gradients that can be differentiated: the same mechanism, applied to the function that computes them."""

    def gradients(xs: list[_core.Tensor], dys: list[Any]) -> Any:
        xs = [x if x.requires_grad else _leaf(x) for x in xs]
        return grad(_total(call.again(known, xs), dys), xs, create_graph=True)

    return apply(gradients, None, (list(tensors), list(dys)), {})


@torch.compiler.disable  # a break in its graph
def apply(
    f: Callable[..., Any],
    dtypes: torch.dtype | list[torch.dtype | None] | None,
    args: tuple[Any, ...],
    options: dict[str, Any],
) -> Any:
    """Return f of torch tensors; `dtypes` are those of its results, one for all or one for each, None: as they are."""
    record = torch.is_grad_enabled()
    call = Call(f, record)
    with nullcontext() if record else no_grad():
        ys, spec = call.run(args, options)
    kinds = dtypes if isinstance(dtypes, list) else [dtypes] * len(ys)
    arrays = [i for i, y in enumerate(ys) if isinstance(y, (_core.Tensor, np.ndarray))]
    made = {i: to_torch(ys[i], kinds[i], call.stood_for()) for i in arrays}
    recorded = {i for i in arrays if getattr(ys[i], "requires_grad", False)}
    if call.tensors and recorded:
        call.outputs = [ys[i] if i in recorded else None for i in arrays]
        joined = _Node.apply(call, [made[i] for i in arrays], *call.tensors)
        made = dict(zip(arrays, joined, strict=True))
    return _pytree.tree_unflatten([made.get(i, y) for i, y in enumerate(ys)], spec)


def function(f: F) -> F:
    """Return a function of qkv as one of PyTorch.

    Parameters
    ----------
    f : callable
        Takes and returns arrays or Tensors of qkv, nested in tuples, lists and dicts if need be.

    Returns
    -------
    callable
        Takes and returns ``torch.Tensor``s. CPU tensors of float32, float64, int64 and bool share their memory with
        what `f` is given, strided ones too; other dtypes are converted once. Results own theirs. float16 and bfloat16
        are computed in float32 and come back in their own dtype. Gradients of any order arrive by ``torch.autograd`` at
        every floating tensor among the arguments, and at those that a ``score_mod`` or ``mask_mod`` captures. `f` runs
        once for both passes.

    Raises
    ------
    TypeError
        By the call, if a tensor is not on the CPU or has a dtype that qkv lacks.
    NotImplementedError
        By the call, for tensors of ``torch.func`` and forward-mode derivatives.

    Examples
    --------
    >>> import torch  # doctest: +SKIP
    >>> cosine = qkv.pytorch.function(lambda x, y: qkv.sum(x * y) / qkv.sqrt(qkv.sum(x * x) * qkv.sum(y * y)))
    >>> x = torch.tensor([1.0, 0.0], requires_grad=True)  # doctest: +SKIP
    >>> cosine(x, torch.tensor([1.0, 1.0])).backward()  # doctest: +SKIP
    """

    @functools.wraps(f)
    def of_torch(*args: Any, **options: Any) -> Any:
        given = [x for x in _pytree.tree_leaves((args, options)) if isinstance(x, torch.Tensor)]
        kinds = {x.dtype for x in given if x.is_floating_point()}
        return apply(f, kinds.pop() if len(kinds) == 1 and kinds <= HALF else None, args, options)

    return of_torch  # type: ignore[return-value]
