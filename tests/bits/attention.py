"""Computations: attention with its options and formulas, and its relatives."""

from __future__ import annotations

from typing import Any

import numpy as np

import qkv

from .record import BOTH, SINGLE, Hashes, draw

sdpa = qkv.scaled_dot_product_attention
_SHAPES = [
    (2, 3, 5, 7, 11),
    (2, 3, 12, 12, 20),
    (2, 4, 64, 64, 64),
    (1, 2, 300, 300, 64),
    (1, 2, 1, 500, 64),
    (1, 2, 3, 500, 80),
    (1, 2, 40, 700, 80),
    (1, 2, 129, 257, 32),
    (1, 1, 260, 260, 128),
    (2, 2, 33, 65, 16),
]
_USUAL = (2, 4, 129, 257, 32)


def inputs(b: int, heads: int, lq: int, lk: int, d: int, dv: int = 0, kv_heads: int = 0) -> list[np.ndarray]:
    """Queries, keys and values."""
    kv = kv_heads or heads
    return [draw(b, heads, lq, d), draw(b, kv, lk, d), draw(b, kv, lk, dv or d)]


def shapes(h: Hashes) -> None:
    """Plain attention of many shapes."""
    h.family = "attention"
    for shape in _SHAPES:
        given = inputs(*shape)
        h.function(f"{shape}", sdpa, *given)
        h.function(f"{shape} causal", lambda q, k, v: sdpa(q, k, v, is_causal=True), *given)
        h.function(
            f"{shape} weights and lse",
            lambda q, k, v: sdpa(q, k, v, return_weights=True, return_lse=True),
            *given,
            dtypes=SINGLE,
        )
    groups = {"enable_gqa": True}
    h.function(
        "groups",
        lambda q, k, v: sdpa(q, k, v, is_causal=True, **groups),
        *inputs(1, 8, 70, 90, 32, kv_heads=2),
    )
    h.function(
        "one query of groups", lambda q, k, v: sdpa(q, k, v, **groups), *inputs(1, 8, 1, 300, 64, kv_heads=2)
    )
    h.function("wide values", sdpa, *inputs(1, 2, 50, 90, 24, dv=200))
    q, k, _ = inputs(*_USUAL)
    for reduce in ("max", "mean"):
        h.add(
            f"image of {reduce}",
            lambda r=reduce: qkv.attention_image(q, k, size=(20, 31), reduce=r, is_causal=True),
        )

    def dropped() -> Any:
        qkv.manual_seed(3)
        return sdpa(*(x.astype("float32") for x in inputs(1, 2, 50, 90, 24)), dropout_p=0.3)

    h.add("dropout", dropped)


def options(h: Hashes) -> None:
    """Each option by itself."""
    h.family = "options"
    numbers = np.random.default_rng(5)
    mask = numbers.random((129, 257)) < 0.7
    mask[:, 0] = True
    bias = draw(129, 257)
    bias[~mask] = -np.inf
    lengths = np.array([100, 257])
    slopes = np.array([0.5, 0.25, 0.125, 0.0625])
    cases: dict[str, dict[str, Any]] = {
        "window": {"window": (20, 5)},
        "window behind": {"window": (40, 0)},
        "softcap": {"softcap": 5.0},
        "valid_lens": {"valid_lens": lengths},
        "mask": {"attn_mask": mask},
        "bias": {"attn_mask": bias},
        "alibi": {"alibi_slopes": slopes, "is_causal": True},
        "q_offset": {"q_offset": np.array([100, 128]), "is_causal": True},
        "sinks": {"sinks": np.array([0.1, 0.2, -0.3, 0.4])},
        "filled lengths": {"valid_lens": lengths, "masked_value": -1e6},
        "filled mask": {"attn_mask": mask, "masked_value": -3.0},
        "kept": {"dropout_keep": mask, "dropout_p": 0.3},
        "sigmoid": {"normalizer": "sigmoid"},
        "relu": {"normalizer": "relu", "is_causal": True},
        "sparsemax": {"normalizer": "sparsemax"},
        "entmax15": {"normalizer": "entmax15", "is_causal": True},
        "lower right": {"is_causal": "lower_right"},
        "scale": {"scale": 0.3},
    }
    for name, more in cases.items():
        given = inputs(*_USUAL)
        h.function(name, lambda q, k, v, more=more: sdpa(q, k, v, **_like(q, more)), *given)
        if name != "kept":
            h.function(
                f"{name} with weights",
                lambda q, k, v, more=more: sdpa(q, k, v, return_weights=True, **_like(q, more)),
                *given,
                dtypes=SINGLE,
            )


def _like(q: Any, more: dict[str, Any]) -> dict[str, Any]:
    """Floating options in the dtype of the queries."""
    return {
        name: x.astype(str(q.dtype)) if isinstance(x, np.ndarray) and x.dtype.kind == "f" else x
        for name, x in more.items()
    }


def formulas(h: Hashes) -> None:
    """Formulas of scores, with and without learned numbers."""
    h.family = "formulas"
    per_head = draw(4).astype("float32")
    for name, f in {
        "distance": lambda s, b, h, i, j: s - abs(i - j) * 0.1,
        "tanh": lambda s, b, h, i, j: 5 * qkv.tanh(s / 5),
        "scaled": lambda s, b, h, i, j: s * per_head[h] + 0.1,
        "exp": lambda s, b, h, i, j: qkv.exp(-s * s),
        "sigmoid and power": lambda s, b, h, i, j: qkv.sigmoid(s) + abs(s) ** 1.5,
    }.items():
        h.function(name, lambda q, k, v, f=f: sdpa(q, k, v, score_mod=f), *inputs(*_USUAL))
    h.function(
        "mask",
        lambda q, k, v: sdpa(q, k, v, mask_mod=lambda b, h, i, j: (i >= j) & (i - j < 50)),
        *inputs(*_USUAL),
    )
    for name, shape, make in (
        ("head", (4,), lambda t: lambda s, b, h, i, j: s * t[h]),
        ("query", (129,), lambda t: lambda s, b, h, i, j: s + t[i]),
        ("key", (257,), lambda t: lambda s, b, h, i, j: s + t[j]),
        ("diagonal", (400,), lambda t: lambda s, b, h, i, j: s + t[i - j + 256]),
        ("table", (33,), lambda t: lambda s, b, h, i, j: s + t[(i * 7 + j) % 33]),
        ("pairs", (129, 257), lambda t: lambda s, b, h, i, j: s + t[i, j]),
    ):
        for causal in (False, True):
            h.function(
                f"learned by {name}{' causal' if causal else ''}",
                lambda q, k, v, t, make=make, causal=causal: sdpa(
                    q, k, v, score_mod=make(t), is_causal=causal
                ),
                *(*inputs(*_USUAL), draw(*shape)),
                dtypes=SINGLE if causal else BOTH,
            )


def relatives(h: Hashes) -> None:
    """Additive and linear attention, kernels, rotations."""
    h.family = "additive"
    for q, k, n in ((5, 7, 8), (33, 65, 50), (1, 40, 100), (20, 30, 130)):
        h.function(
            f"{(q, k, n)}", qkv.additive_attention, draw(2, q, n), draw(2, k, n), draw(2, k, 9), draw(n)
        )
    h.function(
        "valid_lens",
        lambda q, k, v, w: qkv.additive_attention(
            q, k, v, w, valid_lens=np.array([3, 40]), return_weights=True
        ),
        *(draw(2, 9, 50), draw(2, 40, 50), draw(2, 40, 9), draw(50)),
    )
    h.family = "kernels"
    for kernel in ("gaussian", "boxcar", "constant", "epanechnikov", "triangular"):
        h.function(
            kernel,
            lambda q, k, v, kernel=kernel: qkv.kernel_attention(q, k, v, kernel, 1.3),
            *(draw(2, 37, 3), draw(2, 700, 3), draw(2, 700, 4)),
        )
        h.function(
            f"values of {kernel}", lambda u, kernel=kernel: qkv.kernel_values(u, kernel), draw(37, 101)
        )
    h.function(
        "own",
        lambda q, k, v: qkv.kernel_attention(q, k, v, lambda u: 1 / (1 + u * u), 1.3),
        *(draw(2, 37, 3), draw(2, 70, 3), draw(2, 70, 4)),
    )
    h.family = "linear attention"
    given = [draw(1, 2, 100, 16), draw(1, 2, 100, 16), draw(1, 2, 100, 24), draw(1, 2, 100, 16)]
    beta = np.abs(draw(1, 2, 100)) / 3
    for rule in ("linear", "gated", "delta", "gated_delta"):

        def linear(q: Any, k: Any, v: Any, g: Any, b: Any, rule: str = rule) -> Any:
            more = {"decay": -(g * g)} if "gated" in rule else {}
            more |= {"beta": b} if "delta" in rule else {}
            return qkv.linear_attention(qkv.normalize(q), qkv.normalize(k), v, update_rule=rule, **more)

        h.function(rule, linear, *given, beta)
    h.family = "positions"
    h.function(
        "rotary", lambda x: qkv.apply_rotary(x, *qkv.rotary_tables(np.arange(30), 16)), draw(2, 30, 16)
    )
    h.add("sinusoidal", lambda: qkv.sinusoidal_positions(700, 33))
    h.add("rotation of 5", lambda: qkv.relative_rotation(5, 32))
    h.add("slopes", lambda: [qkv.alibi_slopes(n) for n in (1, 8, 12)])
