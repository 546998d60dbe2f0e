"""One vector of the rows of a text, and how similar two are."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import _core
from ..._core import Tensor
from ...functions.elementwise import where
from ...functions.joining import stack

# What a pooling makes of the kept rows x (n, M), and its names in 1_Pooling/config.json.
POOLINGS: dict[str, str] = {
    "cls": "pooling_mode_cls_token",
    "max": "pooling_mode_max_tokens",
    "mean": "pooling_mode_mean_tokens",
    "mean_sqrt_len_tokens": "pooling_mode_mean_sqrt_len_tokens",
    "weightedmean": "pooling_mode_weightedmean_tokens",
    "lasttoken": "pooling_mode_lasttoken",
}

SHORTEST = 1e-12  # of vectors that are divided by their length
SIMILARITIES = ("cosine", "dot", "euclidean", "manhattan")


def pooled(name: str, rows: Tensor, lens: np.ndarray, begin: int = 0) -> Tensor:
    """Return (B, M) of rows (B, L, M) that are zeros after lens (B,); those before `begin` do not count."""
    dtype = str(rows.dtype)
    count = np.maximum(lens - begin, 1)[:, None].astype(dtype)
    made: Tensor
    if name == "cls":
        made = rows[np.arange(len(lens)), np.where(lens > begin, begin, 0)]
    elif name == "lasttoken":
        made = rows[np.arange(len(lens)), np.maximum(lens, 1) - 1]
    elif name == "max":
        places = np.arange(rows.shape[1])
        left_out = ((places >= lens[:, None]) | (places < begin)) & (lens > begin)[:, None]
        made = where(left_out[..., None], np.array(-np.inf, dtype), rows).max(axis=1)
    elif name == "weightedmean":
        weights = np.arange(1, rows.shape[1] + 1, dtype=dtype)[:, None]
        total = (count * (count + 1) / 2 + begin * count).astype(dtype)
        made = _sums(rows * weights, lens, begin) / total
    else:
        made = _sums(rows, lens, begin) / (count if name == "mean" else np.sqrt(count))
    return made


def _sums(rows: Tensor, lens: np.ndarray, begin: int) -> Tensor:
    """Return (B, M), each the sum of a text's own rows: how they are added does not depend on the texts beside it."""
    added: Tensor = stack(
        [text[begin:length].sum(axis=0) for text, length in zip(rows, lens.tolist(), strict=True)]
    )
    return added


def compared(kind: str, a: Any, b: Any) -> np.ndarray:
    """Return (N, K) of rows (N, M) and (K, M), or (M,) for one; larger is nearer."""
    x, y = _rows("a", a), _rows("b", b)
    if x.ndim != 2 or y.ndim != 2 or x.shape[1] != y.shape[1]:
        raise ValueError(f"similarity: b must be (K, {x.shape[-1]}) to match a {x.shape}; got b {y.shape}")
    if kind == "cosine":
        x, y = (v / np.maximum(np.linalg.norm(v, axis=1, keepdims=True), SHORTEST) for v in (x, y))
    if kind in ("cosine", "dot"):
        return np.asarray(_core.matmul(x, y.T))
    order = 2 if kind == "euclidean" else 1
    return np.stack([-np.linalg.norm(y - row, order, axis=1) for row in x])


def _rows(name: str, given: Any) -> np.ndarray:
    """Return rows of floats: integers, such as those of quantized embeddings, would overflow."""
    array = _core.as_numpy(given, "similarity", name)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"similarity: {name} must hold numbers; got {array.dtype}")
    return np.atleast_2d(array if array.dtype.kind == "f" else array.astype(np.float64))
