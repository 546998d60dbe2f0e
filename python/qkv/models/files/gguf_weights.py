"""Models in GGUF files, by the package gguf."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .gguf_reader import GgufFile
from .gguf_rotary import rope_scaling

# The architectures of GGUF that are read, with Hugging Face's classes, and whether rotary pairs are neighbours there.
ARCHITECTURES = {
    "llama": ("LlamaForCausalLM", True),
    "qwen2": ("Qwen2ForCausalLM", False),
    "qwen3": ("Qwen3ForCausalLM", False),
}
ENTRIES = {
    "context_length": "max_position_embeddings",
    "block_count": "num_hidden_layers",
    "feed_forward_length": "intermediate_size",
    "embedding_length": "hidden_size",
    "rope.freq_base": "rope_theta",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.key_length": "head_dim",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps",
    "attention.sliding_window": "sliding_window",
}
FREQUENCIES = "rope_freqs.weight"  # no parameter: what they are divided by
OUTSIDE = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
INSIDE = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


class GgufWeights:
    """The tensors of a GGUF file under Hugging Face's names, which become floats when they are read."""

    def __init__(self, file: GgufFile, heads: Mapping[str, int], neighbours: bool) -> None:
        self.path, self._file, self._heads, self._neighbours = file.path, file, heads, neighbours
        self._names = {_named(file.path, name): name for name in file.tensors if name != FREQUENCIES}
        self.shapes = {ours: file.tensors[theirs].shape for ours, theirs in self._names.items()}

    def read(self, names: Mapping[str, str]) -> Iterator[tuple[str, np.ndarray]]:
        """Read the tensors under `names` (the model's name to the file's), one at a time."""
        return ((own, self._array(name)) for own, name in names.items())

    def _array(self, name: str) -> np.ndarray:
        array = self._file.numbers(self._names[name])
        kind = name.rpartition(".")[0].rpartition(".")[2]
        if self._neighbours and kind in self._heads:  # pairs (2 i, 2 i + 1) of a head become (i, i + D / 2)
            pairs = array.reshape(self._heads[kind], -1, 2, *array.shape[1:])
            array = pairs.swapaxes(1, 2).reshape(array.shape)
        return array


def _named(path: Path, name: str) -> str:
    parts = name.split(".")
    if parts[0] == "blk" and len(parts) == 4 and parts[2] in INSIDE:
        return f"model.layers.{parts[1]}.{INSIDE[parts[2]]}.{parts[3]}"
    if len(parts) == 2 and parts[0] in OUTSIDE:
        return f"{OUTSIDE[parts[0]]}.{parts[1]}"
    raise ValueError(f"{path}: must hold tensors of {', '.join(ARCHITECTURES)} alone; got {name[:100]!r}")


def read_gguf(path: Path) -> tuple[dict[str, Any], GgufWeights]:
    """Return the entries of a configuration and the weights that a GGUF file holds."""
    file = GgufFile(path)
    [kind] = file.said("general.architecture")
    if kind not in ARCHITECTURES:
        raise ValueError(
            f"{path}: general.architecture must be one of {', '.join(ARCHITECTURES)}; got {str(kind)[:100]!r}"
        )
    class_name, neighbours = ARCHITECTURES[kind]
    entries: dict[str, Any] = {"model_type": kind, "architectures": [class_name]}
    for theirs, ours in ENTRIES.items():
        [value] = file.said(f"{kind}.{theirs}")
        if value is not None:
            entries[ours] = value
    for name in ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size"):
        if not isinstance(entries.get(name), int) or entries[name] < 1:
            raise ValueError(f"{path}: must say {name}, a whole number above 0; got {entries.get(name)!r}")
    heads = entries["num_attention_heads"]
    key_heads = entries.setdefault("num_key_value_heads", heads)
    weights = GgufWeights(file, {"q_proj": heads, "k_proj": key_heads}, neighbours)
    width = entries.get("head_dim") or entries["hidden_size"] // heads

    def fact(name: str) -> Any:
        return file.said(f"{kind}.{name}")[0]

    if fact("rope.dimension_count") not in (None, width):
        raise ValueError(
            f"{path}: rope.dimension_count must be {width}, the width of a head; got {fact('rope.dimension_count')}"
        )
    factors = file.numbers(FREQUENCIES).astype(np.float64) if FREQUENCIES in file.tensors else None
    try:
        scaling = rope_scaling(path, fact, factors)
    except TypeError as error:
        raise ValueError(f"{path}: rope.scaling must be numbers and a type's name; {error}") from None
    if scaling is not None:
        entries["rope_scaling"] = scaling
    entries["vocab_size"] = weights.shapes.get("model.embed_tokens.weight", (0,))[0]
    entries["tie_word_embeddings"] = "lm_head.weight" not in weights.shapes
    entries["bos_token_id"], entries["pad_token_id"] = special_id(file, "bos"), special_id(file, "padding")
    ends = [special_id(file, kind) for kind in ("eos", "eot", "eom")]  # of a text, a turn, a message
    entries["eos_token_id"] = [end for end in dict.fromkeys(ends) if end is not None] or None
    return entries, weights


def special_id(file: GgufFile, kind: str) -> int | None:
    """Return the id of a special token that a file names, or None."""
    [number] = file.said(f"tokenizer.ggml.{kind}_token_id")
    if number is not None and (type(number) is not int or number < 0):
        raise ValueError(
            f"{file.path}: tokenizer.ggml.{kind}_token_id must be a whole number, 0 or more; got {number!r:.100}"
        )
    return number
