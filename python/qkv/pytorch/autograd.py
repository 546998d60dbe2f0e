"""Functions of qkv as functions of PyTorch: memory shared both ways, gradients by ``torch.autograd``."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
import torch
from torch.utils import _pytree

from .. import _core
from .._formulas.values import Library, caller
from ..functions.gradients import grad, no_grad
from .memory import HALF, shared, to_torch
from .threads import limited

F = TypeVar("F", bound=Callable[..., Any])
# A break in the graph of torch.compile, at no cost for other calls; of what is called inside, `apply` says the same.
not_compiled = functools.partial(torch.compiler.disable, recursive=False)
Function = Callable[[Sequence[Any]], Sequence[Any]]  # of arguments and results in lists


def _dtype(name: str) -> torch.dtype:
    found: torch.dtype = getattr(torch, name)
    return found


class _Place(int):
    """The place of an argument among the inputs that take a gradient."""


class Call:
    """One call of a function of qkv on torch tensors: what stands for them, and its history until the backward pass.

    Attributes
    ----------
    tensors, inputs : list
        The torch tensors that take a gradient, arguments first, and the Tensors that stand for them.
    outputs : list
        The Tensors of results, None for those without a history; empty when the history has been freed.
    """

    def __init__(self, f: Function, record: bool) -> None:
        self._f, self._record = f, record
        self._known: dict[int, tuple[torch.Tensor, _core.Tensor]] = {}  # by identity, of tensors that live on
        self._leaves: list[Any] = []
        self._arguments = 0  # how many of `tensors` are arguments; a formula captured the others
        self._captured: list[torch.Tensor] = []
        self.tensors: list[torch.Tensor] = []
        self.inputs: list[_core.Tensor] = []
        self.outputs: list[Any] = []

    def stand_in(self, t: torch.Tensor) -> _core.Tensor:
        """Return the Tensor of an argument, or of a tensor that a formula captures and meets while it is traced."""
        known = self._known.get(id(t))
        if known is not None:
            return known[1]
        # An inference tensor has no version by which changes would be found.
        x = shared(t.clone() if self._record and t.is_inference() else t)
        self._known[id(t)] = t, x
        if self._record and t.requires_grad and t.is_floating_point():
            x.requires_grad = True
            self.tensors.append(t)
            self.inputs.append(x)
        return x

    def run(self, leaves: Sequence[Any]) -> Sequence[Any]:
        """Return the results of the function."""
        self._leaves = [self.stand_in(x) if isinstance(x, torch.Tensor) else x for x in leaves]
        self._arguments = len(self.tensors)
        if self._record:
            return self._evaluated(self._leaves)
        with no_grad():
            return self._evaluated(self._leaves)

    def _evaluated(self, leaves: Sequence[Any]) -> Sequence[Any]:
        token = caller.set(Library(self.stand_in, _dtype))
        try:
            return self._f(leaves)
        finally:
            caller.reset(token)

    def again(self, inputs: Sequence[_core.Tensor]) -> Sequence[Any]:
        """Return the results that are computed once more, of these in the places of its inputs."""
        self._find_places()
        call = Call(self._f, True)
        for t, x in zip(self._captured, inputs[self._arguments :], strict=True):
            call._known[id(t)] = t, x
        return call._evaluated([inputs[x] if isinstance(x, _Place) else x for x in self._leaves])

    def _find_places(self) -> None:
        places = {id(x): _Place(i) for i, x in enumerate(self.inputs)}
        self._leaves = [places.get(id(x), x) for x in self._leaves]

    def saved(self) -> list[torch.Tensor]:
        """Return the tensors without a gradient whose memory the history reads."""
        if len(self._known) == len(self.inputs):
            return []
        watched = [(t, x) for t, x in self._known.values() if not (x.requires_grad or t.is_inference())]
        return [t for t, x in watched if _core.is_saved(x)]

    def leave_memory(self, *, history: bool) -> None:
        """Forget what the backward pass gets from PyTorch, which without a history computes again."""
        self._captured = self.tensors[self._arguments :]
        self._known, self.tensors = {}, []
        if not history:
            self._find_places()
            self.free()

    def free(self) -> None:
        self.inputs, self.outputs = [], []


def _hooks_see_what_is_saved() -> bool:
    """Whether tensors that are saved go elsewhere until the backward pass: in checkpoints, or to a disk."""
    return torch._C._autograd._top_saved_tensors_default_hooks(True) is not None


def _total(outputs: Sequence[Any], dys: Sequence[Any]) -> Any:
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
        ctx.call, ctx.inputs = call, len(tensors)
        # PyTorch finds changes in place, and further derivatives read the inputs.
        outputs = [
            y for y, own in zip(results, call.outputs, strict=True) if own is not None and _core.is_saved(own)
        ]
        ctx.save_for_backward(*tensors, *call.saved(), *outputs)
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(*[y for y, own in zip(results, call.outputs, strict=True) if own is None])
        call.leave_memory(history=not _hooks_see_what_is_saved())
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *dys: torch.Tensor | None) -> Any:
        call, tensors = ctx.call, ctx.saved_tensors[: ctx.inputs]
        if all(dy is None for dy in dys):
            found = [None] * len(tensors)
        elif torch.is_grad_enabled():  # create_graph
            found = _gradients_again(call, tensors, dys)
        else:
            found = limited(_gradients, call, tensors, dys)
        return (
            None,
            None,
            *(None if g is None else g.to(t.dtype) for g, t in zip(found, tensors, strict=True)),
        )


def _gradients(
    call: Call, tensors: Sequence[torch.Tensor], dys: Sequence[torch.Tensor | None]
) -> list[torch.Tensor]:
    given = [None if dy is None else shared(dy) for dy in dys]
    keep = bool(call.outputs) and torch._C._autograd._get_current_graph_task_keep_graph()
    outputs: Sequence[Any] = call.outputs
    inputs = call.inputs
    if not outputs:
        inputs = [_leaf(shared(t)) for t in tensors]
        outputs = call.again(inputs)
    if not keep:
        call.free()
    which = [i for i, dy in enumerate(given) if dy is not None]
    if len(which) == 1:
        found = grad(outputs[which[0]], inputs, given[which[0]], retain_graph=keep)
    else:
        found = grad(_total(outputs, given), inputs, retain_graph=keep)
    return [to_torch(g) for g in found]


def _gradients_again(call: Call, tensors: Sequence[torch.Tensor], dys: Sequence[Any]) -> Any:
    """Return gradients that can be differentiated: the same mechanism, applied to the function that computes them."""
    count = len(tensors)

    def gradients(leaves: Sequence[Any]) -> Any:
        xs = [x if x.requires_grad else _leaf(x) for x in leaves[:count]]
        return grad(_total(call.again(xs), leaves[count:]), xs, create_graph=True)

    return apply(gradients, [*tensors, *dys], None)


def _results(call: Call, leaves: Sequence[Any], dtypes: Any) -> tuple[Sequence[Any], list[torch.Tensor]]:
    """Return the results of a call, as qkv's and as PyTorch's."""
    found = call.run(leaves)
    kinds = dtypes if isinstance(dtypes, (list, tuple)) else [dtypes] * len(found)
    return found, [to_torch(y, kind) for y, kind in zip(found, kinds, strict=True)]


@torch.compiler.disable
def apply(
    f: Function, leaves: Sequence[Any], dtypes: torch.dtype | Sequence[torch.dtype | None] | None
) -> list[torch.Tensor]:
    """Return the arrays that f makes of torch tensors and others; `dtypes`: of all or of each, None: as they are."""
    call = Call(f, torch.is_grad_enabled())
    made: list[torch.Tensor]
    found, made = limited(_results, call, leaves, dtypes)
    if call.tensors:
        call.outputs = [y if getattr(y, "requires_grad", False) else None for y in found]
        if any(y is not None for y in call.outputs):
            return list(_Node.apply(call, made, *call.tensors))
    return made


def _is_array(y: Any) -> bool:
    return isinstance(y, (_core.Tensor, np.ndarray))


def function(f: F) -> F:
    """Return a function of qkv as one of PyTorch.

    Parameters
    ----------
    f : callable
        Takes and returns arrays or Tensors of qkv, nested in tuples, lists and dicts if need be.

    Returns
    -------
    callable
        Takes and returns ``torch.Tensor``. CPU tensors of float32, float64, int64 and bool share their memory with
        what `f` is given, strided ones too; other dtypes are converted once. Results own theirs. float16 and bfloat16
        are computed in float32 and come back in their own dtype. Gradients of any order arrive by ``torch.autograd`` at
        every floating tensor among the arguments, and at those that a ``score_mod`` or ``mask_mod`` captures. `f` runs
        once for both passes, but under hooks for saved tensors (activation checkpoints, offloading), where the backward
        pass computes it again.

    Raises
    ------
    TypeError
        By the call, if a tensor is not on the CPU or has a dtype that qkv lacks.
    NotImplementedError
        By the call, for tensors of ``torch.func`` and forward-mode derivatives.

    Examples
    --------
    >>> import torch
    >>> length = qkv.pytorch.function(lambda x: qkv.sqrt((x * x).sum(axis=-1)))
    >>> x = torch.tensor([3.0, 4.0], requires_grad=True)
    >>> length(x).backward()
    >>> x.grad
    tensor([0.6000, 0.8000])
    """

    @not_compiled
    @functools.wraps(f)
    def of_torch(*args: Any, **options: Any) -> Any:
        leaves, nested = _pytree.tree_flatten((args, options))
        kinds = {x.dtype for x in leaves if isinstance(x, torch.Tensor) and x.is_floating_point()}
        results: list[Any] = []
        shape: Any = None

        def arrays(leaves: Sequence[Any]) -> Sequence[Any]:
            nonlocal results, shape
            args, options = _pytree.tree_unflatten(leaves, nested)
            results, shape = _pytree.tree_flatten(f(*args, **options))
            return [y for y in results if _is_array(y)]

        made = iter(apply(arrays, leaves, kinds.pop() if len(kinds) == 1 and kinds <= HALF else None))
        return _pytree.tree_unflatten([next(made) if _is_array(y) else y for y in results], shape)

    made: F = of_torch
    return made
