"""A GRU of two layers against PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from machine import peer
from registry import Case, agree, faster_than, normal, row

import qkv

BATCH, STEPS, WIDTH, LAYERS = 16, 32, 256, 2


def gru(backward: bool, threads: int) -> Case:
    x = normal(BATCH, STEPS, WIDTH)
    layer, tensor = qkv.nn.GRU(WIDTH, WIDTH, LAYERS), qkv.tensor(x)

    def ours() -> Any:
        if backward:
            y = layer(tensor)[0]
            y.sum().backward()
            return y
        with qkv.no_grad():
            return layer(tensor)[0]

    calls: dict[str, Callable[[], Any]] = {"qkv": ours}
    if torch := peer("PyTorch"):
        theirs, their_x = torch.nn.GRU(WIDTH, WIDTH, LAYERS, batch_first=True), torch.from_numpy(x)
        theirs.load_state_dict({k: torch.from_numpy(v.numpy().copy()) for k, v in layer.state_dict().items()})

        def run() -> Any:
            if backward:
                y = theirs(their_x)[0]
                y.sum().backward()
                return y
            with torch.inference_mode():
                return theirs(their_x)[0]

        calls["PyTorch"] = run
        agree(ours(), run())
    matrices = 6 * WIDTH * WIDTH * LAYERS
    flops = 2.0 * matrices * BATCH * STEPS * (3 if backward else 1)
    moved = 4.0 * (matrices * (2 if backward else 1) + 2 * BATCH * STEPS * WIDTH)
    return Case(calls, flops=flops, bytes=moved)


for _backward, _goal in ((False, 2.0), (True, 1.5)):
    row(
        "GRU 2 x 256, (16, 32, 256), forward" + (" + backward" if _backward else ""),
        goals=[faster_than("PyTorch", _goal)],
        peers=["PyTorch"],
        quick=not _backward,
    )(partial(gru, _backward))
