"""Fused attention against a bare matrix product, PyTorch and JAX."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from machine import peer
from registry import Case, agree, by_level, normal, of_sgemm, row

import qkv

Shape = tuple[int, int, int, int]  # B, H, L, D

# Shares of sgemm to reach. Causal attention is judged by the half of the products that it needs.
FORWARD: dict[Shape, float] = {
    (1, 8, 2048, 64): 0.90,
    (1, 8, 1024, 64): 0.90,
    (1, 4, 4096, 128): by_level(avx2=0.92, avx512=0.95),
    (1, 12, 512, 64): 0.90,
    (8, 8, 128, 64): by_level(avx2=0.82, avx512=0.80),
    (2, 8, 64, 64): by_level(avx2=0.82, avx512=0.75),
}
CAUSAL: dict[Shape, float] = {(1, 8, 1024, 64): 0.86, (1, 8, 2048, 64): 0.86}
BACKWARD: dict[Shape, float | None] = {(1, 8, 1024, 64): 0.85, (1, 8, 2048, 64): None, (8, 8, 128, 64): None}


def inputs(shape: Shape) -> list[np.ndarray]:
    return [normal(*shape, seed=i) for i in range(3)]


def forward(shape: Shape, causal: bool, threads: int) -> Case:
    arrays = inputs(shape)
    batch, heads, length, size = shape
    tensors = [qkv.tensor(x) for x in arrays]

    def ours() -> Any:
        return qkv.scaled_dot_product_attention(*tensors, is_causal=causal)

    calls: dict[str, Callable[[], Any]] = {"qkv": ours}
    if torch := peer("PyTorch"):
        attention = torch.nn.functional.scaled_dot_product_attention
        theirs = [torch.from_numpy(x) for x in arrays]
        calls["PyTorch"] = lambda: attention(*theirs, is_causal=causal)
        agree(ours(), calls["PyTorch"]())
    if jax := peer("JAX"):
        function = jax.jit(partial(jax.nn.dot_product_attention, is_causal=causal))
        turned = [jax.numpy.asarray(x.transpose(0, 2, 1, 3)) for x in arrays]  # it wants (B, L, H, D)
        calls["JAX"] = lambda: function(*turned).block_until_ready()
        agree(ours(), np.asarray(calls["JAX"]()).transpose(0, 2, 1, 3))
    products = batch * heads * length * (length / 2 if causal else length)
    return Case(calls, flops=4.0 * products * size, bytes=4.0 * arrays[0].nbytes)


def backward(shape: Shape, causal: bool, threads: int) -> Case:
    arrays = inputs(shape)
    batch, heads, length, size = shape
    tensors = [qkv.tensor(x, requires_grad=True) for x in arrays]
    gradient = normal(*shape, seed=3)
    ours_gradient = qkv.tensor(gradient)

    def ours() -> Any:
        y = qkv.scaled_dot_product_attention(*tensors, is_causal=causal)
        y.backward(ours_gradient)
        return y

    calls: dict[str, Callable[[], Any]] = {"qkv": ours}
    if torch := peer("PyTorch"):
        attention = torch.nn.functional.scaled_dot_product_attention
        theirs = [torch.tensor(x, requires_grad=True) for x in arrays]
        their_gradient = torch.from_numpy(gradient)

        def run() -> Any:
            y = attention(*theirs, is_causal=causal)
            y.backward(their_gradient)
            return y

        calls["PyTorch"] = run
        agree(ours(), run())
        for x, their_x in zip(tensors, theirs, strict=True):
            agree(x.grad, their_x.grad)
    products = batch * heads * length * (length / 2 if causal else length)
    return Case(calls, flops=14.0 * products * size, bytes=12.0 * arrays[0].nbytes)


for _shape, _share in FORWARD.items():
    row(
        f"attention {_shape}",
        goals=[of_sgemm(_share)],
        peers=["PyTorch", "JAX"],
        quick=_shape in ((1, 8, 1024, 64), (2, 8, 64, 64)),
    )(partial(forward, _shape, False))
for _shape, _share in CAUSAL.items():
    row(f"attention causal {_shape}", goals=[of_sgemm(_share)], peers=["PyTorch", "JAX"])(
        partial(forward, _shape, True)
    )
for _shape, _goal in BACKWARD.items():
    row(
        f"attention forward + backward {_shape}",
        goals=[of_sgemm(_goal)],
        peers=["PyTorch"],
        quick=_shape == (1, 8, 1024, 64),
    )(partial(backward, _shape, False))
row("attention causal forward + backward (1, 8, 1024, 64)", goals=[of_sgemm(None)], peers=["PyTorch"])(
    partial(backward, (1, 8, 1024, 64), True)
)
