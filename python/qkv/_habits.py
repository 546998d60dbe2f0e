"""Methods of PyTorch's and NumPy's arrays that a Tensor has under another name: one line that says which.

Each is a descriptor of the class, so that looking up the methods that exist takes no longer.
"""

from __future__ import annotations

from typing import Any

from ._core import Tensor

# What to write in place of t.NAME, for methods of t.
METHODS = {
    "add": "t + u",
    "add_": "t += u",
    "amax": "t.max(axis)",
    "amin": "t.min(axis)",
    "argsort": "qkv.argsort(t)",
    "bmm": "t @ u",
    "bool": 't.astype("bool")',
    "byte": 't.astype("int64")',
    "chunk": "np.split(t, n)",
    "clamp": "qkv.clip(t, low, high)",
    "clamp_": "t[...] = qkv.clip(t, low, high)",
    "clip": "qkv.clip(t, low, high)",
    "clone": "t.copy()",
    "contiguous": "t itself, whose numbers always lie side by side",
    "cos": "qkv.cos(t)",
    "cpu": "t itself, which lives on the CPU",
    "cuda": "t itself, as qkv computes on the CPU",
    "data": "t.detach()",
    "detach_": "t = t.detach()",
    "dim": "t.ndim",
    "div": "t / u",
    "div_": "t /= u",
    "dot": "t @ u",
    "double": 't.astype("float64")',
    "element_size": "t.dtype.itemsize",
    "eq": "t == u",
    "exp": "qkv.exp(t)",
    "expand": "t.broadcast_to(shape)",
    "expand_as": "t.broadcast_to(u.shape)",
    "fill_": "t[...] = value",
    "flip": "t[::-1], or np.flip(t, axis)",
    "float": 't.astype("float32")',
    "gather": "qkv.take_along_axis(t, indices, axis)",
    "ge": "t >= u",
    "grad_fn": "t.is_leaf",
    "gt": "t > u",
    "half": "np.asarray(t, np.float16)",
    "index_select": "t[indices], or t[:, indices]",
    "int": 't.astype("int64")',
    "le": "t <= u",
    "log": "qkv.log(t)",
    "log_softmax": "qkv.log_softmax(t, axis)",
    "logical_and": "t & u",
    "logical_not": "~t",
    "logical_or": "t | u",
    "logsumexp": "qkv.logsumexp(t, axis)",
    "long": 't.astype("int64")',
    "lt": "t < u",
    "masked_fill": "qkv.where(mask, value, t)",
    "masked_fill_": "t[mask] = value",
    "masked_select": "t[mask]",
    "matmul": "t @ u",
    "mm": "t @ u",
    "moveaxis": "np.moveaxis(t, source, destination)",
    "movedim": "np.moveaxis(t, source, destination)",
    "mul": "t * u",
    "mul_": "t *= u",
    "mv": "t @ u",
    "narrow": "t[start:stop]",
    "ne": "t != u",
    "neg": "-t",
    "nelement": "t.size",
    "new_ones": "qkv.ones(size)",
    "new_tensor": "qkv.tensor(data)",
    "new_zeros": "qkv.zeros(size)",
    "nonzero": "np.nonzero(t)",
    "norm": "np.linalg.norm(t)",
    "numel": "t.size",
    "permute": "t.transpose(axes)",
    "pow": "t ** u",
    "relu": "qkv.relu(t)",
    "relu_": "t[...] = qkv.relu(t)",
    "repeat_interleave": "t.repeat(times, axis=axis)",
    "requires_grad_": "t.requires_grad = True",
    "reshape_as": "t.reshape(u.shape)",
    "retain_grad": "qkv.grad(output, t)",
    "roll": "np.roll(t, shift, axis)",
    "round": "np.round(t.numpy())",
    "select": "t[index]",
    "sigmoid": "qkv.sigmoid(t)",
    "sin": "qkv.sin(t)",
    "softmax": "qkv.softmax(t, axis)",
    "sort": "qkv.sort(t, axis)",
    "split": "np.split(t, places)",
    "sqrt": "qkv.sqrt(t)",
    "square": "t ** 2",
    "sub": "t - u",
    "sub_": "t -= u",
    "t": "t.T",
    "take": "t.reshape(-1)[indices]",
    "tanh": "qkv.tanh(t)",
    "tile": "np.tile(t, times)",
    "to": "t.astype(dtype)",
    "topk": "qkv.topk(t, k)",
    "tril": "qkv.tril(t)",
    "triu": "qkv.triu(t)",
    "type": "t.dtype, or t.astype(dtype)",
    "type_as": "t.astype(u.dtype)",
    "unbind": "list(t)",
    "unsqueeze_": "t = t.unsqueeze(axis)",
    "view": "t.reshape(shape)",
    "view_as": "t.reshape(u.shape)",
    "where": "qkv.where(condition, t, u)",
    "zero_": "t[...] = 0",
}


class Elsewhere:
    """An attribute that raises an AttributeError which says what to write."""

    def __init__(self, name: str, instead: str) -> None:
        self.name, self.instead = name, instead

    def __get__(self, tensor: Any, kind: type) -> Any:
        if tensor is None:
            return self
        raise AttributeError(f"Tensor.{self.name}: qkv has another name for this; write {self.instead}")


def _names(tensor: Tensor) -> list[str]:
    kind = type(tensor)
    return [name for name in object.__dir__(tensor) if not isinstance(getattr(kind, name, None), Elsewhere)]


for _name, _instead in METHODS.items():
    setattr(Tensor, _name, Elsewhere(_name, _instead))
Tensor.__dir__ = _names  # type: ignore[method-assign, assignment]
