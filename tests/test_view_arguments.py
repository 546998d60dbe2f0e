"""Each array argument as a view of a Tensor: a step, a transpose, an expanded one; with a gradient and without."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from helpers import close
from operation_registry import ELEMENTWISE, FUSED, LAYOUT
from second_checks import normal
from sweep import sweep

import qkv
from qkv import nn

B, H, LQ, LK, D, DV, M = 2, 4, 3, 5, 7, 11, 12
q, k, v = normal(B, H, LQ, D), normal(B, H, LK, D), normal(B, H, LK, DV)
mask, allowed = normal(B, H, LQ, LK), normal(B, H, LQ, LK) > -1
lens, each_len = np.array([LK, 2]), np.array([[1, 5, 2], [3, 2, 4]])
numbers = {"query": q, "key": k, "value": v}
heads = {"alibi_slopes": np.abs(normal(H)), "sinks": normal(H)}


def attend(**options: Any) -> Callable[..., Any]:
    return lambda **given: qkv.scaled_dot_product_attention(**given, **options)


ATTENTION: dict[str, tuple[Callable[..., Any], dict[str, np.ndarray]]] = {
    "mask": (attend(), {**numbers, "attn_mask": mask}),
    "mask, weights": (attend(return_weights=True, return_lse=True), {**numbers, "attn_mask": mask}),
    "mask, cap": (attend(softcap=2.0, is_causal=True, scale=0.3), {**numbers, "attn_mask": mask}),
    "mask, filled": (attend(masked_value=-3.0, window=(1, 2)), {**numbers, "attn_mask": mask}),
    "mask, formula": (
        attend(score_mod=lambda s, b, h, i, j: s * 2 + i - j),
        {**numbers, "attn_mask": mask, "valid_lens": lens},
    ),
    "mask of floats of half the width": (attend(), {**numbers, "attn_mask": mask.astype("float32")}),
    "mask of rows": (attend(), {**numbers, "attn_mask": mask[0, 0], "valid_lens": each_len}),
    "mask of keys": (attend(), {**numbers, "attn_mask": mask[:, :1, :1]}),
    "mask of queries": (attend(), {**numbers, "attn_mask": mask[:, :1, :, :1]}),
    "mask, rank 3": (attend(), {"query": q[0], "key": k[0], "value": v[0], "attn_mask": mask[0]}),
    "mask, rank 2": (attend(), {"query": q[0, 0], "key": k[0, 0], "value": v[0, 0], "attn_mask": mask[0, 0]}),
    "boolean": (attend(return_weights=True), {**numbers, "attn_mask": allowed, **heads}),
    "positions": (attend(is_causal=True), {**numbers, **heads, "q_offset": np.array([1, 2])}),
    "dropout": (attend(dropout_p=0.5), {**numbers, "dropout_keep": allowed, "attn_mask": mask}),
    **{
        f"mask, {name}": (attend(normalizer=name, return_weights=True), {**numbers, "attn_mask": mask})
        for name in ("sigmoid", "relu", "sparsemax", "entmax15")
    },
    "masked_softmax": (lambda **given: qkv.masked_softmax(**given), {"scores": mask, "mask": mask[0] * 2}),
    "additive": (
        lambda **given: qkv.additive_attention(**given),
        {
            "queries": normal(B, LQ, M),
            "keys": normal(B, LK, M),
            "values": normal(B, LK, DV),
            "score_weight": normal(M),
            "attn_mask": mask[:, 0],
            "valid_lens": each_len,
        },
    ),
    "image": (
        lambda **given: qkv.attention_image(**given, size=(2, 3)),
        {"query": q, "key": k, "attn_mask": mask},
    ),
    "ragged": (
        lambda **given: qkv.scaled_dot_product_attention(**given),
        {
            "query": normal(LK, H, D),
            "key": normal(LK, H, D),
            "value": normal(LK, H, D),
            "cu_seqlens_q": np.array([0, 2, 5]),
            "cu_seqlens_k": np.array([0, 2, 5]),
        },
    ),
    "rotary": (
        lambda **given: qkv.apply_rotary(**given),
        {"x": q[..., :6], "cos": normal(LQ, 3), "sin": normal(LQ, 3)},
    ),
    "kernel": (
        lambda **given: qkv.kernel_attention(**given),
        {"queries": q[:, 0], "keys": k[:, 0], "values": v[:, 0], "valid_lens": lens},
    ),
}


def of_layer(make: Callable[[], Any], **options: Any) -> Callable[..., Any]:
    def call(*inputs: Any, **given: Any) -> Any:
        qkv.manual_seed(3)
        return make().to("float64").eval()(*inputs, **given, **options)

    return call


x, memory = normal(B, LK, M), normal(B, 3, M)
masks = {"attn_mask": normal(B, 1, LK, LK), "valid_lens": np.array([[4, 2, 5, 3, 1], [1, 2, 3, 4, 5]])}
three = {"queries": x, "keys": x + 1, "values": x - 1, **masks}
LAYERS = {
    "MultiHeadAttention": (of_layer(lambda: nn.MultiHeadAttention(M, H)), three),
    "with a number of options": (
        of_layer(lambda: nn.MultiHeadAttention(M, 2, alibi=True, sinks=True, rotary_base=100.0)),
        three,
    ),
    "SelfAttention": (
        of_layer(lambda: nn.SelfAttention(M, D)),
        {"x": x, "attn_mask": masks["attn_mask"][:, 0]},
    ),
    "DotProductAttention": (
        of_layer(nn.DotProductAttention),
        {**three, "attn_mask": masks["attn_mask"][:, 0]},
    ),
    "AdditiveAttention": (
        of_layer(lambda: nn.AdditiveAttention(D, query_size=M, key_size=M)),
        {**three, "attn_mask": masks["attn_mask"][:, 0]},
    ),
    "encoder layer": (of_layer(lambda: nn.TransformerEncoderLayer(M, H, 17)), {"src": x, **masks}),
    "encoder": (
        of_layer(lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(M, H, 17), 2)),
        {"src": x, **masks},
    ),
    "decoder layer": (
        of_layer(lambda: nn.TransformerDecoderLayer(M, H, 17)),
        {
            "tgt": x,
            "memory": memory,
            "attn_mask": masks["attn_mask"],
            "memory_attn_mask": normal(B, 1, LK, 3),
        },
    ),
    "LinearAttention": (of_layer(lambda: nn.LinearAttention(M, H)), {"x": x}),
    "GRU": (of_layer(lambda: nn.GRU(M, D)), {"x": x, "state": normal(1, B, D), "valid_lens": lens}),
    "Embedding": (of_layer(lambda: nn.Embedding(9, M)), {"ids": np.arange(6).reshape(2, 3)}),
}
NAMED = {**ATTENTION, **LAYERS}


def by_position(f: Callable[..., Any]) -> Callable[..., Any]:
    return lambda **given: f(*map(qkv.tensor, given.values()))


REGISTERED = {
    name: (by_position(f), {f"argument {i}": np.asarray(a) for i, a in enumerate(arrays)})
    for name, (f, *arrays) in {**ELEMENTWISE, **LAYOUT, **FUSED}.items()
}


def results(y: Any) -> list[np.ndarray]:
    return [r for part in y for r in results(part)] if isinstance(y, tuple | list) else [np.array(y)]


def total(y: Any) -> Any:
    """A number that depends on all numbers that record."""
    parts = [y] if isinstance(y, qkv.Tensor) else [p for p in y if isinstance(p, qkv.Tensor)]
    return sum((p * np.cos(np.arange(float(np.prod(p.shape)))).reshape(p.shape)).sum() for p in parts)


def views(array: np.ndarray, expanded: bool) -> Iterator[tuple[np.ndarray, Callable[[Any], Any]]]:
    """Numbers in memory, and a view of them in the shape of the array."""
    if array.ndim == 0:
        return
    yield np.repeat(array, 2, axis=-1), lambda t: t[..., ::2]
    yield np.concatenate([array, array], -1), lambda t: t[..., : array.shape[-1]]
    yield np.ascontiguousarray(array.T), lambda t: t.T
    yield np.ascontiguousarray(array[::-1]), lambda t: t[::-1]
    for axis in range(array.ndim) if expanded else ():
        yield array.take([0], axis), lambda t: t.broadcast_to(array.shape)


def gradient_of(call: Callable[..., Any], arrays: dict[str, Any], leaf: Any) -> np.ndarray | None:
    y = total(call(**arrays))
    if y.requires_grad:
        y.backward()
    found, leaf.grad = leaf.grad, None
    return None if found is None else np.array(found)


def check(call: Callable[..., Any], arrays: dict[str, np.ndarray], name: str) -> None:
    array = arrays[name]
    dtype = "float32" if array.dtype == np.float32 else "float64"
    floats = [n for n, a in arrays.items() if a.dtype.kind == "f"]
    for base, show in views(array, not name.startswith("cu_seqlens")):  # which rise
        shown = show(qkv.tensor(base))
        plain = {**arrays, name: np.array(shown)}
        expected = results(call(**plain))
        with qkv.no_grad():
            for a, b in zip(results(call(**{**plain, name: shown})), expected, strict=True):
                close(a, b, dtype)
        for other in [n for n in floats if n != name][:1]:  # that records, the view does not
            leaf = qkv.tensor(arrays[other], requires_grad=True)
            found, wanted = (
                gradient_of(call, {**plain, name: value, other: leaf}, leaf)
                for value in (shown, qkv.tensor(np.array(shown)))
            )
            close(found, wanted, dtype) if wanted is not None else None
        if name in floats:
            leaf, whole = (qkv.tensor(x, requires_grad=True) for x in (np.array(shown), base))
            wanted = gradient_of(call, {**plain, name: leaf}, leaf)
            found = gradient_of(call, {**plain, name: show(whole)}, whole)
            assert (found is None) == (wanted is None)
            if wanted is not None:
                again = qkv.tensor(base, requires_grad=True)
                (show(again) * wanted).sum().backward()
                close(found, again.grad, dtype)


@sweep("case, name", [(case, name) for case in NAMED for name in NAMED[case][1]])
def test_a_view_of_a_tensor_is_taken_as_its_numbers(case, name):
    check(*NAMED[case], name)


@sweep("case", REGISTERED)
def test_registered_operations_take_views(case):
    call, arrays = REGISTERED[case]
    for name in arrays:
        check(call, arrays, name)
