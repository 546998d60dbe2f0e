"""Formulas of scores, for ``score_mod=``: each is the function that a user would write.

A formula takes ``(score, b, h, q_idx, kv_idx)`` and gives the new score. Arrays that it reads may be NumPy's, Tensors
or Parameters; those that require a gradient get it. It is traced once, at its first call, and serves any shape.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._core import Tensor
from ._formulas import array_of, fixed, is_array
from ._public import explained, publish
from ._types import Numbers
from ._words.errors import integer_of, shown

__all__ = ["alibi", "disentangled", "relative_bias", "shaw", "soft_cap", "transformer_xl"]

ScoreMod = Callable[..., Any]


@explained
def alibi(slopes: Numbers) -> ScoreMod:
    """``score - slopes[h] * |q_idx - kv_idx|``: the further a key, the lower its score.

    Parameters
    ----------
    slopes : array_like or Tensor, (H,)
        See :func:`qkv.alibi_slopes`.

    Returns
    -------
    callable
        A formula for ``score_mod=``.

    Raises
    ------
    ValueError
        If `slopes` is not (H,).

    References
    ----------
    Press, Smith, Lewis, Train Short, Test Long: Attention with Linear Biases, 2021.

    Examples
    --------
    >>> q = k = v = qkv.randn(1, 4, 6, 8)
    >>> qkv.scaled_dot_product_attention(q, k, v, score_mod=qkv.scores.alibi(qkv.alibi_slopes(4))).shape
    (1, 4, 6, 8)
    """
    slopes = _array("alibi", "slopes", slopes, 1, "(H,)")

    return fixed(_alibi, slopes, slopes=("H", slopes))


def _alibi(slopes: Any, score: Any, b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
    return score - slopes[h] * abs(q_idx - kv_idx)


@explained
def soft_cap(cap: float | Tensor | NDArray[Any]) -> ScoreMod:
    """``cap * tanh(score / cap)``: scores between ``-cap`` and ``cap``.

    Parameters
    ----------
    cap : float, or Tensor of one number
        Above 0.

    Returns
    -------
    callable
        A formula for ``score_mod=``.

    Raises
    ------
    ValueError
        If `cap` is a number that is not above 0.

    References
    ----------
    Gemma Team, Gemma 2: Improving Open Language Models at a Practical Size, 2024.

    Examples
    --------
    >>> q = k = v = qkv.randn(1, 4, 6, 8)
    >>> qkv.scaled_dot_product_attention(q, k, v, score_mod=qkv.scores.soft_cap(20.0)).shape
    (1, 4, 6, 8)
    """
    if not is_array(cap) and not (_is_number(cap) and 0 < cap < math.inf):
        raise ValueError(f"soft_cap: cap must be above 0 because scores stay below it; got {shown(cap)}")

    return fixed(_soft_cap, cap)


def _soft_cap(cap: Any, score: Any, b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
    return cap * np.tanh(score / cap)


@explained
def relative_bias(
    table: Tensor | NDArray[Any], max_distance: int = 128, bidirectional: bool = True
) -> ScoreMod:
    """``score + table[bucket(kv_idx - q_idx), h]``: T5's learned number for each head and bucket of distances.

    Half of the buckets hold one distance each, the others grow by powers up to `max_distance`. Bidirectional: half of
    them are for keys after the query; else those keys share bucket 0.

    Parameters
    ----------
    table : array_like or Tensor, (num_buckets, H)
    max_distance : int
        From which on all distances share a bucket.
    bidirectional : bool

    Returns
    -------
    callable
        A formula for ``score_mod=``.

    Raises
    ------
    ValueError
        If `table` is not (num_buckets, H) with at least 4 buckets (2 unless bidirectional), or `max_distance` is not
        above the buckets of one distance.

    References
    ----------
    Raffel et al., Exploring the Limits of Transfer Learning with a Unified Text-to-Text Transformer (T5), 2020.

    Examples
    --------
    >>> q = k = v = qkv.randn(1, 4, 6, 8)
    >>> table = qkv.tensor(np.zeros((32, 4)), requires_grad=True)
    >>> qkv.scaled_dot_product_attention(q, k, v, score_mod=qkv.scores.relative_bias(table)).shape
    (1, 4, 6, 8)
    """
    table = _array("relative_bias", "table", table, 2, "(num_buckets, H)")
    buckets = table.shape[0] // 2 if bidirectional else table.shape[0]
    exact = buckets // 2
    if exact < 1:
        raise ValueError(
            f"relative_bias: table must have at least {4 if bidirectional else 2} buckets; got table "
            f"{tuple(table.shape)}"
        )
    if not _is_number(max_distance) or not exact < max_distance < math.inf:
        raise ValueError(
            f"relative_bias: max_distance must be above {exact}, the number of buckets of one distance; "
            f"got {shown(max_distance)}"
        )
    octaves = math.log(max_distance / exact)
    return fixed(_relative_bias, table, buckets, octaves, bidirectional, table=(".H", table))


def _relative_bias(
    table: Any,
    buckets: int,
    octaves: float,
    bidirectional: bool,
    score: Any,
    b: Any,
    h: Any,
    q_idx: Any,
    kv_idx: Any,
) -> Any:
    ahead, exact = kv_idx - q_idx, buckets // 2
    distance = abs(ahead) if bidirectional else np.clip(-ahead, 0, None)
    # In float32, as in trained models.
    part = np.log((np.clip(distance, 1, None) / exact).astype("float32")) / octaves
    far = exact + (part * (buckets - exact)).astype(int)
    bucket = np.where(distance < exact, distance, np.clip(far, None, buckets - 1))
    if bidirectional:
        bucket = bucket + buckets * (ahead > 0)
    return score + table[bucket, h]


@explained
def shaw(query_times_table: Numbers, q_offset: int = 0) -> ScoreMod:
    """``score + query_times_table[b, h, i, clip(kv_idx - q_idx, -K, K) + K]``: a vector for each clipped distance.

    Parameters
    ----------
    query_times_table : array_like or Tensor, (B, H, Lq, 2 K + 1)
        Products of each query, scaled as the scores are, with the vectors of the distances ``-K .. K``.
    q_offset : int
        Position of query 0, as the call has it: row ``i`` is that of position ``q_offset + i``.

    Returns
    -------
    callable
        A formula for ``score_mod=``.

    Raises
    ------
    ValueError
        If `query_times_table` is not (B, H, Lq, 2 K + 1).

    References
    ----------
    Shaw, Uszkoreit, Vaswani, Self-Attention with Relative Position Representations, 2018.

    Examples
    --------
    >>> q = k = v = qkv.randn(1, 4, 6, 8)
    >>> table = q @ qkv.randn(8, 2 * 3 + 1) / 8**0.5
    >>> qkv.scaled_dot_product_attention(q, k, v, score_mod=qkv.scores.shaw(table)).shape
    (1, 4, 6, 8)
    """
    products = _array("shaw", "query_times_table", query_times_table, 4, "(B, H, Lq, 2 K + 1)")
    farthest, q_offset = (
        _half("shaw", "query_times_table", products),
        integer_of("shaw", "q_offset", q_offset),
    )

    return fixed(_shaw, products, farthest, q_offset, query_times_table=("BHQ.", products))


def _shaw(
    products: Any, farthest: int, q_offset: int, score: Any, b: Any, h: Any, q_idx: Any, kv_idx: Any
) -> Any:
    distance = np.clip(kv_idx - q_idx, -farthest, farthest)
    return score + products[b, h, q_idx - q_offset, distance + farthest]


@explained
def transformer_xl(query_times_positions: Numbers, q_offset: int = 0) -> ScoreMod:
    """``score + query_times_positions[b, h, i, q_idx - kv_idx + Lk - 1]``: each query meets a vector of every distance.

    Content and position biases ``u`` and ``v`` belong to what is multiplied: ``query = q + u`` in the call and
    ``query_times_positions = (q + v) R^T``.

    Parameters
    ----------
    query_times_positions : array_like or Tensor, (B, H, Lq, 2 Lk - 1)
        Products of each query, scaled as the scores are, with the vectors of the distances ``-(Lk - 1) .. Lk - 1`` from
        key to query.
    q_offset : int
        Position of query 0, as the call has it: row ``i`` is that of position ``q_offset + i``.

    Returns
    -------
    callable
        A formula for ``score_mod=``.

    Raises
    ------
    ValueError
        If `query_times_positions` is not (B, H, Lq, 2 Lk - 1).

    References
    ----------
    Dai et al., Transformer-XL: Attentive Language Models beyond a Fixed-Length Context, 2019.

    Examples
    --------
    >>> q = k = v = qkv.randn(1, 4, 6, 8)
    >>> products = q @ qkv.randn(8, 2 * 6 - 1) / 8**0.5
    >>> qkv.scaled_dot_product_attention(q, k, v, score_mod=qkv.scores.transformer_xl(products)).shape
    (1, 4, 6, 8)
    """
    products = _array(
        "transformer_xl", "query_times_positions", query_times_positions, 4, "(B, H, Lq, 2 Lk - 1)"
    )
    farthest = _half("transformer_xl", "query_times_positions", products)
    q_offset = integer_of("transformer_xl", "q_offset", q_offset)

    return fixed(_transformer_xl, products, farthest, q_offset, query_times_positions=("BHQ.", products))


def _transformer_xl(
    products: Any, farthest: int, q_offset: int, score: Any, b: Any, h: Any, q_idx: Any, kv_idx: Any
) -> Any:
    return score + products[b, h, q_idx - q_offset, q_idx - kv_idx + farthest]


@explained
def disentangled(
    content_to_position: Numbers, position_to_content: Numbers, max_distance: int, q_offset: int = 0
) -> ScoreMod:
    """``score + c2p[b, h, i, d(q_idx, kv_idx)] + p2c[b, h, kv_idx, d(kv_idx, q_idx)]``: DeBERTa's three-part scores.

    ``d(i, j) = clip(i - j + K, 0, 2 K - 1)`` with ``K = max_distance``.

    Parameters
    ----------
    content_to_position : array_like or Tensor, (B, H, Lq, 2 K)
        Products of each query with the keys of relative positions, scaled as the scores are.
    position_to_content : array_like or Tensor, (B, H, Lk, 2 K)
        Products of each key with the queries of relative positions, likewise.
    max_distance : int
        ``K``.
    q_offset : int
        Position of query 0, as the call has it: row ``i`` is that of position ``q_offset + i``.

    Returns
    -------
    callable
        A formula for ``score_mod=``.

    Raises
    ------
    ValueError
        If the arrays are not (B, H, L, 2 K) with that K.

    Notes
    -----
    DeBERTa scales all three parts by ``1 / sqrt(3 D)``: pass ``scale=(3 * D) ** -0.5`` to the attention.

    References
    ----------
    He, Liu, Gao, Chen, DeBERTa: Decoding-enhanced BERT with Disentangled Attention, 2021.

    Examples
    --------
    >>> q = k = v = qkv.randn(1, 4, 6, 8)
    >>> c2p, p2c = (x @ qkv.randn(8, 2 * 3) / 24**0.5 for x in (q, k))
    >>> formula = qkv.scores.disentangled(c2p, p2c, 3)
    >>> qkv.scaled_dot_product_attention(q, k, v, scale=24**-0.5, score_mod=formula).shape
    (1, 4, 6, 8)
    """
    max_distance = integer_of("disentangled", "max_distance", max_distance)
    q_offset = integer_of("disentangled", "q_offset", q_offset)
    arrays = []
    for name, array in (
        ("content_to_position", content_to_position),
        ("position_to_content", position_to_content),
    ):
        array = _array("disentangled", name, array, 4, "(B, H, L, 2 K)")
        if array.shape[3] != 2 * max_distance:
            raise ValueError(
                f"disentangled: {name} must be (B, H, L, 2 K) with K = max_distance = {max_distance}; got {name} "
                f"{tuple(array.shape)}"
            )
        arrays.append(array)
    of_queries, of_keys = arrays
    return fixed(
        _disentangled,
        *(of_queries, of_keys, max_distance, q_offset),
        content_to_position=("BHQ.", of_queries),
        position_to_content=("BHK.", of_keys),
    )


def _disentangled(
    of_queries: Any,
    of_keys: Any,
    most: int,
    q_offset: int,
    score: Any,
    b: Any,
    h: Any,
    q_idx: Any,
    kv_idx: Any,
) -> Any:
    ahead = np.clip(q_idx - kv_idx + most, 0, 2 * most - 1)
    behind = np.clip(kv_idx - q_idx + most, 0, 2 * most - 1)
    return score + of_queries[b, h, q_idx - q_offset, ahead] + of_keys[b, h, kv_idx, behind]


def _is_number(x: Any) -> bool:
    return isinstance(x, Real)


def _array(operation: str, name: str, value: Any, rank: int, shape: str) -> Any:
    array = array_of(operation, name, value)
    if len(array.shape) != rank:
        raise ValueError(f"{operation}: {name} must be {shape}; got {name} {tuple(array.shape)}")
    return array


def _half(operation: str, name: str, products: Any) -> int:
    """Return K of 2 K + 1 distances."""
    count = int(products.shape[3])
    if count % 2 == 0:
        raise ValueError(
            f"{operation}: {name} must have an odd number of distances because they go from -K to K; got {count}"
        )
    return count // 2


publish(__name__)
