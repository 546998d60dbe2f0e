"""Models of transformers as ONNX graphs that torch.onnx.export makes, and sessions of ONNX Runtime that compute them.

Operator set 23 keeps attention, rotary positions and RMS norms whole, for which ONNX Runtime has kernels. T5 adds its
distances to the scores, which PyTorch exports as products and a softmax. Batch and lengths are free in each graph; that
of a step takes keys and values of the tokens so far and gives the scores alone, so that nothing is copied out.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

OPSET = 23


def call(model: Any, step: bool, threads: int, path: Path) -> Callable[..., np.ndarray]:
    """Return a call with the arguments of the graph, as arrays."""
    if not path.exists():
        export(model, step, path)
    made = session(path, threads)
    names = [given.name for given in made.get_inputs()]
    first = [made.get_outputs()[0].name]
    return lambda *arrays: made.run(first, dict(zip(names, arrays, strict=True)))[0]


def session(path: Path, threads: int) -> Any:
    """Return a session with its defaults: its workers spin after a call, and `machine.settle` waits for their end."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def export(model: Any, step: bool, path: Path) -> None:
    import torch
    import transformers

    class Whole(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, ids: Any, more: Any = None) -> Any:
            if more is not None:
                return self.model(ids, decoder_input_ids=more, use_cache=False)[0]
            # Said for each item: ONNX Runtime's rotary kernel takes no tables of one item for all.
            places = torch.arange(ids.shape[1]).expand(ids.shape)
            return self.model(ids, use_cache=False, position_ids=places)[0]

    class Step(Whole):
        def forward(self, ids: Any, past: Any) -> Any:  # type: ignore[override]
            cache = transformers.DynamicCache(list(zip(past[::2], past[1::2], strict=True)))
            return self.model(ids, past_key_values=cache, use_cache=True)[0]

    batch, length = torch.export.Dim("batch"), torch.export.Dim("length", max=4096)
    ids = torch.arange(5, 19).reshape(2, 7)
    free: Any = {0: batch, 1: length}
    config, usual = model.config, model.config._attn_implementation
    if step:
        heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
        width = config.hidden_size // config.num_attention_heads
        past = [torch.zeros(1, heads, 9, width) for _ in range(2 * config.num_hidden_layers)]
        arguments, shapes = (ids[:1, :1], past), ({}, [{2: length}] * len(past))
    elif config.is_encoder_decoder:
        model.set_attn_implementation("eager")  # the other one's views cannot be exported
        arguments, shapes = (ids, ids[:, :5]), (free, {0: batch, 1: torch.export.Dim("rows")})
    else:
        arguments, shapes = (ids,), (free,)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            (Step if step else Whole)().eval(), arguments, path, dynamo=True, opset_version=OPSET,
            dynamic_shapes=shapes, external_data=True, verbose=False,
        )  # fmt: skip
    model.set_attn_implementation(usual)
