"""What looking inside costs: a model's call with and without a recording, and weights of any length as a picture."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from registry import Case, normal, row, time_over

import qkv
from qkv import look

KEPT = {"nothing": (), "weights": ("weights",), "everything": ("*",)}


def encoder() -> tuple[qkv.nn.TransformerEncoder, np.ndarray]:
    """Six layers as wide as MiniLM's, over 512 tokens."""
    layer = qkv.nn.TransformerEncoderLayer(384, 12, 1536, activation="gelu")
    return qkv.nn.TransformerEncoder(layer, 6).eval(), normal(1, 512, 384)


def recording(keep: tuple[str, ...], threads: int) -> Case:
    model, x = encoder()

    def recorded() -> Any:
        with qkv.no_grad():
            return look.record(model, x, keep=keep).output

    def plain() -> Any:
        with qkv.no_grad():
            return model(x)

    np.testing.assert_array_equal(np.asarray(recorded()), np.asarray(plain()))
    return Case({"qkv": recorded, "plain": plain})


for name, keep in KEPT.items():
    limit = {"nothing": 1.02, "weights": 1.05, "everything": 1.5}[name]
    row(f"a recording of {name}, 6 layers, 512 tokens", goals=[time_over("qkv", "plain", limit)])(
        partial(recording, keep)
    )


@row("measures of 72 heads, 512 tokens", goals=[time_over("qkv", "plain", 2.0)])
def measures(threads: int) -> Case:
    model, x = encoder()

    def measured() -> Any:
        with qkv.no_grad():
            return look.measures(model, x)

    def plain() -> Any:
        with qkv.no_grad():
            return model(x)

    return Case({"qkv": measured, "plain": plain})


SMOLLM2: dict[str, Any] = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 49152, "hidden_size": 576,
    "intermediate_size": 1536, "num_hidden_layers": 30, "num_attention_heads": 9, "num_key_value_heads": 3,
    "tie_word_embeddings": True,
}  # fmt: skip


def writing(length: int, threads: int) -> Case:
    model = qkv.models.from_config(SMOLLM2).eval()
    prompt = np.random.default_rng(0).integers(5, 30000, (1, length))
    options: dict[str, Any] = {"max_new_tokens": 32, "method": "greedy", "end_id": []}
    assert look.generate(model, prompt, **options).output == model.generate(prompt, **options)
    return Case(
        {
            "qkv": partial(look.generate, model, prompt, **options),
            "plain": partial(model.generate, prompt, **options),
        }
    )


for length in (64, 512):
    row(
        f"a text that is recorded while it is written, SmolLM2's sizes, 32 tokens after {length}",
        goals=[time_over("qkv", "plain", 1.1)],
    )(partial(writing, length))


def picture(length: int, reduce: str, threads: int) -> Case:
    q, k, v = (normal(1, 1, length, 64, seed=i) for i in range(3))
    calls: dict[str, Callable[[], Any]] = {
        "qkv": partial(qkv.attention_image, q, k, size=(512, 512), reduce=reduce, is_causal=True),
        "plain": partial(qkv.scaled_dot_product_attention, q, k, v, is_causal=True),
    }
    return Case(calls)


for length in (2048, 16384):
    for reduce in ("max", "mean"):
        row(
            f"weights as a picture, {reduce}, causal, L = {length}",
            goals=[time_over("qkv", "plain", 1.5)],
            quick=length == 2048,
        )(partial(picture, length, reduce))


@row("weights as a picture, max, causal, L = 100000", goals=[time_over("qkv", "plain", 1.5)], full=True)
def longest(threads: int) -> Case:
    return picture(100_000, "max", threads)
