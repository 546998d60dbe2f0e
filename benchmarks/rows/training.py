"""One step of training a Transformer encoder with Adam."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from machine import peer
from registry import Case, agree, faster_than, normal, row

import qkv

BATCH, LENGTH, WIDTH, HEADS, INNER, LAYERS = 16, 64, 256, 4, 1024, 2


@row(
    "encoder training step (16, 64, 256), 2 layers, Adam",
    goals=[faster_than("PyTorch", 1.4)],
    peers=["PyTorch"],
    quick=True,
)
def step(threads: int) -> Case:
    x = normal(BATCH, LENGTH, WIDTH)
    model = qkv.nn.TransformerEncoder(qkv.nn.TransformerEncoderLayer(WIDTH, HEADS, INNER, 0.0), LAYERS)
    adam, tensor = qkv.optim.Adam(model.parameters(), lr=1e-4), qkv.tensor(x)

    def ours() -> Any:
        adam.zero_grad()
        loss = (model(tensor) ** 2).mean()
        loss.backward()
        adam.step()
        return loss

    calls: dict[str, Callable[[], Any]] = {"qkv": ours}
    if torch := peer("PyTorch"):
        layer = torch.nn.TransformerEncoderLayer(WIDTH, HEADS, INNER, 0.0, batch_first=True)
        theirs = torch.nn.TransformerEncoder(layer, LAYERS)
        model.load_state_dict({name: p.detach().numpy() for name, p in theirs.state_dict().items()})
        their_adam, their_x = torch.optim.Adam(theirs.parameters(), lr=1e-4), torch.from_numpy(x)

        def run() -> Any:
            their_adam.zero_grad()
            loss = (theirs(their_x) ** 2).mean()
            loss.backward()
            their_adam.step()
            return loss

        calls["PyTorch"] = run
        for _ in range(2):  # the second loss is that after a step
            agree(ours(), run())
    tokens = BATCH * LENGTH
    per_token = 2.0 * (4 * WIDTH * WIDTH + 2 * WIDTH * INNER) + 4.0 * LENGTH * WIDTH
    return Case(calls, flops=3.0 * LAYERS * per_token * tokens)
