"""Models of transformers with qkv's attention beside the same with PyTorch's, and one head of a recording."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from machine import peer
from registry import Case, Skip, agree, faster_than, row

# Two layers each, as wide as the smallest model of that name (Llama: half of it).
BODIES: dict[str, tuple[str, dict[str, Any]]] = {
    "BERT": ("BertModel", {"num_hidden_layers": 2, "max_position_embeddings": 2048}),
    "GPT-2": ("GPT2Model", {"n_layer": 2, "n_positions": 2048, "use_cache": False}),
    "Llama": (
        "LlamaModel",
        {
            "num_hidden_layers": 2,
            "hidden_size": 1024,
            "intermediate_size": 4096,
            "num_attention_heads": 16,
            "num_key_value_heads": 4,
            "use_cache": False,
        },
    ),
}


def _model(name: str, attention: str) -> Any:
    torch = peer("PyTorch")
    if not torch:
        raise Skip("PyTorch is not installed")
    try:
        import transformers
    except ImportError as error:
        raise Skip("transformers is not installed") from error
    from qkv import pytorch

    pytorch.register()
    cls, options = BODIES[name]
    body = getattr(transformers, cls)
    torch.manual_seed(0)
    config = body.config_class(vocab_size=1000, bos_token_id=0, eos_token_id=0, pad_token_id=0, **options)
    return body._from_config(config, attn_implementation=attention).eval()


def _ids(length: int) -> Any:
    return peer("PyTorch").from_numpy(np.random.default_rng(0).integers(1, 1000, (1, length)))


def _case(name: str, length: int, backward: bool, threads: int) -> Case:
    models = {"qkv": _model(name, "qkv"), "PyTorch": _model(name, "sdpa")}
    torch, ids = peer("PyTorch"), _ids(length)

    def side(model: Any) -> Callable[[], Any]:
        def forward() -> Any:
            with torch.no_grad():
                return model(ids).last_hidden_state

        def both() -> Any:
            model.zero_grad()
            output = model(ids).last_hidden_state
            output.sum().backward()
            return output.detach()

        return both if backward else forward

    calls = {name: side(model) for name, model in models.items()}
    agree(calls["qkv"](), calls["PyTorch"]())
    return Case(calls)


for _name in BODIES:
    for _length, _goal in ((128, 1.0), (512, 1.0), (2048, 1.08)):
        for _backward in (False, True):
            row(
                f"{_name} of two layers, {_length} tokens{', with the backward pass' * _backward}",
                goals=[faster_than("PyTorch", _goal)],
                peers=["PyTorch"],
                full=_length == 2048,
            )(partial(_case, _name, _length, _backward))


@row("one head of a recorded model, 2,048 tokens", goals=[faster_than("PyTorch", 10.0)], peers=["PyTorch"])
def head(threads: int) -> Case:
    """Its weights from a recording beside a call with eager attention and ``output_attentions``."""
    fused, eager = _model("BERT", "qkv"), _model("BERT", "eager")
    torch, ids = peer("PyTorch"), _ids(2048)
    from qkv import pytorch

    with torch.no_grad(), pytorch.record(fused) as recording:
        fused(ids)

    def weights() -> Any:
        with torch.no_grad():
            return eager(ids, output_attentions=True).attentions[1][0, 3]

    calls = {"qkv": lambda: recording.layers()[1][0, 3], "PyTorch": weights}
    agree(calls["qkv"](), calls["PyTorch"]())
    return Case(calls)
