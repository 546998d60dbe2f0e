"""Operations and layers whose items must not depend on their batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import qkv
from qkv import nn

BATCHES = (1, 2, 7, 64)
ITEMS = (0, 5, 63)  # the first, one inside, the last


@dataclass
class Case:
    """``make(dtype)`` gives a function of arrays (B, *shape) and, with ``most``, of lengths (B,) from 1 to ``most``."""

    make: Callable[[str], Callable[..., Any]]
    shapes: tuple[tuple[int, ...], ...]
    most: int = 0


def draw(rng: np.random.Generator, *shape: int, dtype: str) -> np.ndarray:
    return rng.standard_normal(shape).astype(dtype)


def function(f: Callable[..., Any], *shapes: tuple[int, ...], most: int = 0) -> Case:
    return Case(lambda dtype: f, shapes, most)


def layer(
    make: Callable[[], nn.Module],
    *shapes: tuple[int, ...],
    most: int = 0,
    call: Callable[..., Any] = lambda layer, *inputs: layer(*inputs),
) -> Case:
    def ready(dtype: str) -> Callable[..., Any]:
        qkv.manual_seed(1)
        module = make().to(dtype)
        return lambda *inputs: call(module, *inputs)

    return Case(ready, shapes, most)


def parameter(rows: int, columns: int) -> Callable[[str], qkv.Tensor]:
    """A weight that takes a gradient, of the right dtype."""
    numbers = np.random.default_rng(2).standard_normal((rows, columns))
    return lambda dtype: qkv.tensor(numbers.astype(dtype), requires_grad=True)


def times(rows: int, columns: int) -> Callable[[str], Callable[..., Any]]:
    weight = parameter(rows, columns)

    def make(dtype: str) -> Callable[..., Any]:
        w = weight(dtype)
        return lambda x: x @ w

    return make


def by_lengths(module: nn.Module, x: Any, lens: np.ndarray) -> Any:
    return module(x, valid_lens=lens)


def attention(**options: Any) -> Callable[..., Any]:
    def call(q: Any, k: Any, v: Any, lens: np.ndarray | None = None) -> Any:
        return qkv.scaled_dot_product_attention(q, k, v, valid_lens=lens, **options)

    return call


def encoder(**options: Any) -> Callable[[], nn.Module]:
    return lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(24, 4, 37, dropout=0.0, **options), 2)


def decoder() -> nn.Module:
    return nn.TransformerDecoder(nn.TransformerDecoderLayer(24, 4, 37, dropout=0.0), 2)


def decode(module: nn.Module, x: Any, memory: Any, lens: np.ndarray) -> Any:
    return module(x, memory, memory_valid_lens=lens, is_causal=True)


CASES: dict[str, Case] = {}
for L, M, N in ((1, 3, 5), (11, 37, 53), (3, 1031, 257), (67, 131, 17)):
    CASES[f"rows of a matrix {M} {N}"] = Case(times(M, N), ((M,),))
    CASES[f"matrices times a matrix {L} {M} {N}"] = Case(times(M, N), ((L, M),))
    CASES[f"matrices times matrices {L} {M} {N}"] = function(qkv.matmul, (L, M), (M, N))
    CASES[f"heads of matrices {L} {M} {N}"] = function(qkv.matmul, (3, L, M), (3, M, N))
    CASES[f"Linear {L} {M} {N}"] = layer(lambda M=M, N=N: nn.Linear(M, N), (L, M))
for activation in (nn.ReLU, nn.GELU, nn.Tanh):
    CASES[f"Linear and {activation.__name__}"] = layer(
        lambda a=activation: nn.Sequential(nn.Linear(37, 53), a()), (11, 37)
    )
for axis in (1, 2, (1, 2)):
    for name in ("sum", "mean", "max"):
        CASES[f"{name} over {axis}"] = function(lambda x, n=name, a=axis: getattr(x, n)(axis=a), (401, 97))
    CASES[f"logsumexp over {axis}"] = function(lambda x, a=axis: qkv.logsumexp(x, axis=a), (11, 37))
for axis in (1, 2):
    CASES[f"softmax over {axis}"] = function(lambda x, a=axis: qkv.softmax(x, axis=a), (11, 37))
    CASES[f"log_softmax over {axis}"] = function(lambda x, a=axis: qkv.log_softmax(x, axis=a), (11, 37))
CASES |= {
    "broadcast product": function(lambda x, y: x * y, (1, 37), (11, 37)),
    "gelu": function(qkv.gelu, (11, 37)),
    "LayerNorm": layer(lambda: nn.LayerNorm(37), (11, 37)),
    "LayerNorm of rows": layer(lambda: nn.LayerNorm(37), (37,)),
    "RMSNorm": layer(lambda: nn.RMSNorm(131), (3, 131)),
    "RMSNorm of rows": layer(lambda: nn.RMSNorm(131), (131,)),
    "AddNorm": layer(lambda: nn.AddNorm(37), (11, 37), (11, 37)),
    "one query": function(attention(), (2, 1, 5), (2, 7, 5), (2, 7, 5)),
    "few keys": function(attention(), (2, 3, 5), (2, 11, 5), (2, 11, 7)),
    "attention": function(attention(), (2, 67, 16), (2, 307, 16), (2, 307, 11), most=307),
    "causal attention": function(attention(is_causal=True), (2, 67, 16), (2, 67, 16), (2, 67, 16), most=67),
    "long attention": function(attention(), (1, 7, 8), (1, 1301, 8), (1, 1301, 8)),
    "grouped heads": function(attention(enable_gqa=True, is_causal=True), (6, 19, 5), (2, 19, 5), (2, 19, 5)),
    "kernel pooling": function(
        lambda q, k, v, lens: qkv.kernel_attention(q, k, v, valid_lens=lens),
        (67, 5),
        (71, 5),
        (71, 7),
        most=71,
    ),
    "BilinearAttention": layer(lambda: nn.BilinearAttention(24, 24), (11, 24), (71, 24), (71, 7), most=71),
    "DotProductAttention": layer(nn.DotProductAttention, (11, 24), (71, 24), (71, 7), most=71),
    "GRU": layer(
        lambda: nn.GRU(13, 17, 2), (11, 13), most=11, call=lambda m, x, lens: m(x, valid_lens=lens)[0]
    ),
    "wide GRU": layer(lambda: nn.GRU(13, 101), (5, 13), call=lambda m, x: m(x)[0]),
    "encoder, norm first, gelu": layer(
        encoder(norm_first=True, activation="gelu"), (11, 24), most=11, call=by_lengths
    ),
}
for L in (1, 11, 67):
    CASES[f"MultiHeadAttention {L}"] = layer(
        lambda: nn.MultiHeadAttention(24, 4), (L, 24), most=L, call=by_lengths
    )
    CASES[f"SelfAttention {L}"] = layer(lambda: nn.SelfAttention(24, 17), (L, 24), most=L, call=by_lengths)
    CASES[f"AdditiveAttention {L}"] = layer(
        lambda: nn.AdditiveAttention(19, query_size=24, key_size=13), (L, 24), (71, 13), (71, 7), most=71
    )
    CASES[f"encoder {L}"] = layer(encoder(), (L, 24), most=L, call=by_lengths)
    CASES[f"decoder {L}"] = layer(decoder, (L, 24), (31, 24), most=31, call=decode)


def differences(case: Case, dtype: str) -> list[str]:
    """What is not the same bits alone as in a batch: output and gradients of the inputs, recorded and not."""
    rng = np.random.default_rng(0)
    f = case.make(dtype)
    arrays = [draw(rng, 64, *shape, dtype=dtype) for shape in case.shapes]
    lens = [rng.integers(1, case.most + 1, 64)] if case.most else []

    def run(items: list[int], recorded: bool) -> dict[str, np.ndarray]:
        inputs = [qkv.tensor(a[items], requires_grad=recorded) for a in arrays]
        if not recorded:
            with qkv.no_grad():
                return {"output": f(*inputs, *(n[items] for n in lens)).numpy()}
        y = f(*inputs, *(n[items] for n in lens))
        slopes = np.cos(np.arange(y[0].size, dtype=dtype)).reshape(y.shape[1:])
        y.backward(np.broadcast_to(slopes, y.shape).copy())
        return {"output": y.numpy(), **{f"gradient {i}": t.grad.numpy() for i, t in enumerate(inputs)}}

    found = []
    alone = {item: run([item], True) for item in ITEMS}
    for size in BATCHES:
        for item in ITEMS:
            begin = min(max(item - size // 2, 0), 64 - size)
            for recorded in (True, False):
                batch = run(list(range(begin, begin + size)), recorded)
                found += [
                    f"{what} of item {item} in a batch of {size}, {'' if recorded else 'not '}recorded"
                    for what, numbers in batch.items()
                    if numbers[item - begin].tobytes() != alone[item][what][0].tobytes()
                ]
    return found


def main() -> None:
    """Print the level and the switch, and what differs."""
    print(qkv.config()["instruction_set"], "reproducible" if qkv.get_reproducible() else "not reproducible")
    for case_name, case in CASES.items():
        for line in differences(case, "float32"):
            print(f"{case_name}: {line}")
