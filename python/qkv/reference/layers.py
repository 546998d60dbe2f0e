"""Layers as functions of a state dict (PyTorch's names) and an input."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._public import explained
from .activation import gelu, relu
from .attention import scaled_dot_product_attention
from .norm import layer_norm
from .positions import apply_rotary, rotary_tables

Array = NDArray[np.float64]
State = Mapping[str, ArrayLike]


@explained
def linear(x: ArrayLike, weight: ArrayLike, bias: ArrayLike | None = None) -> Array:
    """Compute ``x weight^T + bias``.

    Parameters
    ----------
    x : array, (..., in_features)
    weight : array, (out_features, in_features)
    bias : array, (out_features,), optional

    Returns
    -------
    ndarray, (..., out_features)

    Examples
    --------
    >>> linear([1.0, 2.0], [[3.0, 4.0]], [0.5])
    array([11.5])
    """
    y = np.asarray(x, np.float64) @ np.asarray(weight, np.float64).T
    return np.asarray(y if bias is None else y + np.asarray(bias, np.float64))


def sub_state(state: State, prefix: str) -> dict[str, ArrayLike]:
    """Pick the entries below `prefix` and cut it off.

    Examples
    --------
    >>> sub_state({"norm1.weight": 1, "norm2.weight": 2}, "norm2.")
    {'weight': 2}
    """
    return {name[len(prefix) :]: array for name, array in state.items() if name.startswith(prefix)}


@explained
def multi_head_attention(
    state: State,
    queries: ArrayLike,
    keys: ArrayLike | None = None,
    values: ArrayLike | None = None,
    valid_lens: ArrayLike | None = None,
    *,
    num_heads: int,
    num_kv_heads: int | None = None,
    attn_mask: ArrayLike | None = None,
    is_causal: bool | str = False,
    scale: float | None = None,
    masked_value: float | None = None,
    window: tuple[int, int] | None = None,
    rotary_base: float | None = None,
    dropout_p: float = 0.0,
    dropout_keep: ArrayLike | None = None,
    return_weights: bool = False,
) -> Any:
    """Compute ``out_proj(concat of heads)``, each head an attention of its own slice of the projections.

    Parameters
    ----------
    state : dict of arrays
        ``q_proj.weight (H D, M)``, ``k_proj.weight``, ``v_proj.weight``, ``out_proj.weight`` and their
        biases, which may be missing; or PyTorch's ``in_proj_weight (3 M, M)`` and ``in_proj_bias``.
    queries : array, (B, Lq, M)
    keys, values : array, (B, Lk, .)
        Keys are the queries unless given, values the keys.
    valid_lens : array of int, (B,) or (B, Lq)
    num_heads, num_kv_heads : int
    attn_mask : array, (Lq, Lk), (B, Lq, Lk) or (B, H, Lq, Lk)
    is_causal, scale, masked_value, window, dropout_p, dropout_keep
        As in `scaled_dot_product_attention`.
    rotary_base : float
        Rotates queries and keys by their positions, features i and i + D/2 together.
    return_weights : bool

    Returns
    -------
    output : ndarray, (B, Lq, out_dim)
        Followed by the weights (B, H, Lq, Lk) where asked for.

    Examples
    --------
    >>> state = {f"{name}_proj.weight": np.eye(2) for name in ("q", "k", "v", "out")}
    >>> multi_head_attention(state, [[[1.0, 2.0]]], num_heads=2)
    array([[[1., 2.]]])
    """
    keys = queries if keys is None else keys
    values = keys if values is None else values
    state = _split_in_proj(state)
    q = _split_heads(_project(state, "q_proj", queries), num_heads)  # (B, H, Lq, D)
    k = _split_heads(_project(state, "k_proj", keys), num_kv_heads or num_heads)  # (B, Hkv, Lk, D)
    v = _split_heads(_project(state, "v_proj", values), num_kv_heads or num_heads)  # (B, Hkv, Lk, Dv)
    if rotary_base is not None:
        q, k = (_rotate(x, rotary_base) for x in (q, k))
    if attn_mask is not None and np.ndim(attn_mask) == 3:
        attn_mask = np.asarray(attn_mask)[:, None]  # (B, 1, Lq, Lk)
    context, weights = scaled_dot_product_attention(
        q, k, v, attn_mask, dropout_p, is_causal, scale, enable_gqa=True, valid_lens=valid_lens,
        window=window, masked_value=masked_value, dropout_keep=dropout_keep, return_weights=True,
    )  # (B, H, Lq, Dv), (B, H, Lq, Lk)  # fmt: skip
    B, H, Lq, Dv = context.shape
    output = _project(state, "out_proj", context.swapaxes(1, 2).reshape(B, Lq, H * Dv))  # (B, Lq, out_dim)
    return (output, weights) if return_weights else output


def _project(state: State, name: str, x: ArrayLike) -> Array:
    return linear(x, state[f"{name}.weight"], state.get(f"{name}.bias"))


def _split_heads(x: Array, heads: int) -> Array:
    """(B, L, H D) to (B, H, L, D)."""
    B, L, width = x.shape
    return np.asarray(x.reshape(B, L, heads, width // heads).swapaxes(1, 2))


def _rotate(x: Array, base: float) -> Array:
    """Turn (B, H, L, D) by the positions 0..L-1."""
    return apply_rotary(x, *rotary_tables(np.arange(x.shape[2]), x.shape[3], base))


def _split_in_proj(state: State) -> State:
    """Replace PyTorch's stacked projection by the three of which it consists."""
    split = dict(state)
    for kind in ("weight", "bias"):
        if f"in_proj_{kind}" in split:
            parts = np.split(np.asarray(split.pop(f"in_proj_{kind}")), 3)
            split.update({f"{n}_proj.{kind}": part for n, part in zip("qkv", parts, strict=True)})
    return split


@explained
def position_wise_ffn(state: State, x: ArrayLike, activation: str = "relu") -> Array:
    """Compute ``linear2(activation(linear1(x)))`` at each position alone.

    Parameters
    ----------
    state : dict of arrays
        ``linear1.weight (F, M)``, ``linear2.weight (M, F)`` and their biases.
    x : array, (..., M)
    activation : "relu" or "gelu"

    Returns
    -------
    ndarray, (..., M)

    Raises
    ------
    ValueError
        If `activation` is neither.

    Examples
    --------
    >>> position_wise_ffn({"linear1.weight": [[1.0]], "linear2.weight": [[2.0]]}, [[-3.0], [3.0]])
    array([[0.],
           [6.]])
    """
    if activation not in ("relu", "gelu"):
        raise ValueError(
            "position_wise_ffn: activation must be 'relu' or 'gelu' because these two are defined; got "
            f"{activation!r}"
        )
    hidden = _project(state, "linear1", x)  # (..., F)
    return _project(state, "linear2", relu(hidden) if activation == "relu" else gelu(hidden))


@explained
def add_norm(state: State, x: ArrayLike, y: ArrayLike, eps: float = 1e-5) -> Array:
    """Compute ``LayerNorm(x + y)``.

    Parameters
    ----------
    state : dict of arrays
        ``norm.weight (M,)`` and ``norm.bias (M,)``.
    x, y : array, (..., M)
    eps : float

    Returns
    -------
    ndarray, (..., M)

    Examples
    --------
    >>> add_norm({"norm.weight": [1.0, 1.0], "norm.bias": [0.0, 0.0]}, [1.0, 0.0], [1.0, 0.0]).round(3)
    array([ 1., -1.])
    """
    total = np.asarray(x, np.float64) + np.asarray(y, np.float64)
    return layer_norm(total, state.get("norm.weight"), state.get("norm.bias"), eps)


@explained
def transformer_encoder_layer(
    state: State,
    src: ArrayLike,
    *,
    nhead: int,
    activation: str = "relu",
    layer_norm_eps: float = 1e-5,
    norm_first: bool = False,
    valid_lens: ArrayLike | None = None,
    attn_mask: ArrayLike | None = None,
    is_causal: bool = False,
    masked_value: float | None = None,
    return_weights: bool = False,
) -> Any:
    """Compute self-attention and a feed-forward network, each added to its input and normalised.

    Post-norm is ``LN(x + f(x))``, pre-norm (`norm_first`) ``x + f(LN(x))``.

    Parameters
    ----------
    state : dict of arrays
        PyTorch's names: ``self_attn.*``, ``linear1.*``, ``linear2.*``, ``norm1.*``, ``norm2.*``.
    src : array, (B, L, M)
    nhead : int
    activation, layer_norm_eps, norm_first
        As in ``torch.nn.TransformerEncoderLayer``.
    valid_lens, attn_mask, is_causal, masked_value
        As in `multi_head_attention`.
    return_weights : bool

    Returns
    -------
    output : ndarray, (B, L, M)
        Followed by the weights (B, H, L, L) where asked for.

    Examples
    --------
    >>> state = {"linear1.weight": np.zeros((3, 2)), "linear2.weight": np.zeros((2, 3))}
    >>> attention = {"in_proj_weight": np.zeros((6, 2)), "out_proj.weight": np.zeros((2, 2))}
    >>> state.update({"self_attn." + name: array for name, array in attention.items()})
    >>> transformer_encoder_layer(state, [[[1.0, 3.0]]], nhead=1).round(3)
    array([[[-1.,  1.]]])
    """
    x = np.asarray(src, np.float64)
    norm = _norm_of(state, layer_norm_eps)
    q = norm("norm1", x) if norm_first else x  # (B, L, M)
    attended, weights = multi_head_attention(
        sub_state(state, "self_attn."), q, valid_lens=valid_lens, num_heads=nhead, attn_mask=attn_mask,
        is_causal=is_causal, masked_value=masked_value, return_weights=True,
    )  # fmt: skip
    if norm_first:
        x = x + attended
        x = x + position_wise_ffn(state, norm("norm2", x), activation)
    else:
        x = norm("norm1", x + attended)
        x = norm("norm2", x + position_wise_ffn(state, x, activation))
    return (x, weights) if return_weights else x


@explained
def transformer_decoder_layer(
    state: State,
    tgt: ArrayLike,
    memory: ArrayLike,
    *,
    nhead: int,
    activation: str = "relu",
    layer_norm_eps: float = 1e-5,
    norm_first: bool = False,
    valid_lens: ArrayLike | None = None,
    attn_mask: ArrayLike | None = None,
    is_causal: bool = False,
    memory_valid_lens: ArrayLike | None = None,
    memory_attn_mask: ArrayLike | None = None,
    masked_value: float | None = None,
    return_weights: bool = False,
) -> Any:
    """Compute self-attention, attention to `memory` and a feed-forward network, each added and normalised.

    Parameters
    ----------
    state : dict of arrays
        PyTorch's names: ``self_attn.*``, ``multihead_attn.*``, ``linear1.*``, ``linear2.*``, ``norm1.*`` to
        ``norm3.*``.
    tgt : array, (B, Lq, M)
    memory : array, (B, Lk, M)
    nhead : int
    activation, layer_norm_eps, norm_first
        As in ``torch.nn.TransformerDecoderLayer``.
    valid_lens, attn_mask, is_causal
        For the self-attention.
    memory_valid_lens, memory_attn_mask
        For the attention to `memory`.
    masked_value : float
    return_weights : bool

    Returns
    -------
    output : ndarray, (B, Lq, M)
        Followed by the weights of both attentions, (B, H, Lq, Lq) and (B, H, Lq, Lk), where asked for.

    Examples
    --------
    >>> state = {"linear1.weight": np.zeros((3, 2)), "linear2.weight": np.zeros((2, 3))}
    >>> attention = {"in_proj_weight": np.zeros((6, 2)), "out_proj.weight": np.zeros((2, 2))}
    >>> state.update({n + "_attn." + k: a for n in ("self", "multihead") for k, a in attention.items()})
    >>> transformer_decoder_layer(state, [[[1.0, 3.0]]], [[[5.0, 7.0]]], nhead=1).round(3)
    array([[[-1.,  1.]]])
    """
    x = np.asarray(tgt, np.float64)
    norm = _norm_of(state, layer_norm_eps)
    weights = []

    def attend(name: str, q: Array, kv: ArrayLike | None, **masks: Any) -> Array:
        output, w = multi_head_attention(
            sub_state(state, name),
            q,
            kv,
            num_heads=nhead,
            masked_value=masked_value,
            return_weights=True,
            **masks,
        )
        weights.append(w)
        return np.asarray(output)

    own = {"valid_lens": valid_lens, "attn_mask": attn_mask, "is_causal": is_causal}
    other = {"valid_lens": memory_valid_lens, "attn_mask": memory_attn_mask}
    if norm_first:
        x = x + attend("self_attn.", norm("norm1", x), None, **own)
        x = x + attend("multihead_attn.", norm("norm2", x), memory, **other)
        x = x + position_wise_ffn(state, norm("norm3", x), activation)
    else:
        x = norm("norm1", x + attend("self_attn.", x, None, **own))
        x = norm("norm2", x + attend("multihead_attn.", x, memory, **other))
        x = norm("norm3", x + position_wise_ffn(state, x, activation))
    return (x, *weights) if return_weights else x


def _norm_of(state: State, eps: float) -> Any:
    return lambda name, x: layer_norm(x, state.get(f"{name}.weight"), state.get(f"{name}.bias"), eps)
