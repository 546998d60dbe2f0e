"""``torch.nn.functional``: layers as functions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from ... import _core
from ..._words.errors import shown
from ...functions.attention import scaled_dot_product_attention as attend
from .. import _dtypes
from .._arguments import checked, integer
from .._arguments import floating as floating_of
from .._arguments import tensor as tensor_of
from .._change import assign
from .._creation import ones
from .._elementwise import as_numbers, as_tensor, cast
from .._functions import floats
from .._random import default_generator
from .._reductions import floating, mean, norm  # noqa: F401
from .._shaping import memory_order
from .._spelling import answer
from .._tensor import FUNCTIONS, Core, Tensor, _core_shape, named, refuse_attribute, wrap
from . import _watching as watching
from ._losses import (  # noqa: F401
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    cross_entropy,
    kl_div,
    l1_loss,
    mse_loss,
    nll_loss,
)

tanh = FUNCTIONS["tanh"]
sigmoid = FUNCTIONS["sigmoid"]
logsumexp = FUNCTIONS["logsumexp"]


def softmax(input, dim: int | None = None, _stacklevel: int = 3, dtype=None) -> Tensor:
    """``exp(x)`` divided by its sum along an axis.

    Examples
    --------
    >>> import qkv.torch as torch
    >>> torch.nn.functional.softmax(torch.zeros(2), dim=-1)
    tensor([0.5000, 0.5000])
    """
    return FUNCTIONS["softmax"](input, _usual(input) if dim is None else dim, dtype)  # type: ignore[no-any-return]


def log_softmax(input, dim: int | None = None, _stacklevel: int = 3, dtype=None) -> Tensor:
    """Logarithm of `softmax`."""
    return FUNCTIONS["log_softmax"](input, _usual(input) if dim is None else dim, dtype)  # type: ignore[no-any-return]


def _usual(t) -> int:
    return 0 if len(_core_shape(t)) in (0, 1, 3) else 1  # PyTorch's old rule, which it warns of


def relu(input, inplace: bool = False) -> Tensor:
    """``max(x, 0)``."""
    return FUNCTIONS["relu"](input) if not inplace else input.relu_()  # type: ignore[no-any-return]


def _finished(input, result, op: str, inplace: bool) -> Tensor:
    """Return the result of an activation, or write it into the input."""
    return assign(input, wrap(result, op), op, op) if inplace else wrap(result, op)


def gelu(input, approximate: str = "none") -> Tensor:
    """``x`` times the normal distribution's probability below it."""
    return wrap(_core.gelu(input, approximate), "GeluBackward0")


def silu(input, inplace: bool = False) -> Tensor:
    """``x sigmoid(x)``."""
    return _finished(input, _core.silu(floats(input)), "SiluBackward0", inplace)


def softplus(input, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """``log(1 + e^(beta x)) / beta``; x itself where ``beta x`` is above the threshold."""
    x = floats(input)
    if x.dtype is _dtypes.float32 and beta > 0 and threshold >= 20:  # it is x up to rounding there
        return wrap(_core.softplus(x, beta), "SoftplusBackward0")
    above = Core.__gt__(Core.__mul__(Core.detach(x), beta), threshold)
    return wrap(_core.where(above, x, _core.softplus(x, beta)), "SoftplusBackward0")


def logsigmoid(input) -> Tensor:
    """Logarithm of the sigmoid."""
    return wrap(Core.__neg__(_core.softplus(Core.__neg__(floats(input)), 1.0)), "LogSigmoidBackward0")


# Layers.


def linear(input, weight, bias=None) -> Tensor:
    """``x @ weight.T + bias``."""
    shape, rows = _core_shape(input), _core_shape(weight)
    if shape[-1:] != rows[-1:] or input.dtype is not weight.dtype:
        raise RuntimeError(
            f"linear: input must be (..., {rows[-1]}) of {weight.dtype} as the weight is; got {shape} of {input.dtype}"
        )
    names = {1: "SqueezeBackward4", 2: "MmBackward0"} if bias is None else {2: "AddmmBackward0"}
    label = names.get(len(shape), "UnsafeViewBackward0" if bias is None else "ViewBackward0")
    if bias is not None and len(shape) > 1:
        return wrap(_core.linear(input, weight, bias), label)
    y = _core.matmul(input, Core.transpose(weight) if len(rows) == 2 else weight)
    return wrap(y if bias is None else Core.__add__(y, bias), label)


def _row_of_padding(padding_idx, rows: int) -> int:
    """The number of a row, counted from the front."""
    index = integer("embedding", "padding_idx", padding_idx)
    if not -rows <= index < rows:
        raise AssertionError(
            f"Padding_idx must be within num_embeddings, from {-rows} to {rows - 1}; got {index}"
        )
    return index % rows


def _check_embedding(max_norm, scale_grad_by_freq: bool, sparse: bool) -> None:
    """Refuse the settings of a table of vectors that are not followed."""
    if max_norm is not None:
        raise ValueError("embedding: max_norm must be None because qkv does not change the table on reading")
    for name, value in {"scale_grad_by_freq": scale_grad_by_freq, "sparse": sparse}.items():
        if value:
            raise ValueError(
                f"embedding: {name} must be False because qkv adds gradients as they come, to all rows"
            )


def embedding(
    input,
    weight,
    padding_idx=None,
    max_norm=None,
    norm_type=2.0,
    scale_grad_by_freq=False,
    sparse=False,
) -> Tensor:
    """Rows of a table by number."""
    _check_embedding(max_norm, scale_grad_by_freq, sparse)
    ids = as_numbers(tensor_of("embedding", "input", input))
    if ids.dtype.kind != "i":
        raise RuntimeError(f"embedding: input must hold numbers of rows as integers; got {input.dtype}")
    shape = _core_shape(floating_of("embedding", "weight", weight))
    row = None if padding_idx is None else _row_of_padding(padding_idx, shape[0] if shape else 0)
    return wrap(answer("embedding", _core.embedding, weight, ids, row), "EmbeddingBackward0")


def one_hot(tensor, num_classes: int = -1) -> Tensor:
    """1 at the number given, 0 elsewhere."""
    if (kind := as_tensor(tensor).dtype).kind != 1:
        raise RuntimeError(f"one_hot: tensor must hold whole numbers; got {kind}")
    if num_classes == -1 and not tensor.numel():
        raise RuntimeError("one_hot: num_classes must be given because the Tensor is empty; got -1")
    return wrap(answer("one_hot", _core.one_hot, tensor, None if num_classes == -1 else num_classes))


def layer_norm(input, normalized_shape, weight=None, bias=None, eps: float = 1e-5) -> Tensor:
    """Shifted and scaled to mean 0 and variance 1 over the last axes."""
    y = _core.layer_norm(input, weight, bias, tuple(normalized_shape), eps)
    return wrap(y, "NativeLayerNormBackward0")


def rms_norm(input, normalized_shape: Sequence[int], weight=None, eps: float | None = None) -> Tensor:
    """Divided by the root of the mean square over the last axes."""
    least = _dtypes.finfo(input.dtype).eps if eps is None else eps
    return wrap(_core.rms_norm(input, weight, tuple(normalized_shape), least), "MulBackward0")


def _check_probability(p: float) -> None:
    """Refuse anything but a probability."""
    if not 0 <= p <= 1:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")


def dropout(input, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zeros with probability p, the rest divided by ``1 - p``: PyTorch's mask, in the order of memory."""
    _check_probability(p)
    if not training or p == 0:
        return tensor_of("dropout", "input", input)  # type: ignore[no-any-return]
    floating_of("dropout", "input", input)
    if (order := memory_order(input)) is None:
        dropped = _core.dropout(input, p, default_generator._stream)
    else:
        in_memory = _core.dropout(wrap(Core.transpose(input, order)), p, default_generator._stream)
        dropped = Core.transpose(in_memory, tuple(np.argsort(order).tolist()))
    return _finished(input, dropped, "MulBackward0", inplace)


named("torch.dropout")(lambda input, p=0.5, train=True: dropout(input, p, train))


def normalize(input, p: Any = 2.0, dim=1, eps: Any = 1e-12) -> Tensor:
    """Divided by the norm along an axis."""
    return input / norm(input, p, dim, True).clamp(min=eps).expand_as(input)


def pad(input, pad: Sequence[Any], mode: str = "constant", value: float | None = None) -> Tensor:
    """Numbers before and after the last axes: pairs from the last axis backwards; negative ones cut off."""
    if mode != "constant":
        raise NotImplementedError(f"pad: mode must be 'constant'; got {shown(mode)}")
    given, shape = [integer("pad", "pad", one) for one in pad], _core_shape(tensor_of("pad", "input", input))
    if len(given) % 2 or len(given) > 2 * len(shape):
        raise RuntimeError(f"pad: pad must hold a pair for each of the last axes; got {len(given)} numbers")
    widths = [(0, 0)] * (len(shape) - len(given) // 2) + [*zip(given[-2::-2], given[::-2], strict=True)]
    sizes = [n + a + b for n, (a, b) in zip(shape, widths, strict=True)]
    if min(sizes, default=0) < 0:
        raise RuntimeError(f"pad: pad must not cut off more than there is of {shape}; got {tuple(given)}")
    x, filled = input, cast(0.0 if value is None else value, input.dtype)
    if min(given, default=0) < 0:
        x = input[
            tuple(
                slice(max(-a, 0), max(n - max(-b, 0), max(-a, 0)))
                for (a, b), n in zip(widths, shape, strict=True)
            )
        ]
    before, behind = (tuple(max(pair[i], 0) for pair in widths) for i in (0, 1))
    return wrap(answer("pad", _core.pad, x, before, behind, filled), "ConstantPadNdBackward0", input._kind)


def scaled_dot_product_attention(
    query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False
) -> Tensor:
    """``softmax(scale q k^T + mask) v``; a boolean mask is True where a query may attend.

    Examples
    --------
    >>> import qkv.torch as torch
    >>> q = torch.ones(1, 2, 3, 4)
    >>> torch.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True).shape
    torch.Size([1, 2, 3, 4])
    """
    given = {"query": query, "key": key, "value": value}
    inputs = tuple(tensor_of("scaled_dot_product_attention", name, x) for name, x in given.items())
    if (module := watching.watched_module()) is None:
        return _fused(inputs, attn_mask, dropout_p, is_causal, scale, enable_gqa)
    options = {"attn_mask": attn_mask, "is_causal": is_causal, "scale": scale, "enable_gqa": enable_gqa}
    return watching.attention(module, inputs, options, *_ways(dropout_p, options))  # type: ignore[no-any-return]


def _attend_watched(module, inputs, attn_mask, dropout_p, seen) -> Tensor:
    """The same in a layer that sees its scores and weights by ``seen(word, value)``, and the rest itself."""
    options = {"attn_mask": attn_mask, "is_causal": False, "scale": None, "enable_gqa": False}
    return watching.with_weights(module, inputs, options, *_ways(dropout_p, options), seen)  # type: ignore[no-any-return]


def _ways(dropout_p: float, options: dict[str, Any]) -> tuple[Any, Any]:
    """How weights are dropped out, and the fused attention."""
    return partial(dropout, p=dropout_p), lambda inputs: _fused(inputs, dropout_p=dropout_p, **options)


def _fused(inputs, attn_mask, dropout_p, is_causal, scale, enable_gqa) -> Tensor:
    rank = len(inputs[0].shape)
    batch = 1 if enable_gqa and rank == 4 else -2  # axes that all have
    leads = {(len(x.shape), *x.shape[:batch]) for x in inputs}
    attend_all = _attend if len(leads) == 1 and 2 <= rank <= 4 else _attend_broadcast
    return attend_all(inputs, attn_mask, dropout_p, is_causal, scale, enable_gqa)


def _attend(inputs, attn_mask, dropout_p, is_causal, scale, enable_gqa) -> Tensor:
    query, key, value = inputs
    keep = None
    if dropout_p > 0:  # drawn over whole weights, as there
        if is_causal and attn_mask is not None:
            raise RuntimeError(
                "scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True"
            )
        keep = dropout(ones(*query.shape[:-1], key.shape[-2], dtype=query.dtype), dropout_p) != 0
    options = {"enable_gqa": enable_gqa, "dropout_keep": keep}
    y = attend(query, key, value, attn_mask, dropout_p, is_causal, scale, **options)
    return wrap(y, "ScaledDotProductFlashAttentionForCpuBackward0")


def _attend_broadcast(inputs, attn_mask, dropout_p, is_causal, scale, enable_gqa) -> Tensor:
    """Attention of inputs whose leading axes differ or are more than two: the last of them counts as that of heads."""
    shapes = [tuple(x.shape) for x in inputs]
    rank = max(map(len, shapes))
    if min(map(len, shapes)) < 2:
        raise RuntimeError(
            "scaled_dot_product_attention: query, key and value must have at least two axes, (..., L, E); got query "
            f"{shapes[0]}, key {shapes[1]}, value {shapes[2]}"
        )
    leads = [(1,) * (rank - len(shape)) + shape[:-2] for shape in shapes]
    # Keys and values that all heads share are not repeated.
    shared = enable_gqa or leads[1][-1] == leads[2][-1] == 1
    kept = -1 if shared else rank
    try:
        batch = np.broadcast_shapes(*(lead[:kept] for lead in leads))
    except ValueError:
        raise RuntimeError(
            "scaled_dot_product_attention: the axes of query, key and value before the last two must be equal or 1 "
            f"because they broadcast; got query {shapes[0]}, key {shapes[1]}, value {shapes[2]}"
        ) from None
    if not shared:
        batch, heads = batch[:-1], batch[-1:] * 3
    else:
        heads = tuple(lead[-1] for lead in leads)
    inputs = [
        x.expand(*batch, n, *x.shape[-2:]).reshape(math.prod(batch), n, *x.shape[-2:])
        for x, n in zip(inputs, heads, strict=True)
    ]
    if attn_mask is not None and len(attn_mask.shape) > 3:
        own = attn_mask.shape[-3:]
        attn_mask = attn_mask.expand(*batch, *own).reshape(math.prod(batch), *own)
    y = _attend(inputs, attn_mask, dropout_p, is_causal, scale, shared)
    return y.reshape(*batch, heads[0], *y.shape[-2:])


named("torch.layer_norm")(layer_norm)


__getattr__ = partial(refuse_attribute, "torch.nn.functional")


__all__ = sorted(
    name
    for name, value in globals().items()
    if callable(value) and str(value.__module__).startswith("qkv.torch.nn") and not name.startswith("_")
)
globals().update({name: checked(name, globals()[name]) for name in __all__})
