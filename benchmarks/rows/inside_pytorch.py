"""Attention of qkv inside PyTorch beside PyTorch's own, on tensors as its models have them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from machine import peer
from registry import Case, Skip, agree, faster_than, row, time_over

Shape = tuple[int, int, int, int]  # B, H, L, D


def _case(shape: Shape, *, causal: bool, backward: bool, views: bool) -> Case:
    """Both sides on the same tensors; `views`: of ``(B, L, H, D)``, as projections give them."""
    torch = peer("PyTorch")
    if not torch:
        raise Skip("PyTorch is not installed")
    from qkv import pytorch

    b, h, length, d = shape
    generator = torch.Generator().manual_seed(0)

    def made() -> Any:
        x = torch.randn((b, length, h, d) if views else shape, generator=generator)
        return (x.transpose(1, 2) if views else x).requires_grad_(backward)

    tensors = made(), made(), made()
    gradient = torch.randn(shape, generator=generator)

    def side(attention: Callable[..., Any]) -> Callable[[], Any]:
        def forward() -> Any:
            with torch.no_grad():
                return attention(*tensors, is_causal=causal)

        def both() -> Any:
            return torch.autograd.grad(attention(*tensors, is_causal=causal), tensors, gradient)[0]

        return both if backward else forward

    calls = {
        "qkv": side(pytorch.scaled_dot_product_attention),
        "PyTorch": side(torch.nn.functional.scaled_dot_product_attention),
    }
    agree(calls["qkv"](), calls["PyTorch"]())
    return Case(calls)


# Shape, causal order, and how many times as fast as PyTorch's, forward alone and with the backward pass.
GOALS: list[tuple[Shape, bool, float, float]] = [
    ((1, 8, 1024, 64), False, 1.2, 1.2),
    ((1, 8, 1024, 64), True, 1.6, 1.6),
    ((8, 12, 128, 64), False, 1.2, 1.2),
]
for _shape, _causal, *_goals in GOALS:
    for _backward, _goal in zip((False, True), _goals, strict=True):
        for _views in (False, True):
            _name = (
                f"inside PyTorch, {_shape}{', causal' * _causal}{', with the backward pass' * _backward}"
                f"{', views of (B, L, H, D)' * _views}"
            )
            row(_name, goals=[faster_than("PyTorch", _goal)], peers=["PyTorch"])(
                lambda threads, shape=_shape, causal=_causal, backward=_backward, views=_views: _case(
                    shape, causal=causal, backward=backward, views=views
                )
            )
for _backward, _goal in ((False, 1.6), (True, 1.5)):
    row(
        f"inside PyTorch, (1, 2, 4, 4){', with the backward pass' * _backward}",
        goals=[time_over("qkv", "PyTorch", _goal)],
        peers=["PyTorch"],
    )(lambda threads, backward=_backward: _case((1, 2, 4, 4), causal=False, backward=backward, views=False))
