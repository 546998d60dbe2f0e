"""The pieces of work whose times make up a job's, each a call or two of qkv at some sizes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

import qkv

Call = Callable[[], object]
HEADS = 4  # of a piece of attention; its time is that of one head
FEATURES = 256  # per row of elementwise pieces
CLASSES = 1024


class Piece(NamedTuple):
    """What is timed: `make(*sizes)` gives the call; beyond the largest sizes its time grows with these powers."""

    make: Callable[..., Call]
    sizes: Sequence[Sequence[int]]
    growth: Sequence[float]
    share: int = 1  # the call does the piece so many times


def _recorded(*shape: int) -> Any:
    return qkv.tensor(qkv.randn(*shape), requires_grad=True)


def _both(function: Callable[..., Any], *leaves: Any) -> Call:
    """Give a call of a function and of its gradients."""
    dy = qkv.randn(*function(*leaves).shape)

    def call() -> None:
        for leaf in leaves:
            leaf.grad = None
        function(*leaves).backward(dy)

    return call


def _alone(layer: Any, x: Any) -> Call:
    """Give a call of a layer without gradients."""
    layer.eval()

    def call() -> None:
        with qkv.no_grad():
            layer(x)

    return call


def _linear(rows: int, width: int) -> Call:
    layer, x = qkv.nn.Linear(width, width, bias=False), _recorded(rows, width)
    return lambda: layer(x)


def _linear_both(rows: int, width: int) -> Call:
    layer, x = qkv.nn.Linear(width, width, bias=False), _recorded(rows, width)
    return _both(lambda x, weight: layer(x), x, layer.weight)


def _linear_alone(rows: int, width: int) -> Call:
    return _alone(qkv.nn.Linear(width, width), qkv.randn(rows, width))


def _block(length: int, width: int) -> Call:
    x = qkv.randn(1, HEADS, length, width)
    return lambda: qkv._core.attention_block(x, x, x, {})


def _block_backward(length: int, width: int) -> Call:
    x = qkv.randn(1, HEADS, length, width)
    out, statistics = qkv._core.attention_block(x, x, x, {})
    return lambda: qkv._core.attention_block_backward(x, None, out, statistics, x, x, x, {})


def _causal(length: int, width: int) -> Call:
    q, k, v = (_recorded(1, HEADS, length, width) for _ in range(3))
    return lambda: qkv.scaled_dot_product_attention(q, k, v, is_causal=True)


def _causal_both(length: int, width: int) -> Call:
    leaves = [_recorded(1, HEADS, length, width) for _ in range(3)]
    return _both(lambda q, k, v: qkv.scaled_dot_product_attention(q, k, v, is_causal=True), *leaves)


def _norm(numbers: int) -> Call:
    layer, x = qkv.nn.RMSNorm(FEATURES), _recorded(numbers // FEATURES, FEATURES)
    return _both(layer, x)


def _norm_alone(numbers: int) -> Call:
    return _alone(qkv.nn.LayerNorm(FEATURES), qkv.randn(numbers // FEATURES, FEATURES))


def _gelu(numbers: int) -> Call:
    return _both(qkv.gelu, _recorded(numbers))


def _gelu_alone(numbers: int) -> Call:
    x = qkv.randn(numbers)
    return lambda: qkv.gelu(x)


def _add(numbers: int) -> Call:
    return _both(lambda a, b: a + b, _recorded(numbers), _recorded(numbers))


def _rotary(numbers: int) -> Call:
    length, width = max(1, numbers // 64), 64
    cos, sin = qkv.rotary_tables(np.arange(length), width)
    return _both(lambda x: qkv.apply_rotary(x, cos, sin), _recorded(1, length, width))


def _loss(numbers: int) -> Call:
    rows = max(1, numbers // CLASSES)
    targets = np.arange(rows) % CLASSES
    return _both(
        lambda logits: qkv.losses.cross_entropy(logits, targets, reduction="sum"), _recorded(rows, CLASSES)
    )


def _adam(numbers: int) -> Call:
    parameter = qkv.nn.Parameter(qkv.randn(numbers))
    optimizer = qkv.optim.AdamW([parameter])
    parameter.grad = qkv.randn(numbers)
    return lambda: optimizer.step()


def _copy(size: int) -> Call:
    source = np.ones(max(1, size // 4), "float32")
    target = np.empty_like(source)
    return lambda: np.copyto(target, source)


def _digest(size: int) -> Call:
    content = bytes(size)
    return lambda: hashlib.blake2b(content, digest_size=8).digest()


ROWS, WIDTHS = (16, 128, 1024), (64, 256, 1024)
LENGTHS, HEAD_WIDTHS = (32, 128, 512, 2048), (32, 64)
NUMBERS = (1 << 13, 1 << 17, 1 << 21)

PIECES: dict[str, Piece] = {
    "linear": Piece(_linear, (ROWS, WIDTHS), (1, 2)),  # rows, width: forward, recorded
    "linear_both": Piece(_linear_both, (ROWS, WIDTHS), (1, 2)),  # and backward
    "linear_alone": Piece(_linear_alone, (ROWS, WIDTHS), (1, 2)),  # without gradients, the weight packed once
    "block": Piece(_block, (LENGTHS, HEAD_WIDTHS), (2, 1), HEADS),  # queries = keys, features: all scores
    "block_backward": Piece(_block_backward, (LENGTHS, HEAD_WIDTHS), (2, 1), HEADS),
    "causal": Piece(_causal, (LENGTHS, HEAD_WIDTHS), (2, 1), HEADS),
    "causal_both": Piece(_causal_both, (LENGTHS, HEAD_WIDTHS), (2, 1), HEADS),
    "norm_both": Piece(_norm, (NUMBERS,), (1,)),  # of so many numbers
    "norm_alone": Piece(_norm_alone, (NUMBERS,), (1,)),
    "gelu_both": Piece(_gelu, (NUMBERS,), (1,)),
    "gelu_alone": Piece(_gelu_alone, (NUMBERS,), (1,)),
    "add_both": Piece(_add, (NUMBERS,), (1,)),
    "rotary_both": Piece(_rotary, (NUMBERS,), (1,)),
    "loss_both": Piece(_loss, (NUMBERS,), (1,)),
    "adam": Piece(_adam, (NUMBERS,), (1,)),
    "copy": Piece(_copy, ((1 << 14, 1 << 18, 1 << 22, 1 << 25),), (1,)),  # bytes
    "digest": Piece(_digest, ((1 << 14, 1 << 22),), (1,)),  # bytes, of a model's files
}
