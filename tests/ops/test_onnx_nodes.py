"""The node tests of ONNX: attention, positions, caches, norms, GRU, softmax, GELU; what cannot be said is listed.

Those of LinearAttention are in ``test_linear_attention.py``.
"""

from __future__ import annotations

import importlib
from functools import cache

import numpy as np
import pytest

import qkv
from qkv import nn

pytest.importorskip("onnx")

# Cases that no call of qkv says, and why.
AFTER = (
    "linear_before_reset = 0 multiplies the state by the reset gate before its product with R; nn.GRU, as PyTorch's, "
    "multiplies the product"
)
UNSAID = {"test_gru_seq_length": AFTER, "test_gru_reverse": AFTER, "test_gru_bidirectional": AFTER}
# Outputs that qkv does not give: scores before the softmax are values inside (qkv.look), not results.
SCORES_MODES = (0, 1, 2)


@cache
def all_cases():
    """Return (operator, attributes, inputs, outputs) by name. Making ONNX's cases of all operators takes minutes."""
    import onnx

    cases = {}

    def expect(node, inputs, outputs, name, **_):
        attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        given = dict(zip([n for n in node.input if n], inputs, strict=True))
        expected = dict(zip([n for n in node.output if n], outputs, strict=True))
        cases[name] = (node.op_type, attributes, given, expected)

    for operator in OPERATORS:
        module = importlib.import_module(f"onnx.backend.test.case.node.{operator.lower()}")
        before, module.expect = module.expect, expect
        try:
            exporter = getattr(module, operator)
            for name in dir(exporter):
                if name.startswith("export"):
                    getattr(exporter, name)()
        finally:
            module.expect = before
    return cases


def heads_of(x, count):
    return x if x.ndim == 4 else np.moveaxis(x.reshape(*x.shape[:2], count, -1), 2, 1)


def attention(attributes, given):
    q_heads, kv_heads = attributes.get("q_num_heads"), attributes.get("kv_num_heads")
    query = heads_of(given["Q"], q_heads)
    key, value = (heads_of(given[name], kv_heads) for name in "KV")
    result = {}
    options = {"window": (attributes.get("left_window_size", -1), attributes.get("right_window_size", -1))}
    offset = 0
    if "past_key" in given:
        offset = given["past_key"].shape[2]
        key = np.concatenate([given["past_key"], key], axis=2)
        value = np.concatenate([given["past_value"], value], axis=2)
        result = {"present_key": key, "present_value": value}
    if "nonpad_kv_seqlen" in given:
        options["valid_lens"] = given["nonpad_kv_seqlen"]
        if attributes.get("is_causal") or options["window"] != (-1, -1):
            offset = given["nonpad_kv_seqlen"] - query.shape[2]
    mask = given.get("attn_mask")
    if mask is not None:
        short = key.shape[2] - mask.shape[-1]
        fill = False if mask.dtype == bool else -np.inf
        mask = np.pad(mask, [(0, 0)] * (mask.ndim - 1) + [(0, short)], constant_values=fill)
    y, weights = qkv.scaled_dot_product_attention(
        query,
        key,
        value,
        mask,
        is_causal=bool(attributes.get("is_causal", 0)),
        scale=attributes.get("scale") or None,
        enable_gqa=query.shape[1] != key.shape[1],
        softcap=attributes.get("softcap", 0.0),
        q_offset=offset,
        return_weights=True,
        **options,
    )
    if given["Q"].ndim == 3:
        y = np.moveaxis(y, 1, 2).reshape(*given["Q"].shape[:2], -1)
    if attributes.get("qk_matmul_output_mode") == 3:
        result["qk_matmul_output"] = weights
    return {"Y": y, **result}


def rotary(attributes, given):
    x, cos, sin = (given[name] for name in ("input", "cos_cache", "sin_cache"))
    if "position_ids" in given:
        cos, sin = cos[given["position_ids"]], sin[given["position_ids"]]
    heads = heads_of(x, attributes.get("num_heads"))
    width = attributes.get("rotary_embedding_dim") or heads.shape[-1]
    turned = qkv.apply_rotary(
        heads[..., :width], cos[:, None], sin[:, None], interleaved=bool(attributes.get("interleaved", 0))
    )
    y = np.concatenate([turned, heads[..., width:]], axis=-1)
    return {"output": y if x.ndim == 4 else np.moveaxis(y, 1, 2).reshape(x.shape)}


def scattered(attributes, given):
    cache, update = qkv.tensor(given["past_cache"]), given["update"]
    size, count = cache.shape[-2], update.shape[-2]
    for b, first in enumerate(given["write_indices"]):
        places = first + np.arange(count)
        if attributes.get("mode") == b"circular":
            places = places % size
        if cache.ndim == 4:
            cache[b, :, places] = np.moveaxis(update[b], 1, 0)
        else:
            cache[b, places] = update[b]
    return {"present_cache": cache.numpy()}


def normalized(attributes, given, kind):
    x = given["X"]
    axis = attributes.get("axis", -1) % x.ndim
    layer = kind(x.shape[axis:], attributes.get("epsilon", 1e-5))
    layer.weight.copy_(given["W"])
    if "B" in given:
        layer.bias.copy_(given["B"])
    found = {"Y": layer(x).numpy()}
    if "B" in given:
        axes = tuple(range(axis, x.ndim))
        variance = x.astype("float64").var(axis=axes, keepdims=True)
        found["Mean"] = qkv.tensor(x).mean(axis=axes, keepdims=True).numpy()
        found["InvStdDev"] = (1 / np.sqrt(variance + layer.eps)).astype(x.dtype)
    return found


def recurrent(attributes, given):
    x = given["X"] if attributes.get("layout") else np.moveaxis(given["X"], 0, 1)  # (B, T, input)
    size = attributes["hidden_size"]
    layer = nn.GRU(x.shape[2], size)
    order = np.concatenate([np.arange(size, 2 * size), np.arange(size), np.arange(2 * size, 3 * size)])
    bias = given.get("B", np.zeros((1, 6 * size), "float32"))[0]
    state = dict(layer.named_parameters())
    for name, values in {
        "weight_ih_l0": given["W"][0][order],
        "weight_hh_l0": given["R"][0][order],
        "bias_ih_l0": bias[: 3 * size][order],
        "bias_hh_l0": bias[3 * size :][order],
    }.items():
        state[name].copy_(values)
    rows = layer(x)[0].numpy()  # (B, T, size)
    last = rows[:, -1]
    if attributes.get("layout"):
        return {"Y": rows[:, :, None], "Y_h": last[:, None]}
    return {"Y": np.moveaxis(rows, 0, 1)[:, None], "Y_h": last[None]}


OPERATORS = {
    "Attention": attention,
    "RotaryEmbedding": rotary,
    "TensorScatter": scattered,
    "LayerNormalization": lambda a, g: normalized(a, g, nn.LayerNorm),
    "RMSNormalization": lambda a, g: normalized(a, g, nn.RMSNorm),
    "GRU": recurrent,
    "Softmax": lambda a, g: {"y": qkv.softmax(g["x"], axis=a.get("axis", -1))},
    "Gelu": lambda a, g: {"y": qkv.gelu(g["x"], a.get("approximate", b"none").decode())},
}
ROUNDING = {"float16": 4e-3, "bfloat16": 3e-2, "float32": 1e-5}


def test_there_are_as_many_cases_as_known():
    counts = dict.fromkeys(OPERATORS, 0)
    for kind, *_ in all_cases().values():
        counts[kind] += 1
    least = {"Attention": 80, "RotaryEmbedding": 8, "TensorScatter": 3, "LayerNormalization": 19,
             "RMSNormalization": 19, "GRU": 3, "Softmax": 7, "Gelu": 4}  # fmt: skip
    assert all(counts[kind] >= n for kind, n in least.items()), counts


@pytest.mark.parametrize("kind", OPERATORS)
def test_the_cases_of_onnx(kind):
    wrong = {}
    for name, (operator, attributes, given, expected) in all_cases().items():
        if operator != kind or name in UNSAID:
            continue
        found = OPERATORS[kind](attributes, given)
        for output, wanted in expected.items():
            if output == "qk_matmul_output" and attributes.get("qk_matmul_output_mode", 0) in SCORES_MODES:
                continue
            bound = ROUNDING.get(str(wanted.dtype), 1e-5)
            a, b = np.asarray(found[output], "float64"), np.asarray(wanted, "float64")
            if a.shape != b.shape or not np.allclose(a, b, rtol=bound, atol=bound):
                wrong[f"{name} {output}"] = (a.shape, b.shape) if a.shape != b.shape else np.abs(a - b).max()
    assert not wrong


def test_what_cannot_be_said_differs():
    for name in UNSAID:
        _, attributes, given, expected = all_cases()[name]
        assert attributes.get("linear_before_reset", 0) == 0
        found = recurrent({**attributes, "direction": b"forward"}, given)
        assert (
            found["Y_h"].shape != expected["Y_h"].shape or np.abs(found["Y_h"] - expected["Y_h"]).max() > 1e-3
        )
