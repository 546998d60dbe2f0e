"""What to write in place of ``t.NAME``, for methods that Tensors of others have; a test runs each line."""

from __future__ import annotations

from .._operations import BITS, OPERATIONS, Operation

_WRITTEN = {
    "add_": "t += u",
    "bmm dot matmul mm mv": "t @ u",
    "bool": 't.astype("bool")',
    "byte int long": 't.astype("int64")',
    "chunk": "qkv.split(t, n)",
    "clamp clip": "qkv.clip(t, low, high)",
    "clamp_": "t[...] = qkv.clip(t, low, high)",
    "clone": "t.copy()",
    "contiguous": "t itself, whose numbers always lie side by side",
    "cpu": "t itself, which lives on the CPU",
    "cuda": "t itself, as qkv computes on the CPU",
    "data": "t.detach()",
    "detach_": "t = t.detach()",
    "dim": "t.ndim",
    "div_": "t /= u",
    "double": 't.astype("float64")',
    "element_size": "t.dtype.itemsize",
    "expand": "t.broadcast_to(shape)",
    "expand_as": "t.broadcast_to(u.shape)",
    "fill_": "t[...] = value",
    "flip": "t[::-1], or np.flip(t, axis)",
    "float": 't.astype("float32")',
    "gather": "qkv.take_along_axis(t, indices, axis)",
    "grad_fn": "t.is_leaf",
    "half": "np.asarray(t, np.float16)",
    "index_select": "t[indices], or t[:, indices]",
    "isfinite": "np.isfinite(t)",
    "isinf": "np.isinf(t)",
    "isnan": "np.isnan(t)",
    "logical_and": "t & u",
    "logical_not": "~t",
    "logical_or": "t | u",
    "logsumexp": "qkv.logsumexp(t, axis)",
    "masked_fill": "qkv.where(mask, value, t)",
    "masked_fill_": "t[mask] = value",
    "masked_select": "t[mask]",
    "median": "np.median(t)",
    "moveaxis movedim": "np.moveaxis(t, source, destination)",
    "mul_": "t *= u",
    "narrow": "t[start:stop]",
    "nelement numel": "t.size",
    "new_ones": "qkv.tensor(np.ones(size))",
    "new_tensor": "qkv.tensor(data)",
    "new_zeros": "qkv.tensor(np.zeros(size))",
    "nonzero": "np.nonzero(t)",
    "norm": "np.linalg.norm(t)",
    "permute": "t.transpose(axes)",
    "relu_": "t[...] = qkv.relu(t)",
    "repeat_interleave": "t.repeat(times, axis=axis)",
    "requires_grad_": "t.requires_grad = True",
    "reshape_as view_as": "t.reshape(u.shape)",
    "retain_grad": "qkv.grad(output, t)",
    "roll": "np.roll(t, shift, axis)",
    "round": "np.round(t.numpy())",
    "select": "t[index]",
    "sort": "qkv.sort(t, axis)",
    "split": "qkv.split(t, places)",
    "square": "t ** 2",
    "sub_": "t -= u",
    "t": "t.T",
    "take": "t.reshape(-1)[indices]",
    "tile": "np.tile(t, times)",
    "to": "t.astype(dtype)",
    "topk": "qkv.topk(t, k)",
    "type": "t.dtype, or t.astype(dtype)",
    "type_as": "t.astype(u.dtype)",
    "unbind": "list(t)",
    "unique": "np.unique(t)",
    "unsqueeze_": "t = t.unsqueeze(axis)",
    "view": "t.reshape(shape)",
    "where": "qkv.where(condition, t, u)",
    "zero_": "t[...] = 0",
}


def _of_row(row: Operation) -> str:
    """What is written for a method that an operator, a function or a method of another name computes."""
    if row.operator and row.dtype != BITS and row.formula.startswith(("``a ", "``-")):
        return row.formula.split("``")[1].translate({ord("a"): "t", ord("b"): "u", ord("x"): "t"})
    if row.core and row.core != row.name and not row.operator:
        return f"t.{row.core}(axis)"
    return f"qkv.{row.name}(t, axis)" if row.parameters == "x, axis" else ""


METHODS = {word: text for row in OPERATIONS.values() if (text := _of_row(row)) for word in row.torch.split()}
METHODS |= {name: text for names, text in _WRITTEN.items() for name in names.split()}
