"""What the options of attention cost: time over that of the plain call, per product that is really needed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from registry import Case, cost, normal, over_fill, row

import qkv

B, H, L, D = 1, 8, 1024, 64
LENGTHS = np.linspace(L // 8, L, H).astype(np.int64)  # ragged: 8 items of one head
WINDOW = (128, 128)

Options = dict[str, Any]
Inputs = list[np.ndarray]


def plain_inputs() -> Inputs:
    return [normal(B, H, L, D, seed=i) for i in range(3)]


def boolean_mask() -> tuple[Inputs, Options, float]:
    """A tenth of the pairs is excluded at random, so every block of products is needed."""
    return plain_inputs(), {"attn_mask": np.random.default_rng(3).random((L, L)) < 0.9}, 1.0


def full_bias() -> tuple[Inputs, Options, float]:
    return plain_inputs(), {"attn_mask": normal(B, H, L, L, seed=3)}, 1.0


def shared_bias() -> tuple[Inputs, Options, float]:
    return plain_inputs(), {"attn_mask": normal(1, 1, L, L, seed=3)}, 1.0


def ragged() -> tuple[Inputs, Options, float]:
    arrays = [normal(H, B, L, D, seed=i) for i in range(3)]
    return arrays, {"valid_lens": LENGTHS}, float(LENGTHS.mean() / L)


def window() -> tuple[Inputs, Options, float]:
    i = np.arange(L)
    seen = np.minimum(i + WINDOW[1], L - 1) - np.maximum(i - WINDOW[0], 0) + 1
    return plain_inputs(), {"window": WINDOW}, float(seen.sum()) / L**2


def alibi() -> tuple[Inputs, Options, float]:
    return plain_inputs(), {"alibi_slopes": qkv.alibi_slopes(H)}, 1.0


def grouped() -> tuple[Inputs, Options, float]:
    q, k, v = plain_inputs()
    return [q, k[:, :2].copy(), v[:, :2].copy()], {"enable_gqa": True}, 1.0


def wider_values() -> tuple[Inputs, Options, float]:
    q, k, _ = plain_inputs()
    return [q, k, normal(B, H, L, 96, seed=2)], {}, (D + 96) / (2 * D)


def softcap() -> tuple[Inputs, Options, float]:
    return plain_inputs(), {"softcap": 20.0}, 1.0


def dropout() -> tuple[Inputs, Options, float]:
    return plain_inputs(), {"dropout_p": 0.1}, 1.0


def lse() -> tuple[Inputs, Options, float]:
    return plain_inputs(), {"return_lse": True}, 1.0


def call(arrays: Inputs, options: Options, backward: bool) -> Callable[[], Any]:
    tensors = [qkv.tensor(x, requires_grad=backward) for x in arrays]
    kept = {
        name: qkv.tensor(x) if isinstance(x, np.ndarray) and x.dtype.kind == "f" else x
        for name, x in options.items()
    }
    queries, values = arrays[0], arrays[2]
    gradient = qkv.tensor(normal(*queries.shape[:3], values.shape[3], seed=9))

    def run() -> Any:
        y = qkv.scaled_dot_product_attention(*tensors, **kept)
        if backward:
            (y[0] if isinstance(y, tuple) else y).backward(gradient)
        return y

    return run


def compare(make: Callable[[], tuple[Inputs, Options, float]], backward: bool, threads: int) -> Case:
    arrays, options, work = make()
    plain = plain_inputs()
    calls = {"qkv": call(arrays, options, backward), "plain": call(plain, {}, backward)}
    products = (14.0 if backward else 4.0) * B * H * L * L * D
    extra = sum(x.nbytes for x in options.values() if isinstance(x, np.ndarray))
    moved = sum(x.nbytes for x in arrays) + arrays[0].nbytes
    return Case(calls, flops=products * work, bytes=float((3 if backward else 1) * moved + extra), work=work)


def weights(threads: int) -> Case:
    arrays = plain_inputs()

    def fill() -> np.ndarray:
        return np.full((B, H, L, L), 1.0, np.float32)

    calls = {
        "qkv": call(arrays, {"return_weights": True}, False),
        "plain": call(arrays, {}, False),
        "fill": fill,
    }
    return Case(calls, flops=4.0 * B * H * L * L * D, bytes=4.0 * arrays[0].nbytes + 4.0 * B * H * L * L)


_LIMITS: list[tuple[str, Callable[[], tuple[Inputs, Options, float]], float]] = [
    ("boolean mask (L, L)", boolean_mask, 1.15),
    ("float bias (B, H, L, L)", full_bias, 1.15),
    ("float bias (1, 1, L, L)", shared_bias, 1.15),
    ("valid_lens, ragged", ragged, 1.15),
    (f"window {WINDOW}", window, 1.15),
    ("ALiBi", alibi, 1.15),
    ("GQA, 2 key heads", grouped, 1.15),
    ("value size 96", wider_values, 1.15),
    ("softcap", softcap, 1.25),
    ("dropout 0.1", dropout, 1.25),
]

for _backward in (False, True):
    _pass = "forward + backward" if _backward else "forward"
    for _name, _make, _limit in _LIMITS:
        row(
            f"{_name}, {_pass}",
            goals=[cost(_limit)],
            quick=_name == "boolean mask (L, L)" and not _backward,
        )(partial(compare, _make, _backward))
row("lse asked for", goals=[cost(1.15)])(partial(compare, lse, False))
row("weights asked for", goals=[over_fill(1.35)])(weights)
