"""Models of real sizes with random weights, of transformers on PyTorch and of qkv, from one folder each."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
from machine import peer

import qkv

from . import onnx_bert, onnx_export
from .minilm import fastest, scratch, silence

# The sizes of the published models; what is left out is their default in transformers.
SIZES: dict[str, tuple[str, dict[str, Any]]] = {
    "BERT base": ("BertModel", {}),
    "GPT-2": ("GPT2LMHeadModel", {}),
    "SmolLM2 135M": (
        "LlamaForCausalLM",
        {"vocab_size": 49152, "hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30,
         "num_attention_heads": 9, "num_key_value_heads": 3, "tie_word_embeddings": True},
    ),
    "T5 small": ("T5ForConditionalGeneration", {"decoder_start_token_id": 0}),
}  # fmt: skip


@cache
def models(name: str) -> tuple[Any, Any]:
    """Return transformers' model and qkv's."""
    silence()
    warnings.filterwarnings(
        "ignore", "`past_key_values` is deprecated", FutureWarning
    )  # newer ones call it cache
    import torch
    import transformers

    kind, sizes = SIZES[name]
    torch.manual_seed(0)
    made = getattr(transformers, kind)
    theirs = made(made.config_class(**sizes)).eval()
    folder = scratch() / name.replace(" ", "_")
    theirs.save_pretrained(folder)
    return theirs, qkv.models.from_pretrained(folder)


def tokens(batch: int, length: int) -> np.ndarray:
    return np.random.default_rng(0).integers(5, 30000, (batch, length))


def quiet(call: Callable[[], Any]) -> Callable[[], Any]:
    """Return qkv's call without gradients and records, as transformers' is made."""

    def run() -> Any:
        with qkv.no_grad(), qkv.no_attention_record():
            return call()

    return run


@cache
def onnx_calls(name: str, threads: int) -> list[Callable[[Any], Any]]:
    """Return both forms of BERT's fused graph."""
    theirs, _ = models(name)
    weights = {
        key: value.numpy() for key, value in theirs.state_dict().items() if not key.startswith("pooler.")
    }
    folder = scratch() / name.replace(" ", "_")
    heads, eps = theirs.config.num_attention_heads, theirs.config.layer_norm_eps
    return [onnx_bert.call(weights, heads, eps, form, threads, folder) for form in onnx_bert.FORMS]


@cache
def onnx_exported(name: str, step: bool, threads: int) -> Callable[..., np.ndarray]:
    """Return the call of the graph that PyTorch exports."""
    file = f"{name.replace(' ', '_')}{'_step' if step else ''}.onnx"
    return onnx_export.call(models(name)[0], step, threads, scratch() / file)


def exports() -> bool:
    """Say whether graphs can be made and run."""
    found = [name for name in ("onnx", "onnxscript") if importlib.util.find_spec(name) is None]
    if peer("ONNX Runtime") and found:
        print(f"  without ONNX Runtime: torch.onnx.export needs {' and '.join(found)} (pip install)")
    return bool(peer("ONNX Runtime")) and not found


@cache
def compiled(name: str) -> Any:
    """Return transformers' model in torch.compile, which compiles for each shape."""
    import torch

    return torch.compile(models(name)[0], dynamic=False)


def whole(
    name: str, batch: int, length: int, threads: int, compile_it: bool = False
) -> dict[str, Callable[[], Any]]:
    """Return the calls on whole sequences."""
    import torch

    theirs, ours = models(name)
    if compile_it:
        theirs = compiled(name)
    ids = tokens(batch, length)
    given = torch.from_numpy(ids)
    if name.startswith("T5"):
        more, start = {"decoder_input_ids": given[:, :8]}, (ids[:, :8],)
    else:
        more, start = {"use_cache": False} if name != "BERT base" else {}, ()

    def torch_call() -> Any:
        with torch.inference_mode():
            return theirs(given, **more)[0].numpy()

    def own_call() -> Any:
        y = ours(ids, *start)
        return y.last_hidden_state if name == "BERT base" else y

    calls = {"qkv": quiet(own_call), "PyTorch": torch_call}
    if name == "BERT base" and peer("ONNX Runtime"):
        narrow = ids.astype(np.int32)
        calls["ONNX Runtime"] = partial(fastest(onnx_calls(name, threads), narrow), narrow)
    elif name != "BERT base" and exports():
        calls["ONNX Runtime"] = partial(onnx_exported(name, False, threads), ids, *start)
    return calls


class Steps:
    """One token after the other, from `length` tokens on; `begin` fills the caches. The graph's does not grow."""

    def __init__(self, name: str, length: int, threads: int) -> None:
        self.theirs, self.ours = models(name)
        self.ids, self.token = tokens(1, length), tokens(1, 1)
        self.caches: list[Any] = []
        self.past: Any = None
        self.graph = onnx_exported(name, True, threads) if exports() else None
        self.held: list[np.ndarray] = []

    def begin(self) -> None:
        import torch
        import transformers

        self.caches = [qkv.nn.KVCache() for _ in self.ours.body.layers]
        self.past = transformers.DynamicCache()
        quiet(lambda: self.ours(self.ids, cache=self.caches))()
        with torch.inference_mode():
            self.theirs(torch.from_numpy(self.ids), past_key_values=self.past)
        self.held = [x.numpy().copy() for layer in self.past.layers for x in (layer.keys, layer.values)]

    def own(self) -> Any:
        return quiet(lambda: self.ours(self.token, cache=self.caches))()

    def torch(self) -> Any:
        import torch

        with torch.inference_mode():
            return self.theirs(torch.from_numpy(self.token), past_key_values=self.past)[0].numpy()

    def onnx(self) -> Any:
        assert self.graph is not None
        return self.graph(self.token, *self.held)
