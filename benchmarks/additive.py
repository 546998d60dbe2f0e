"""Additive attention against PyTorch's composed version: ``python benchmarks/additive.py [repeats]``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from common import interleave, machine, table

import qkv

SHAPES = [(8, 128, 128, 256), (32, 10, 10, 256), (1, 512, 512, 128), (64, 1, 100, 64)]  # B, Lq, Lk, M


def composed(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    scores = torch.tanh(q[:, :, None] + k[:, None]) @ w
    return torch.softmax(scores, -1) @ v


def pairs(shape: tuple[int, ...]) -> tuple[dict[str, Callable[[], Any]], dict[str, Callable[[], Any]]]:
    """Forward passes and forward-backward passes of both, on the same numbers."""
    batch, lq, lk, width = shape
    rng = np.random.default_rng(0)
    arrays = [
        rng.normal(size=s).astype("float32")
        for s in ((batch, lq, width), (batch, lk, width), (batch, lk, width), (width,))
    ]
    arrays[3] /= width**0.5
    theirs = [torch.tensor(x, requires_grad=True) for x in arrays]
    plain = [x.detach() for x in theirs]
    ours = [qkv.tensor(x, requires_grad=True) for x in arrays]
    np.testing.assert_allclose(qkv.additive_attention(*arrays), composed(*plain).numpy(), 1e-4, 1e-5)

    def train_torch() -> None:
        composed(*theirs).sum().backward()

    def train_qkv() -> None:
        qkv.additive_attention(*ours).sum().backward()

    return (
        {"PyTorch": lambda: composed(*plain), "qkv": lambda: qkv.additive_attention(*arrays)},
        {"PyTorch": train_torch, "qkv": train_qkv},
    )


def main() -> None:
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 11
    print("# Additive attention, float32\n")
    print(machine() + "\n")
    rows = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        qkv.set_num_threads(threads)
        for shape in SHAPES:
            for name, functions in zip(("forward", "forward + backward"), pairs(shape), strict=True):
                times = interleave(functions, repeats)
                ratio = times["PyTorch"].median / times["qkv"].median
                rows.append([shape, name, threads, times["PyTorch"], times["qkv"], f"{ratio:.1f}"])
    print(table(["(B, Lq, Lk, M)", "pass", "threads", "PyTorch ms", "qkv ms", "times faster"], rows))
    print("\nMedian and quartiles of", repeats, "interleaved calls.")


if __name__ == "__main__":
    main()
