"""Additive attention against PyTorch's composed one, which stores a tanh for each pair and unit."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from machine import peer
from registry import Case, agree, faster_than, normal, row

import qkv

Shape = tuple[int, int, int, int]  # B, Lq, Lk, M


def attention(shape: Shape, backward: bool, threads: int) -> Case:
    batch, queries, keys, width = shape
    arrays = [
        normal(batch, queries, width),
        normal(batch, keys, width, seed=1),
        normal(batch, keys, width, seed=2),
        normal(width, seed=3) / width**0.5,
    ]
    gradient = normal(batch, queries, width, seed=4)
    own, own_gradient = [qkv.tensor(x, requires_grad=backward) for x in arrays], qkv.tensor(gradient)

    def ours() -> Any:
        y = qkv.additive_attention(*own)
        if backward:
            y.backward(own_gradient)
        return y

    calls: dict[str, Callable[[], Any]] = {"qkv": ours}
    if torch := peer("PyTorch"):
        q, k, v, w = (torch.tensor(x, requires_grad=backward) for x in arrays)
        their_gradient = torch.from_numpy(gradient)

        def theirs() -> Any:
            y = torch.softmax(torch.tanh(q[:, :, None] + k[:, None]) @ w, -1) @ v
            if backward:
                y.backward(their_gradient)
            return y

        calls["PyTorch"] = theirs
        agree(ours(), theirs())
        if backward:
            for ours_x, their_x in zip(own, (q, k, v, w), strict=True):
                agree(ours_x.grad, their_x.grad, atol=2e-3)
    return Case(calls)


for _shape, _goals in {
    (8, 128, 128, 256): (15.0, 10.0),
    (64, 1, 100, 64): (None, None),
    (32, 10, 10, 256): (None, None),
}.items():
    for _backward, _goal in zip((False, True), _goals, strict=True):
        row(
            f"additive {_shape}, forward" + (" + backward" if _backward else ""),
            goals=[faster_than("PyTorch", _goal)],
            peers=["PyTorch"],
            quick=_goal == 15.0,
        )(partial(attention, _shape, _backward))
