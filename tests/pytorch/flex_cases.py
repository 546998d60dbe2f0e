"""Formulas of the field written with torch functions, and what PyTorch's own operations make of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch.nn import functional
from torch.nn.attention.flex_attention import and_masks, create_mask, noop_mask, or_masks

B, H, LQ, LK, D = 2, 3, 13, 17, 5
SIDE = 4  # of pictures whose pixels are queries and keys, row by row
Parameters = dict[str, torch.Tensor]
SHAPES = {
    "slopes": (H,),
    "table": (H, 8),
    "bias": (LQ, LK),
    "gate": (B, H),
    "rows": (LQ,),
    "columns": (LK,),
    "cap": (),
}


def parameters(dtype: torch.dtype, requires_grad: bool = False) -> Parameters:
    made = {name: 0.5 + torch.rand(shape, dtype=dtype) for name, shape in SHAPES.items()}
    return {name: x.requires_grad_(requires_grad) for name, x in made.items()}


def inputs(dtype: torch.dtype = torch.float64, requires_grad: bool = False) -> list[torch.Tensor]:
    shapes = (B, H, LQ, D), (B, H, LK, D), (B, H, LK, D + 2)
    return [torch.randn(shape, dtype=dtype, requires_grad=requires_grad) for shape in shapes]


def alibi(p):
    return lambda s, b, h, q, k: s - p["slopes"][h] * (q - k).abs()


def alibi_of_the_head(p):
    return lambda s, b, h, q, k: s + (k - q) * torch.exp2(-((h + 1).to(s.dtype) * 8.0 / H))


def relative(p):
    def score(s, b, h, q, k):
        distance = (q - k).abs()
        far = 4 + (torch.log(distance.clamp(min=1).float() / 4) / math.log(5) * 4).long()
        bucket = torch.where(distance < 4, distance, torch.minimum(far, torch.full_like(far, 7)))
        return s + p["table"][h, bucket]

    return score


def soft_cap(p):
    return lambda s, b, h, q, k: 3.0 * torch.tanh(s / 3.0)


def trained_cap(p):
    return lambda s, b, h, q, k: p["cap"] * torch.tanh(s / p["cap"])


def pair_bias(p):
    return lambda s, b, h, q, k: s + p["bias"][q, k]


def gated(p):
    return lambda s, b, h, q, k: s * p["gate"][b, h].sigmoid() + p["rows"][q] * p["columns"][k]


def masked_score(p):
    return lambda s, b, h, q, k: torch.where(q >= k - 4, s, -math.inf)


def filled(p):
    return lambda s, b, h, q, k: s.masked_fill((q - k).abs() > 5, -torch.inf)


def activations(p):
    def score(s, b, h, q, k):
        x = functional.silu(s) + functional.gelu(s) - functional.gelu(s, approximate="tanh")
        return (
            x + functional.softplus(s) + functional.relu(s + 0.1) + functional.logsigmoid(s) * p["slopes"][h]
        )

    return score


def exponentials(p):
    def score(s, b, h, q, k):
        return torch.log1p(s * s) + torch.expm1(-s.abs()) + torch.rsqrt(s * s + 1) + torch.erf(s * p["cap"])

    return score


def rounded(p):
    return lambda s, b, h, q, k: s + torch.fmod(s, 0.7) * torch.sign(s) + torch.trunc(s) - torch.ceil(s) * 0.5


def conversions(p):
    def score(s, b, h, q, k):
        half = (q - k).to(torch.bfloat16).type_as(s) * s.new_full((), 0.25)
        zero = torch.zeros_like(s) + s.new_zeros(()) + s.new_tensor(0.0)
        return s.to(s.device) * torch.ones_like(s) + half.float() + zero + q.to(s) * 0

    return score


def in_place(p):
    def score(s, b, h, q, k):
        s = s * 1
        s.mul_(2.0)
        s += p["slopes"][h]
        functional.relu(s, inplace=True)
        return s.clamp(max=4.0)

    return score


SCORES: list[Callable[[Parameters], Callable[..., Any]]] = [
    alibi, alibi_of_the_head, relative, soft_cap, trained_cap, pair_bias, gated, masked_score, filled, activations,
    exponentials, rounded, conversions, in_place,
]  # fmt: skip

DOCUMENTS = torch.arange(LK) // 5
PREFIXES = torch.tensor([4, 9], dtype=torch.int32)
PARENTS = [0, 0, 0, 1, 1, 2, 3, 3, 4, 5, 5, 6, 8, 9, 10, 12, 13]


def ancestors() -> torch.Tensor:
    """Which token of a tree has which one among its ancestors or is it, bool (LK, LK)."""
    found = torch.eye(LK, dtype=torch.bool)
    for node in range(1, LK):
        found[node] |= found[PARENTS[node]]
    return found


TREE = ancestors()


def causal(b, h, q, k):
    return q >= k


def prefix_lm(b, h, q, k):
    return (k < PREFIXES[b]) | (q >= k)


def documents(b, h, q, k):
    return (DOCUMENTS[q] == DOCUMENTS[k]) & causal(b, h, q, k)


def window(b, h, q, k):
    return (q - k <= 4) & (q >= k)


def dilated(b, h, q, k):
    return (q >= k) & ((q - k) % 3 == 0) & (q - k < 9)


def neighbours(b, h, q, k):
    row, column = (q // SIDE).clamp(1, 2), (q % SIDE).clamp(1, SIDE - 2)
    return ((row - k // SIDE).abs() <= 1) & ((column - k % SIDE).abs() <= 1)


def tree(b, h, q, k):
    return TREE[q, k]


def of_heads(b, h, q, k):
    return torch.where(h == 0, q >= k, (q - k).abs() < 3)


MASKS: list[Callable[..., Any]] = [
    noop_mask, causal, prefix_lm, documents, window, dilated, neighbours, tree, of_heads,
    and_masks(window, dilated), or_masks(window, prefix_lm),
]  # fmt: skip


class Result(NamedTuple):
    output: torch.Tensor
    lse: torch.Tensor


def reference(q, k, v, score_mod=None, mask_mod=None, scale=None) -> Result:
    """All pairs at once, by operations of PyTorch that it differentiates."""
    batch, heads, queries, keys = *q.shape[:3], k.shape[2]
    k, v = (x.repeat_interleave(heads // x.shape[1], 1) for x in (k, v))
    s = q @ k.mT * (q.shape[-1] ** -0.5 if scale is None else scale)
    if score_mod is not None:
        places = [torch.arange(n) for n in (batch, heads, queries, keys)]
        places = torch.meshgrid(*places, indexing="ij")
        s = score_mod(s, *places)
    if mask_mod is not None:
        allowed = create_mask(mask_mod, batch, heads, queries, keys, device="cpu")
        s = s.masked_fill(~allowed, -torch.inf)
    return Result(torch.softmax(s, -1) @ v, torch.logsumexp(s, -1))
