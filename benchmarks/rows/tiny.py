"""Calls so small that everything around the arithmetic counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from machine import peer
from registry import Case, agree, faster_than, normal, row

import qkv

B, H, L, D = 2, 5, 4, 20


def softmax(scores: np.ndarray) -> np.ndarray:
    e = np.exp(scores - scores.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


@row(
    "scaled dot-product (2, 5, 4, 20), Tensors",
    goals=[faster_than("PyTorch", 4.0)],
    peers=["PyTorch"],
    quick=True,
)
def tensors(threads: int) -> Case:
    arrays = [normal(B, H, L, D, seed=i) for i in range(3)]
    ours = [qkv.tensor(x) for x in arrays]
    calls: dict[str, Callable[[], Any]] = {"qkv": lambda: qkv.scaled_dot_product_attention(*ours)}
    if torch := peer("PyTorch"):
        attention, theirs = (
            torch.nn.functional.scaled_dot_product_attention,
            [torch.from_numpy(x) for x in arrays],
        )

        def run() -> Any:
            with torch.inference_mode():
                return attention(*theirs)

        calls["PyTorch"] = run
        agree(calls["qkv"](), run())
    return Case(calls)


@row(
    "scaled dot-product (2, 5, 4, 20), NumPy arrays",
    goals=[faster_than("NumPy", 2.0)],
    peers=["NumPy"],
    quick=True,
)
def arrays_in_and_out(threads: int) -> Case:
    q, k, v = (normal(B, H, L, D, seed=i) for i in range(3))

    def plain() -> np.ndarray:
        y: np.ndarray = softmax(q @ k.swapaxes(-1, -2) / np.float32(D**0.5)) @ v
        return y

    def ours() -> Any:
        return qkv.scaled_dot_product_attention(q, k, v)

    agree(ours(), plain())
    return Case({"qkv": ours, "NumPy": plain})


@row(
    "MultiHeadAttention (2, 4, 100), 5 heads",
    goals=[faster_than("PyTorch", 4.0)],
    peers=["PyTorch"],
    quick=True,
)
def layer(threads: int) -> Case:
    x = normal(2, 4, 100)
    own, tensor = qkv.nn.MultiHeadAttention(100, 5).eval(), qkv.tensor(x)

    def ours() -> Any:
        with qkv.no_grad():
            return own(tensor, tensor, tensor)

    calls: dict[str, Callable[[], Any]] = {"qkv": ours}
    if torch := peer("PyTorch"):
        theirs, their_x = torch.nn.MultiheadAttention(100, 5, batch_first=True).eval(), torch.from_numpy(x)
        own.load_state_dict({name: p.detach().numpy() for name, p in theirs.state_dict().items()})

        def run() -> Any:
            with torch.inference_mode():
                return theirs(their_x, their_x, their_x, need_weights=False)[0]

        calls["PyTorch"] = run
        agree(ours(), run())
    return Case(calls)


@row("additive attention (2, 1, 10, 8)", goals=[faster_than("PyTorch", 4.0)], peers=["PyTorch"])
def additive(threads: int) -> Case:
    q, k, v, w = normal(2, 1, 8), normal(2, 10, 8, seed=1), normal(2, 10, 4, seed=2), normal(8, seed=3)
    ours = [qkv.tensor(x) for x in (q, k, v, w)]
    calls: dict[str, Callable[[], Any]] = {"qkv": lambda: qkv.additive_attention(*ours)}
    if torch := peer("PyTorch"):
        tq, tk, tv, tw = (torch.from_numpy(x) for x in (q, k, v, w))

        def run() -> Any:
            with torch.inference_mode():
                return torch.softmax(torch.tanh(tq[:, :, None] + tk[:, None]) @ tw, -1) @ tv

        calls["PyTorch"] = run
        agree(calls["qkv"](), run())
    return Case(calls)
