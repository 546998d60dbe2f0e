"""Multi-head attention with PyTorch's arguments: True in a boolean mask means left out."""

from __future__ import annotations

import math
from functools import partial

from .. import _dtypes
from .._arguments import tensor
from .._creation import zeros
from .._elementwise import cast
from .._functions import where
from .._reductions import mean
from .._settings import constructor
from .._tensor import Tensor
from . import functional as F
from . import init
from ._layers import NonDynamicallyQuantizableLinear, add_parameter
from ._module import Module
from ._watching import watched


def additive(mask, name: str, kind) -> Tensor | None:
    """A mask as numbers that are added to the scores: -inf where a boolean one is True."""
    if mask is None:
        return None
    if tensor("MultiheadAttention", name, mask).dtype is _dtypes.bool_:
        return where(mask, -math.inf, zeros(*mask.shape, dtype=kind))  # type: ignore[no-any-return]
    if mask.dtype.kind != 2:
        raise RuntimeError(
            f"MultiheadAttention: {name} must hold booleans (True = left out) or floating numbers; got {mask.dtype}"
        )
    return cast(mask, kind)


class MultiheadAttention(Module):
    """Attention with several heads, time first unless ``batch_first``.

    Called ``(query, key, value, key_padding_mask=None, need_weights=True, attn_mask=None, average_attn_weights=True,
    is_causal=False)``; returns the output and the weights, averaged over the heads. In boolean masks True means left
    out, the opposite of `qkv`'s own functions.

    Examples
    --------
    >>> import qkv.torch as torch
    >>> x = torch.ones(2, 3, 4)  # (B, L, E)
    >>> out, weights = torch.nn.MultiheadAttention(4, 2, batch_first=True)(x, x, x)
    >>> out.shape, weights.shape
    (torch.Size([2, 3, 4]), torch.Size([2, 3, 3]))
    """

    __init__ = constructor(
        "embed_dim, num_heads, dropout=0.0, bias=True, add_bias_kv=False, add_zero_attn=False, kdim=None, "
        "vdim=None, batch_first=False, device=None, dtype=None"
    )

    def _configure(self, embed_dim, num_heads, dropout, bias, batch_first, kind, **rest) -> None:
        super().__init__()
        if rest["add_bias_kv"] or rest["add_zero_attn"]:
            raise ValueError("MultiheadAttention: add_bias_kv and add_zero_attn are not known to qkv.torch")
        self.kdim, self.vdim = (embed_dim if n is None else n for n in (rest["kdim"], rest["vdim"]))
        if min(num_heads, embed_dim, self.kdim, self.vdim) <= 0 or embed_dim % num_heads:
            raise AssertionError(
                "embed_dim must be divisible by num_heads, and kdim and vdim above 0; got embed_dim = "
                f"{embed_dim}, num_heads = {num_heads}, kdim = {self.kdim}, vdim = {self.vdim}"
            )
        self.embed_dim, self.num_heads, self.head_dim = embed_dim, num_heads, embed_dim // num_heads
        self.dropout, self.batch_first = dropout, batch_first
        self._qkv_same_embed_dim = together = self.kdim == embed_dim == self.vdim
        for name, width in (("q", embed_dim), ("k", self.kdim), ("v", self.vdim)):
            add_parameter(self, f"{name}_proj_weight", embed_dim, width, wanted=not together, **kind)
        add_parameter(self, "in_proj_weight", 3 * embed_dim, embed_dim, wanted=together, **kind)
        add_parameter(self, "in_proj_bias", 3 * embed_dim, wanted=bias, **kind)
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias=bias, **kind)
        self.bias_k = self.bias_v = None
        self.add_zero_attn = False
        self._reset_parameters()

    def _weights(self) -> list[Tensor]:
        if self._qkv_same_embed_dim:
            return list(self.in_proj_weight.split(self.embed_dim))
        return [self.q_proj_weight, self.k_proj_weight, self.v_proj_weight]

    def _reset_parameters(self) -> None:
        for weight in [self.in_proj_weight] if self._qkv_same_embed_dim else self._weights():
            init.xavier_uniform_(weight)
        if self.in_proj_bias is not None:
            init.constant_(self.in_proj_bias, 0.0)
            init.constant_(self.out_proj.bias, 0.0)

    def forward(
        self,
        query,
        key,
        value,
        key_padding_mask=None,
        need_weights=True,
        attn_mask=None,
        average_attn_weights=True,
        is_causal=False,
    ) -> tuple[Tensor, Tensor | None]:
        """``(Lq, B, E)`` to ``((Lq, B, E), (B, Lq, Lk))``; ``(B, Lq, E)`` with ``batch_first``; or no batch."""
        given = [query, key, value]
        batched = self._is_batched(*given)
        if not batched:
            given = [x.unsqueeze(1) for x in given]
        elif self.batch_first:
            given = [x.transpose(0, 1) for x in given]
        if is_causal and attn_mask is None:
            raise RuntimeError("Need attn_mask if specifying the is_causal hint.")
        length, batch, _ = given[0].shape
        keys = given[1].shape[0]
        mask = self._mask(
            attn_mask, key_padding_mask, batch if batched else None, length, keys, given[0].dtype
        )
        seen = partial(watched, self, lead=None if batched else ())
        biases = [None] * 3 if self.in_proj_bias is None else self.in_proj_bias.split(self.embed_dim)
        points, heads = ("queries", "keys", "values"), (self.num_heads, self.embed_dim // self.num_heads)
        q, k, v = (  # (L, B, E) to (B, H, L, D)
            seen(point, F.linear(x, w, b).reshape(*x.shape[:2], *heads).permute(1, 2, 0, 3))
            for point, x, w, b in zip(points, given, self._weights(), biases, strict=True)
        )
        weights = None
        if need_weights:
            scores = (q * math.sqrt(1.0 / heads[1])) @ k.transpose(-2, -1)
            scores = seen("scores", scores if mask is None else scores + mask)
            weights = seen("weights", F.softmax(scores, -1))
            weights = F.dropout(weights, self.dropout, self.training)
            context = weights @ v
            weights = mean(weights, 1) if average_attn_weights else weights
        else:
            context = F._attend_watched(self, (q, k, v), mask, self.dropout if self.training else 0.0, seen)
        rows = seen("heads", context).permute(2, 0, 1, 3)
        rows = rows.reshape(length * batch, self.embed_dim)
        out = self.out_proj(rows).reshape(length, batch, self.embed_dim)
        if not batched:
            return out.squeeze(1), None if weights is None else weights.squeeze(0)
        return (out.transpose(0, 1) if self.batch_first else out), weights

    def _is_batched(self, query, key, value) -> bool:
        """Whether the inputs have an axis of batches; shapes that do not fit each other are refused."""
        shapes = {"query": tuple(query.shape), "key": tuple(key.shape), "value": tuple(value.shape)}
        got = "got " + ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        ranks = {len(shape) for shape in shapes.values()}
        if ranks not in ({2}, {3}):
            raise AssertionError(
                "MultiheadAttention: query, key and value must all be (L, E), or all be 3-D, a batch of these; "
                f"{got}, of {len(query.shape)}, {len(key.shape)} and {len(value.shape)} axes"
            )
        if shapes["key"][:-1] != shapes["value"][:-1]:
            raise AssertionError(
                f"MultiheadAttention: value must have the length and batch of key because each key has one; {got}"
            )
        at = 0 if self.batch_first else 1
        if ranks == {3} and shapes["query"][at] != shapes["key"][at]:
            raise RuntimeError(
                f"MultiheadAttention: key must have the batch of query, {shapes['query'][at]}, because each item "
                f"attends to its own keys; {got}"
            )
        return ranks == {3}

    @property
    def _attention_heads(self) -> tuple[int]:
        return (self.num_heads,)

    def _mask(self, attn_mask, padding, batch: int | None, length: int, keys: int, kind) -> Tensor | None:
        """Both masks as one that is added to scores ``(B, H, Lq, Lk)``; no `batch` stands for inputs without one."""
        items, scores = batch or 1, (length, keys)
        many = len(getattr(attn_mask, "shape", ())) == 3
        first = (items * self.num_heads, *scores) if many else scores
        into = (items, self.num_heads, *scores) if many else scores
        mask = _shaped(attn_mask, "attn_mask", first, into, "(Lq, Lk) or (B * num_heads, Lq, Lk)", kind)
        second, axes = ((keys,), "(Lk,)") if batch is None else ((batch, keys), "(B, Lk)")
        padded = _shaped(padding, "key_padding_mask", second, (items, 1, 1, keys), axes, kind)
        return mask if padded is None else padded if mask is None else mask + padded


def _shaped(mask, name: str, shape, into, axes: str, kind) -> Tensor | None:
    """A mask of that shape as numbers, reshaped."""
    added = additive(mask, name, kind)
    if added is not None and tuple(added.shape) != shape:
        raise RuntimeError(f"MultiheadAttention: {name} must be {axes} = {shape}; got {tuple(added.shape)}")
    return None if added is None else added.reshape(into)
