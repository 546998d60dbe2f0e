"""A layer of few rows: a bare product packs the weight again at each call, a layer keeps it packed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from machine import peer
from registry import Case, agree, by_level, faster_than, normal, row

import qkv

# Features in and out, rows, and how many times as fast as NumPy's product of the same size.
GOALS: dict[tuple[int, int, int], float | None] = {
    (384, 1536, 1): None,
    (384, 1536, 8): by_level(avx2=1.4, avx512=2.0),
    (384, 1536, 64): None,
    (384, 384, 8): by_level(avx2=1.4, avx512=2.0),
    (384, 384, 32): by_level(avx2=1.4, avx512=1.3),
    (384, 384, 128): 1.0,
    (1536, 384, 8): by_level(avx2=1.4, avx512=2.0),
    (1536, 384, 32): by_level(avx2=1.4, avx512=1.3),
    (1536, 384, 128): 1.0,
}


def linear(size: tuple[int, int, int], threads: int) -> Case:
    features, units, rows = size
    layer, x = qkv.nn.Linear(features, units), normal(rows, features)
    tensor, weight, bias = qkv.tensor(x), layer.weight.numpy().copy(), layer.bias.numpy().copy()

    def ours() -> Any:
        with qkv.no_grad():
            return layer(tensor)

    calls: dict[str, Callable[[], Any]] = {"qkv": ours, "NumPy": lambda: x @ weight.T}
    agree(ours(), x @ weight.T + bias)
    if torch := peer("PyTorch"):
        theirs, their_x = torch.nn.Linear(features, units), torch.from_numpy(x)
        theirs.load_state_dict({"weight": torch.from_numpy(weight), "bias": torch.from_numpy(bias)})

        def run() -> Any:
            with torch.inference_mode():
                return theirs(their_x)

        calls["PyTorch"] = run
        agree(ours(), run())
    moved = 4.0 * (features * units + units + rows * (features + units))
    return Case(calls, flops=2.0 * rows * features * units, bytes=moved)


for _size, _goal in GOALS.items():
    row(
        f"Linear {_size[0]} -> {_size[1]}, {_size[2]} rows, no gradient",
        goals=[faster_than("NumPy", _goal)],
        peers=["NumPy", "PyTorch"],
        quick=_size == (384, 1536, 8),
    )(partial(linear, _size))
