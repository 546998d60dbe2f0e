"""Formulas and masks of the field, written once for NumPy's arrays and for tracing, and what they must give."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

import qkv
from qkv import scores
from qkv.masks import formulas

B, H, LQ, LK, D = 2, 3, 11, 13, 5
ARRAYS: dict[str, tuple[int, ...]] = {
    "slopes": (H,), "cap": (), "gate": (B, H), "row": (LQ,), "column": (LK,), "near": (H, 7), "stairs": (5,),
    "table": (8, H), "kinds": (4, 4, H), "pairs": (LQ, LK), "flipped": (LK, LQ), "bias": (B, H, LQ, LK),
    "shaw": (B, H, LQ, 2 * LK - 1), "graph": (H, 6), "own": (B, H, LQ, 6), "other": (B, H, LK, 6),
}  # fmt: skip
KIND = np.random.default_rng(5).integers(0, 4, (B, LK))
ORDER = np.random.default_rng(6).permutation(LK).astype("int32")
DOCUMENT = np.sort(np.random.default_rng(7).integers(0, 3, LK)).astype("int16")
LENGTH = np.array([7, 12])
STEPS = np.random.default_rng(8).integers(0, 6, (B, LQ, LK))
BLOCKS = np.random.default_rng(9).random((H, 4, 5)) < 0.5


def arrays() -> SimpleNamespace:
    """Return float64 arrays by name; `cap` is far from 0."""
    r = np.random.default_rng(1)
    values = {name: 0.7 * r.standard_normal(shape) for name, shape in ARRAYS.items()}
    return SimpleNamespace(**{**values, "cap": np.array(1.7)})


def t5_bucket(ahead, buckets=8, most=20):
    n = buckets // 2
    exact = n // 2
    distance = abs(ahead)
    far = exact + (np.log(np.clip(distance, 1, None) / exact) / math.log(most / exact) * (n - exact)).astype(
        int
    )
    return n * (ahead > 0) + np.where(distance < exact, distance, np.clip(far, None, n - 1))


# name: (formula of the arrays, the arrays that it reads)
SCORES: dict[str, tuple[Callable[[Any], Callable[..., Any]], list[str]]] = {
    "identity": (lambda a: lambda s, b, h, q, k: s, []),
    "constant": (lambda a: lambda s, b, h, q, k: 2, []),
    "alibi of the head": (lambda a: lambda s, b, h, q, k: s + (k - q) * np.exp2(-((h + 1) * 8.0 / H)), []),
    "alibi": (lambda a: lambda s, b, h, q, k: s - a.slopes[h] * abs(q - k), ["slopes"]),
    "soft cap": (lambda a: lambda s, b, h, q, k: 2.0 * np.tanh(s / 2.0), []),
    "trained cap": (lambda a: lambda s, b, h, q, k: a.cap * np.tanh(s / a.cap), ["cap"]),
    "T5": (lambda a: lambda s, b, h, q, k: s + a.table[t5_bucket(k - q), h], ["table"]),
    "seven arithmetic": (
        lambda a: lambda s, b, h, q, k: np.where(s * 0.7 + 0.1 > 0, s * 1.1 - 0.01 * (s * s), s), []),
    "bias of all pairs": (lambda a: lambda s, b, h, q, k: s + a.bias[b, h, q, k], ["bias"]),
    "Shaw": (lambda a: lambda s, b, h, q, k: s + a.shaw[b, h, q, k - q + LK - 1], ["shaw"]),
    "graph distances": (lambda a: lambda s, b, h, q, k: s + a.graph[h, STEPS[b, q, k]], ["graph"]),
    "clipped distances": (lambda a: lambda s, b, h, q, k: s + a.near[h, np.clip(k - q, -3, 3) + 3], ["near"]),
    "rows and columns": (lambda a: lambda s, b, h, q, k: s + a.row[q] * a.column[k], ["row", "column"]),
    "one array twice": (lambda a: lambda s, b, h, q, k: s + a.column[q] - a.column[k] ** 2, ["column"]),
    "pairs of kinds": (lambda a: lambda s, b, h, q, k: s + a.kinds[KIND[b, q], KIND[b, k], h], ["kinds"]),
    "permuted positions": (lambda a: lambda s, b, h, q, k: s - 0.1 * abs(ORDER[q] - ORDER[k]), []),
    "gate": (lambda a: lambda s, b, h, q, k: s / (1 + np.exp(-(a.gate[b, h] - 0.2 * s))), ["gate"]),
    "temperature": (lambda a: lambda s, b, h, q, k: s / (0.5 + a.slopes[h] ** 2), ["slopes"]),
    "floors of negatives": (
        lambda a: lambda s, b, h, q, k: s + 0.3 * ((k - q) // 4) - 0.2 * ((k - q) % 5), []),
    "steps": (lambda a: lambda s, b, h, q, k: s + a.stairs[abs(q - k) // 3], ["stairs"]),
    "decay": (lambda a: lambda s, b, h, q, k: s + abs(q - k) * math.log(0.9), []),
    "-inf excludes": (lambda a: lambda s, b, h, q, k: np.where((q - k) % 3 != 1, s, -np.inf), []),
    "-inf of pairs": (
        lambda a: lambda s, b, h, q, k: s + np.where(a.pairs[q, k] > 0.8, -np.inf, a.pairs[q, k]), ["pairs"]),
    "root and power": (lambda a: lambda s, b, h, q, k: np.sqrt(1 + s * s) - 0.1 * s**3, []),
    "leaky": (
        lambda a: lambda s, b, h, q, k: np.maximum(s, 0.2 * s) + np.minimum(s, a.column[k]), ["column"]),
    "log": (lambda a: lambda s, b, h, q, k: np.log(np.exp(s) + 0.3), []),
    "without the score": (
        lambda a: lambda s, b, h, q, k: a.row[q] * a.column[k], ["row", "column"]),
    "factor of pairs": (lambda a: lambda s, b, h, q, k: s * (1 + 0.1 * a.pairs[q, k]), ["pairs"]),
    "flipped": (lambda a: lambda s, b, h, q, k: s + a.flipped[k, q], ["flipped"]),
    "waves": (lambda a: lambda s, b, h, q, k: s + np.sin(0.3 * (q - k)) * np.cos(s), []),
    "integers of pairs": (lambda a: lambda s, b, h, q, k: s + 0.1 * ((q * k + h) % 7) - (q & k) // 2, []),
    "index of pairs": (lambda a: lambda s, b, h, q, k: s + a.stairs[(q * k) % 5 - 2], ["stairs"]),
    "power by head": (lambda a: lambda s, b, h, q, k: s + 0.1 * 1.5 ** (-(h + abs(q - k))), []),
    "remainder of floats": (
        lambda a: lambda s, b, h, q, k: s + (0 * s + 0.713 * q - 1.017 * k + 0.11) % 1.3 // 0.4, []),
    "library: alibi": (lambda a: scores.alibi(a.slopes), ["slopes"]),
    "library: shaw": (lambda a: scores.shaw(a.shaw), ["shaw"]),
    "library: disentangled": (lambda a: scores.disentangled(a.own, a.other, 3), ["own", "other"]),
}  # fmt: skip

MASKS: dict[str, Callable[..., Any]] = {
    "causal": formulas.causal,
    "window": formulas.sliding_window(4, 1),
    "dilated": formulas.dilated(8, 3),
    "prefix": formulas.prefix(3),
    "prefix by entry": formulas.prefix(np.array([2, 6])),
    "documents": formulas.documents(DOCUMENT),
    "documents by entry": formulas.documents(KIND),
    "neighbours": formulas.neighbours(4, 4, 1),
    "strided": formulas.strided(3),
    "global window": formulas.global_window(2, 2),
    "block diffusion": formulas.block_diffusion(4),
    "block diffusion in training": formulas.block_diffusion(2, 6),
    "shared prefix": formulas.shared_prefix(3, DOCUMENT),
    "and": formulas.and_masks(formulas.causal, formulas.documents(DOCUMENT)),
    "or": formulas.or_masks(formulas.causal, formulas.prefix(5)),
    "not": formulas.not_mask(formulas.causal),
    "lengths": lambda b, h, q, k: k < LENGTH[b],
    "tiles of a picture": lambda b, h, q, k: (q // 8 == k // 8) & ((q % 4) // 2 == (k % 4) // 2),
    "window by head": lambda b, h, q, k: abs(q - k) < 2 * (h + 1),
    "table of blocks": lambda b, h, q, k: BLOCKS[h, q // 3, k // 3] | (q == k),
    "rows without keys": lambda b, h, q, k: (q % 5 != 2) & (k <= q),
    "everything": lambda b, h, q, k: True,
    "permuted order": lambda b, h, q, k: ORDER[q] >= ORDER[k],
}  # fmt: skip


def inputs() -> list[np.ndarray]:
    r = np.random.default_rng(2)
    return [r.standard_normal((B, H, n, D)) for n in (LQ, LK, LK)]


def indices(offset: Any = 0) -> list[np.ndarray]:
    """Return index arrays of the four axes; `offset` is a number or (B,)."""
    b, h, q, k = (
        np.arange(n).reshape([-1 if i == axis else 1 for i in range(4)])
        for axis, n in enumerate((B, H, LQ, LK))
    )
    return [b, h, q + np.asarray(offset).reshape(-1, 1, 1, 1), k]


def expected(q, k, v, score=None, mask=None, offset=0):
    """Return output and weights by whole arrays in float64."""
    s = np.einsum("bhqd,bhkd->bhqk", q, k) / math.sqrt(q.shape[-1])
    if score is not None:
        s = score(s, *indices(offset)) + np.zeros_like(s)
    if mask is not None:
        s = np.where(mask(*indices(offset)), s, -np.inf)
    top = np.max(s, -1, keepdims=True)
    e = np.exp(s - np.where(np.isfinite(top), top, 0))
    total = e.sum(-1, keepdims=True)
    w = np.divide(e, total, out=np.zeros_like(e), where=total > 0)
    return w @ v, w


def tensors(names: list[str], dtype: str = "float64") -> SimpleNamespace:
    """Return the arrays, those of the names as Tensors that take gradients."""
    a = arrays()
    for name in names:
        setattr(a, name, qkv.tensor(getattr(a, name).astype(dtype), requires_grad=True))
    return a
