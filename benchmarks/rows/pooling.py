"""Nadaraya-Watson pooling against PyTorch's composed one, which stores a weight for each pair."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from machine import peer
from registry import Case, agree, faster_than, row

import qkv

POINTS = 4096
BANDWIDTH = 0.2


def pool(backward: bool, threads: int) -> Case:
    random = np.random.default_rng(0)
    keys = np.sort(random.random(POINTS)).astype("float32") * 5
    values = (2 * np.sin(keys) + keys**0.8 + random.standard_normal(POINTS) / 2).astype("float32")
    queries = np.linspace(0, 5, POINTS, dtype=np.float32)
    gradient = np.ones(POINTS, np.float32)
    own, own_gradient = (
        [qkv.tensor(x, requires_grad=backward) for x in (queries, keys, values)],
        qkv.tensor(gradient),
    )

    def ours() -> Any:
        y = qkv.kernel_attention(*own, bandwidth=BANDWIDTH)
        if backward:
            y.backward(own_gradient)
        return y

    calls: dict[str, Callable[[], Any]] = {"qkv": ours}
    if torch := peer("PyTorch"):
        q, k, v = (torch.tensor(x, requires_grad=backward) for x in (queries, keys, values))
        their_gradient = torch.from_numpy(gradient)

        def theirs() -> Any:
            y = torch.softmax(-(((q[:, None] - k[None, :]) / BANDWIDTH) ** 2) / 2, -1) @ v
            if backward:
                y.backward(their_gradient)
            return y

        calls["PyTorch"] = theirs
        agree(ours(), theirs())
    return Case(calls)


row(
    "Nadaraya-Watson, 4096 x 4096 points", goals=[faster_than("PyTorch", 8.0)], peers=["PyTorch"], quick=True
)(partial(pool, False))
row("Nadaraya-Watson, forward + backward", goals=[faster_than("PyTorch", None)], peers=["PyTorch"])(
    partial(pool, True)
)
