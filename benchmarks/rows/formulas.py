"""Attention by a formula: time over that of plain attention, tracing included."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from registry import cost, normal, row

import qkv

from .options import H, Inputs, L, Options, compare, plain_inputs

Formula = Callable[..., Any]


def trained(*shape: int) -> qkv.Tensor:
    return qkv.tensor(normal(*shape, seed=5) * np.float32(0.1), requires_grad=True)


def alibi() -> Formula:
    return qkv.scores.alibi(qkv.alibi_slopes(H))


def buckets() -> Formula:
    return qkv.scores.relative_bias(trained(32, H), max_distance=128, bidirectional=True)


def soft_cap() -> Formula:
    return qkv.scores.soft_cap(20.0)


def arithmetic() -> Formula:
    gate, shift = normal(L, seed=6), normal(L, seed=7)

    def formula(score: Any, b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
        x = score * gate[kv_idx] + shift[q_idx]
        return qkv.where(x < shift[q_idx], x * 0.5, abs(score))

    return formula


def trained_cap() -> Formula:
    cap = qkv.tensor(np.full(H, 20, np.float32), requires_grad=True)

    def formula(score: Any, b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
        return cap[h] * qkv.tanh(score / cap[h])

    return formula


def all_pairs() -> Formula:
    bias = trained(H, L, L)

    def formula(score: Any, b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
        return score + bias[h, q_idx, kv_idx]

    return formula


def graph_distances() -> Formula:
    table, distance = trained(H, 16), np.random.default_rng(8).integers(0, 16, (L, L))

    def formula(score: Any, b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
        return score + table[h, distance[q_idx, kv_idx]]

    return formula


def changed(make: Callable[[], Formula]) -> tuple[Inputs, Options, float]:
    return plain_inputs(), {"score_mod": make()}, 1.0


def masked(mask: Formula, share: float) -> tuple[Inputs, Options, float]:
    return plain_inputs(), {"mask_mod": mask}, share


DOCUMENTS = np.arange(L) // (L // 4)
SCORES: list[tuple[str, Callable[[], Formula], float, float]] = [
    ("formula: ALiBi", alibi, 1.10, 1.12),
    ("formula: T5's buckets, trained", buckets, 1.10, 1.12),
    ("formula: soft cap", soft_cap, 1.15, 1.15),
    ("formula: five instructions", arithmetic, 1.20, 1.25),
    ("formula: trained cap", trained_cap, 1.20, 1.35),
    ("formula: bias of all pairs, trained", all_pairs, 1.45, 1.45),
    ("formula: graph distances, trained", graph_distances, 1.45, 1.45),
]
for _name, _make, _forward, _both in SCORES:
    row(f"{_name}, forward", subject="formulas", goals=[cost(_forward)])(
        partial(compare, partial(changed, _make), False)
    )
    row(f"{_name}, forward + backward", subject="formulas", goals=[cost(_both)])(
        partial(compare, partial(changed, _make), True)
    )
for _name, _mask, _share in (
    ("formula: causal mask", qkv.masks.formulas.causal, 0.5),
    ("formula: 4 documents", qkv.masks.formulas.documents(DOCUMENTS), 0.25),
):
    row(f"{_name}, forward", subject="formulas", goals=[cost(1.3)])(
        partial(compare, partial(masked, _mask, _share), False)
    )
