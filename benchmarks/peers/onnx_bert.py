"""BERT as an ONNX graph of ONNX Runtime's fused operations.

The graph is the one that `onnxruntime.transformers.optimizer` makes of an exported model: EmbedLayerNormalization, and
per layer Attention, SkipLayerNormalization, BiasGelu, SkipLayerNormalization. The other form has three products and
MultiHeadAttention, whose CPU kernel works in blocks, in place of Attention; which is faster depends on the length.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from . import onnx_export

FORMS = ("Attention", "MultiHeadAttention")
Weights = dict[str, np.ndarray]


def session(weights: Weights, heads: int, eps: float, form: str, threads: int, folder: Path) -> Any:
    """Return a session of the graph, which is written where there is none."""
    path = folder / f"bert_{form}.onnx"
    if not path.exists():
        path.write_bytes(build(weights, heads, eps, form))
    return onnx_export.session(path, threads)


def call(
    weights: Weights, heads: int, eps: float, form: str, threads: int, folder: Path
) -> Callable[[Any], Any]:
    run = session(weights, heads, eps, form, threads, folder).run
    return lambda ids: run(None, {"ids": ids})[0]


def build(weights: Weights, heads: int, eps: float, form: str) -> bytes:
    """Return the bytes of the model; weights by Hugging Face's names, without the prefix "bert."."""
    from onnx import TensorProto, helper, numpy_helper

    nodes: list[Any] = []
    held: dict[str, Any] = {}

    def constant(name: str, value: np.ndarray) -> str:
        held[name] = numpy_helper.from_array(np.ascontiguousarray(value), name)
        return name

    def node(kind: str, inputs: list[str], output: str, **attributes: Any) -> str:
        domain = "" if kind == "MatMul" else "com.microsoft"
        outputs = [output, output + "_mask"] if kind == "EmbedLayerNormalization" else [output]
        nodes.append(helper.make_node(kind, inputs, outputs, output, domain=domain, **attributes))
        return output

    def own(name: str) -> str:
        return constant(name, weights[name])

    def product(x: str, layer: str) -> str:
        name = layer + ".weight"
        return node("MatMul", [x, constant(name, weights[name].T)], layer)

    def norm(x: str, residual: str, bias: str, layer: str) -> str:
        inputs = [x, residual, own(layer + ".weight"), own(layer + ".bias"), own(bias)]
        return node("SkipLayerNormalization", inputs, layer, epsilon=eps)

    e = "embeddings."
    tables = [own(f"{e}{kind}_embeddings.weight") for kind in ("word", "position", "token_type")]
    inputs = ["ids", "segments", *tables, own(e + "LayerNorm.weight"), own(e + "LayerNorm.bias")]
    nodes.append(helper.make_node("Sub", ["ids", "ids"], ["segments"]))
    x = node("EmbedLayerNormalization", inputs, "embedded", epsilon=eps)
    layers = 1 + max(int(name.split(".")[2]) for name in weights if name.startswith("encoder.layer."))
    for i in range(layers):
        p = f"encoder.layer.{i}."
        parts = [f"{p}attention.self.{name}" for name in ("query", "key", "value")]
        bias = constant(p + "bias", np.concatenate([weights[part + ".bias"] for part in parts]))
        if form == "Attention":
            joined = constant(
                p + "joined", np.concatenate([weights[part + ".weight"].T for part in parts], axis=1)
            )
            y = node("Attention", [x, joined, bias], p + "y", num_heads=heads)
        else:
            y = node(
                "MultiHeadAttention", [*(product(x, part) for part in parts), bias], p + "y", num_heads=heads
            )
        dense = p + "attention.output.dense"
        x = norm(product(y, dense), x, dense + ".bias", p + "attention.output.LayerNorm")
        inner = p + "intermediate.dense"
        h = node("BiasGelu", [product(x, inner), own(inner + ".bias")], p + "inner")
        outer = p + "output.dense"
        x = norm(product(h, outer), x, outer + ".bias", p + "output.LayerNorm")
    width = weights[e + "word_embeddings.weight"].shape[1]
    graph = helper.make_graph(
        nodes,
        "bert",
        [helper.make_tensor_value_info("ids", TensorProto.INT32, ["batch", "length"])],
        [helper.make_tensor_value_info(x, TensorProto.FLOAT, ["batch", "length", width])],
        list(held.values()),
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    made: bytes = helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()
    return made
