"""flex_attention on tensors of PyTorch: beside PyTorch's own, compiled; and what a trained formula costs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from machine import peer
from registry import Case, Skip, agree, faster_than, row, time_over

Shape = tuple[int, int, int, int]  # B, H, L, D
SHAPES: list[Shape] = [(1, 8, 1024, 64), (8, 12, 128, 64)]


def _inputs(shape: Shape, backward: bool) -> tuple[Any, list[Any], Any, Callable[..., Any]]:
    torch = peer("PyTorch")
    if not torch:
        raise Skip("PyTorch is not installed")
    generator = torch.Generator().manual_seed(0)
    x = [torch.randn(shape, generator=generator).requires_grad_(backward) for _ in range(3)]
    slopes = torch.rand(shape[1], generator=generator).requires_grad_(backward)
    return torch, x, slopes, lambda s, b, h, q, k: s - slopes[h] * (q - k).abs()


def compiled(shape: Shape) -> Case:
    torch, x, _, alibi = _inputs(shape, False)
    from torch.nn.attention.flex_attention import flex_attention

    from qkv import pytorch

    of_pytorch = torch.compile(flex_attention)
    try:
        of_pytorch(*x, alibi)
    except Exception as error:
        raise Skip(f"PyTorch compiles nothing here: {type(error).__name__}") from error
    calls = {"qkv": lambda: pytorch.flex_attention(*x, alibi), "PyTorch": lambda: of_pytorch(*x, alibi)}
    agree(calls["qkv"](), calls["PyTorch"]())
    return Case(calls)


def trained(shape: Shape) -> Case:
    torch, x, slopes, alibi = _inputs(shape, True)
    from qkv import pytorch

    gradient = torch.ones(shape)
    return Case(
        {
            "qkv": lambda: torch.autograd.grad(pytorch.flex_attention(*x, alibi), [*x, slopes], gradient),
            "plain": lambda: torch.autograd.grad(pytorch.scaled_dot_product_attention(*x), x, gradient),
        }
    )


for _shape in SHAPES:
    row(f"flex_attention, ALiBi, {_shape}", goals=[faster_than("PyTorch", 1.5)], peers=["PyTorch"])(
        lambda threads, shape=_shape: compiled(shape)
    )
    row(
        f"flex_attention, trained ALiBi, {_shape}, with the backward pass",
        goals=[time_over("qkv", "plain", 1.1)],
        peers=["PyTorch"],
    )(lambda threads, shape=_shape: trained(shape))
