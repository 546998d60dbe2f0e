"""A layer of few rows: a bare product packs the weight anew at each call, a layer keeps it packed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from machine import peer
from registry import Case, agree, faster_than, normal, row

import qkv

IN, OUT = 384, 1536


def linear(rows: int, threads: int) -> Case:
    layer, x = qkv.nn.Linear(IN, OUT), normal(rows, IN)
    tensor, weight, bias = qkv.tensor(x), layer.weight.numpy().copy(), layer.bias.numpy().copy()

    def ours() -> Any:
        with qkv.no_grad():
            return layer(tensor)

    calls: dict[str, Callable[[], Any]] = {"qkv": ours, "NumPy": lambda: x @ weight.T}
    agree(ours(), x @ weight.T + bias)
    if torch := peer("PyTorch"):
        theirs, their_x = torch.nn.Linear(IN, OUT), torch.from_numpy(x)
        theirs.load_state_dict({"weight": torch.from_numpy(weight), "bias": torch.from_numpy(bias)})

        def run() -> Any:
            with torch.inference_mode():
                return theirs(their_x)

        calls["PyTorch"] = run
        agree(ours(), run())
    moved = 4.0 * (IN * OUT + OUT + rows * (IN + OUT))
    return Case(calls, flops=2.0 * rows * IN * OUT, bytes=moved)


for _rows, _goal in {1: None, 8: 2.0, 64: None}.items():
    row(
        f"Linear {IN} -> {OUT}, {_rows} rows, no gradient",
        goals=[faster_than("NumPy", _goal)],
        peers=["NumPy", "PyTorch"],
        quick=_rows == 8,
    )(partial(linear, _rows))
