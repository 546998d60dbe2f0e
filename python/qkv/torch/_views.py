"""Tensors that show a part of another, and changes in place.

PyTorch's views share memory whatever their strides. The core's arrays are contiguous, so a view is a Tensor of its own
that knows what it shows: a change in place of either side is carried over to the other, with its gradient where it has
one. Reading costs nothing extra; only changes look for views.
"""

from __future__ import annotations

import weakref
from typing import Any, NamedTuple

import numpy as np

from .. import _core
from ._tensor import Core, Tensor, _core_leaf, _core_shape, wrap


class View(NamedTuple):
    """How a view is made from `base`: by "reshape" (op), "permute" (axes), "index" (items), "expand" or "detach"."""

    base: Tensor
    how: str
    argument: Any

    def show(self) -> Any:
        """Compute the view from what its base is now."""
        if self.how == "reshape":
            return Core.reshape(self.base, self.argument)
        if self.how == "permute":
            return Core.transpose(self.base, self.argument)
        if self.how == "index":
            return Core.__getitem__(self.base, self.argument)
        if self.how == "expand":
            return _core.expanded(self.base, self.argument)
        return Core.detach(self.base)

    def put_back(self, changed: Tensor) -> Any:
        """Compute what the base is to be when the view has been changed."""
        if self.how == "reshape":
            return Core.reshape(changed, tuple(_core_shape(self.base)))
        if self.how == "permute":
            return Core.transpose(changed, tuple(int(i) for i in np.argsort(self.argument)))
        if self.how == "index":
            return _core.replaced(self.base, self.argument, changed)
        return changed


def view_of(base: Tensor, how: str, argument: Any, op: str) -> Tensor:
    """Give a Tensor that shows a part of another."""
    view = View(base, how, argument)
    result = wrap(view.show(), op)
    result._kind = base._kind
    follow(result, view)
    return result


def follow(result: Tensor, view: View) -> None:
    """Let changes of either side reach the other."""
    result._view = view
    children = view.base._children
    if children is None:
        children = view.base._children = weakref.WeakValueDictionary()
    children[id(result)] = result


def check_changeable(t: Tensor, operation: str) -> None:
    """Refuse what PyTorch refuses: leaves that require a gradient, with gradients on, and expanded axes."""
    if _core.grad_enabled():
        base: Tensor | None = t
        while base is not None:
            if _core_leaf(base) and base.requires_grad:
                a = "a leaf" if base is t else "a view of a leaf"
                raise RuntimeError(
                    f"{operation}: {a} that requires grad must be changed under torch.no_grad() because the graph "
                    f"needs its numbers; got one of shape {tuple(_core_shape(base))} with gradients on"
                )
            base = base._view.base if base._view is not None and base._view.how != "detach" else None
    if t._view is not None and t._view.how == "expand" and t.shape != t._view.base.shape:
        raise RuntimeError(
            f"{operation}: an expanded Tensor must be cloned before it is changed because several of its numbers are "
            f"one in memory; got shape {tuple(t.shape)} of {tuple(t._view.base.shape)}"
        )


def assign(t: Tensor, new: Any, op: str, operation: str) -> Tensor:
    """Let `t`, what it is a view of and the views of it hold the numbers and the history of `new`."""
    check_changeable(t, operation)
    if tuple(_core_shape(new)) != tuple(_core_shape(t)):
        raise RuntimeError(
            f"{operation}: the result must have the Tensor's shape {tuple(_core_shape(t))} because it is changed in "
            f"place; got {tuple(_core_shape(new))}"
        )
    _set(t, new, op if t._view is None else "AsStridedBackward0")
    carry_over(t)
    return t


def _set(t: Tensor, new: Any, op: str) -> None:
    if _core.grad_enabled() and (new.requires_grad or not _core_leaf(t)):
        _core.become(t, new)
        t._op = op
    else:
        _core.write(t, ..., new)


def carry_over(t: Tensor, source: Tensor | None = None) -> None:
    """Bring a change of `t` to its base and to its views, but not back to `source`."""
    if t._children:
        for child in list(t._children.values()):
            if child is not source:
                _refresh(child)
    view = t._view
    if view is None or (source is not None and source is view.base):
        return
    base = view.base
    if _core.address(base) != _core.address(t) or not _core_leaf(t):
        if view.how == "detach" or (_core_leaf(t) and _core_leaf(base)):
            with_gradients = _core.grad_enabled()
            _core.set_grad_enabled(False)
            try:
                _core.write(base, ..., view.put_back(t))
            finally:
                _core.set_grad_enabled(with_gradients)
        else:
            _set(base, view.put_back(t), "CopySlices")
    carry_over(base, t)


def _refresh(child: Tensor) -> None:
    new = child._view.show()
    if child._view.how == "detach":
        _core.become(child, new)
    elif _core.address(new) != _core.address(child):
        _set(child, new, "AsStridedBackward0")
    if child._children:
        for grandchild in list(child._children.values()):
            _refresh(grandchild)
