"""Operations whose derivatives a program states: ``torch.autograd.Function``."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from ... import _core
from .._creation import zeros
from .._grad_mode import no_grad
from .._tensor import Core, wrap


class FunctionCtx:
    """What the forward pass of a `Function` leaves for its derivative: any attributes, and Tensors that are saved."""

    needs_input_grad: tuple[bool, ...] = ()
    _to_save: Sequence[Any] = ()
    _constant: Sequence[Any] = ()
    _dirty: Sequence[Any] = ()
    _materialize = True
    _kept: list[Any] | None = None

    def save_for_backward(self, *tensors) -> None:
        """Keep inputs, outputs or other Tensors for `saved_tensors`; to change one later is noticed."""
        if wrong := [t for t in tensors if not (t is None or isinstance(t, Core))]:
            raise TypeError(f"save_for_backward can only save variables, but got {type(wrong[0]).__name__}")
        self._to_save = tensors

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """What `save_for_backward` was given."""
        if self._kept is None:
            raise RuntimeError("saved_tensors: known in backward alone, of a call that is recorded")
        return tuple(None if kept is None else wrap(kept.tensor(), "", kind) for kept, kind in self._kept)

    def mark_non_differentiable(self, *args) -> None:
        """Say which outputs have no gradient."""
        self._constant = args

    def mark_dirty(self, *args) -> None:
        """Say which inputs were changed in place, and are outputs."""
        self._dirty = args

    def set_materialize_grads(self, value: bool) -> None:
        """Whether backward gets zeros, not None, for outputs that nobody used."""
        self._materialize = value


class Function:
    """An operation with a derivative of its own: subclass it, and call ``apply``.

    ``forward(ctx, *args)`` computes, unrecorded; ``backward(ctx, *grad_outputs)`` gives a gradient, or None, for each
    argument of it. With ``setup_context(ctx, inputs, output)`` forward has no ``ctx``. A derivative made of Tensor
    operations can be differentiated again.

    Examples
    --------
    >>> import qkv.torch as torch
    >>> class Cube(torch.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x**3
    ...
    ...     @staticmethod
    ...     def backward(ctx, dy):
    ...         (x,) = ctx.saved_tensors
    ...         return 3 * x**2 * dy
    >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
    >>> Cube.apply(x)
    tensor([1., 8.], grad_fn=<CubeBackward>)
    >>> torch.autograd.grad(Cube.apply(x).sum(), x)
    (tensor([ 3., 12.]),)
    """

    @staticmethod
    def forward(*args, **kwargs):
        """To be defined by the subclass."""
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def setup_context(ctx, inputs: tuple[Any, ...], output):
        """To be defined by a subclass whose forward has no ``ctx``."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx, *grad_outputs):
        """To be defined by the subclass."""
        raise NotImplementedError("You must implement the backward function for custom autograd.Function.")

    vjp = backward

    @classmethod
    def apply(cls, *args, **kwargs):
        """Compute, and record what `backward` is the derivative of."""
        ctx, name = FunctionCtx(), f"{cls.__name__}Backward"
        separate = cls.setup_context is not Function.setup_context
        ahead = () if separate else (ctx,)
        if separate or kwargs:
            bound = inspect.signature(cls.forward).bind(*ahead, *args, **kwargs)
            if separate:
                bound.apply_defaults()
            args = bound.args[len(ahead) :]
            if names := list(bound.kwargs):
                raise TypeError(f"{cls.__name__}.forward: arguments must be positional; got {names}")
        ctx.needs_input_grad = tuple(isinstance(x, Core) and bool(x.requires_grad) for x in args)
        with no_grad():
            result = cls.forward(*ahead, *args)
            if separate:
                cls.setup_context(ctx, args, result)
        if not (_core.grad_enabled() and any(ctx.needs_input_grad)):
            return result
        outputs = list(result) if isinstance(result, tuple) else [result]
        inputs = [x for x in args if isinstance(x, Core)]
        made = [i for i, y in enumerate(outputs) if _is_floating(y) and not _among(y, ctx._constant)]
        are_tensors, likes = [isinstance(x, Core) for x in args], [_like(y) for y in outputs]
        rule = functools.partial(_gradients, cls, ctx, name, are_tensors, likes, made)
        results = [y.detach() if _among(y, inputs) and isinstance(y, Core) else y for y in outputs]
        for i, y in zip(made, _core.record_rule(name, [outputs[i] for i in made], inputs, rule), strict=True):
            if _among(outputs[i], ctx._dirty):
                _core.set_in_place(name, outputs[i], y)
                results[i] = outputs[i]
            else:
                results[i] = wrap(y)
            _core.set_label(results[i], name)
        ctx._kept = []
        for t in ctx._to_save:
            own = not _among(t, inputs) or _among(t, ctx._dirty)
            made_of_it = [results[i] for i in made if own and outputs[i] is t]
            kept = None if t is None else _core.KeptTensor((made_of_it or [t])[0], bool(made_of_it))
            ctx._kept.append((kept, getattr(t, "_kind", None)))
        ctx._to_save = ctx._constant = ctx._dirty = ()
        return tuple(results) if isinstance(result, tuple) else results[0]


def _is_floating(y) -> bool:
    return isinstance(y, Core) and y.dtype.is_floating_point


def _among(t, others: Sequence[Any]) -> bool:
    return any(t is other for other in others)


def _like(x):
    return (tuple(x.shape), x.dtype) if isinstance(x, Core) else None


def _gradients(cls, ctx, name: str, inputs: list[bool], outputs, made: list[int], dys) -> list[Any]:
    """What `backward` gives, for the inputs that are Tensors."""
    backward = cls.vjp if cls.vjp is not Function.vjp else cls.backward
    arrived, given = dict(zip(made, dys, strict=True)), []
    for i, like in enumerate(outputs):
        empty = zeros(like[0], dtype=like[1]) if like and ctx._materialize else None
        given.append(empty if arrived.get(i) is None else wrap(arrived[i]))
    result = backward(ctx, *given)
    found = list(result) if isinstance(result, (tuple, list)) else [result]
    while len(found) > len(inputs) and found[-1] is None:
        found.pop()
    if len(found) != len(inputs):
        raise RuntimeError(
            f"function {name} returned an incorrect number of gradients (expected {len(inputs)}, got {len(found)})"
        )
    for i, (gradient, is_tensor) in enumerate(zip(found, inputs, strict=True)):
        if not is_tensor and gradient is not None:
            raise RuntimeError(
                f"function {name} returned a gradient different than None at position {i + 1}, but the "
                "corresponding forward input was not a Variable"
            )
        if gradient is not None and not isinstance(gradient, Core):
            raise TypeError(f"function {name}: expected Variable or None (got {type(gradient).__name__})")
    return [gradient for gradient, is_tensor in zip(found, inputs, strict=True) if is_tensor]


def once_differentiable(f: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a `backward` that cannot be differentiated again; who tries gets an error."""

    @functools.wraps(f)
    def backward(ctx, *dys):
        with no_grad():
            result = f(ctx, *dys)
        given = [dy for dy in dys if isinstance(dy, Core) and dy.requires_grad]
        if not (_core.grad_enabled() and given):
            return result

        def closed(g):
            return wrap(_core.record_rule("once_differentiable", [g.detach()], given, _refuse)[0])

        found = result if isinstance(result, tuple) else (result,)
        return tuple(closed(g) if isinstance(g, Core) else g for g in found)

    return backward


def _refuse(dys):
    raise RuntimeError("trying to differentiate twice a function that was marked with @once_differentiable")


__all__ = ["Function", "FunctionCtx", "once_differentiable"]
