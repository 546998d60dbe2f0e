"""Models in GGUF files, by the package gguf."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .gguf_entries import EACH_LAYER, ENTRIES, SAMPLING, SIZES, check_head
from .gguf_reader import GgufFile
from .gguf_rotary import rope_scaling

# The architectures of GGUF that are read, with Hugging Face's classes, and whether rotary pairs are neighbours there.
ARCHITECTURES = {
    "llama": ("LlamaForCausalLM", True),
    "qwen2": ("Qwen2ForCausalLM", False),
    "qwen3": ("Qwen3ForCausalLM", False),
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

    told = "the head of the file"

    def __init__(self, file: GgufFile, heads: Mapping[str, int], neighbours: bool) -> None:
        self.path, self._file, self._heads, self._neighbours = file.path, file, heads, neighbours
        self._names = {_named(file.path, name): name for name in file.tensors if name != FREQUENCIES}
        self.shapes = {ours: file.tensors[theirs].shape for ours, theirs in self._names.items()}

    def shown(self, name: str) -> str:
        """Return the file's own name of a tensor, or of what it begins with."""
        for theirs, ours in OUTSIDE.items():
            name = name.replace(f"{ours}.", f"{theirs}.")
        for theirs, ours in INSIDE.items():
            name = name.replace(f".{ours}.", f".{theirs}.")
        return name.replace("model.layers.", "blk.")

    def add_biases(self, layers: int, modules: Mapping[str, int]) -> bool:
        """Let all of these modules have biases, zeros where the file has none, if it has one of them."""
        names = {f"model.layers.{i}.{m}.bias": size for i in range(layers) for m, size in modules.items()}
        if not self.shapes.keys() & names.keys():
            return False
        self.shapes |= {name: (size,) for name, size in names.items() if name not in self.shapes}
        return True

    def read(self, names: Mapping[str, str]) -> Iterator[tuple[str, np.ndarray]]:
        """Read the tensors under `names` (the model's name to the file's), one at a time."""
        return ((own, self._array(name)) for own, name in names.items())

    def _array(self, name: str) -> np.ndarray:
        if name not in self._names:
            return np.zeros(self.shapes[name], np.float32)
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
    check_head(path, file.facts, kind)

    def fact(name: str) -> Any:
        return file.said(f"{kind}.{name}")[0]

    entries: dict[str, Any] = {"model_type": kind, "architectures": [class_name]}
    for theirs, ours in ENTRIES.items():
        value = fact(theirs)
        if isinstance(value, list) and theirs in EACH_LAYER and value:
            if len({*value}) > 1 or len(value) != fact("block_count"):
                raise ValueError(
                    f"{path}: {kind}.{theirs} must be one number for all layers because qkv has no other; got "
                    f"{str(value)[:100]}"
                )
            value = value[0]
        if value is not None:
            entries[ours] = value
    for theirs in SIZES:
        size = entries.get(ENTRIES[theirs])
        if not isinstance(size, int) or size < 1:
            raise ValueError(f"{path}: must say {kind}.{theirs}, a whole number above 0; got {size!r:.100}")
    heads = entries["num_attention_heads"]
    key_heads = entries.setdefault("num_key_value_heads", heads)
    weights = GgufWeights(file, {"q_proj": heads, "k_proj": key_heads}, neighbours)
    width = entries.get("head_dim") or entries["hidden_size"] // heads
    for name in ("rope.dimension_count", "attention.value_length"):
        if fact(name) not in (None, width):
            raise ValueError(f"{path}: {name} must be {width}, the width of a head; got {fact(name)}")
    if kind != "qwen2" and isinstance(key_heads, int) and isinstance(width, int):
        attention = {
            "q": heads * width,
            "k": key_heads * width,
            "v": key_heads * width,
            "o": entries["hidden_size"],
        }
        parts = {f"self_attn.{x}_proj": size for x, size in attention.items()}
        entries["attention_bias"] = weights.add_biases(entries["num_hidden_layers"], parts)
    if kind == "llama":
        inner = entries["intermediate_size"]
        parts = {"mlp.gate_proj": inner, "mlp.up_proj": inner, "mlp.down_proj": entries["hidden_size"]}
        entries["mlp_bias"] = weights.add_biases(entries["num_hidden_layers"], parts)
    if kind == "llama" and entries.pop("sliding_window", 0):
        raise ValueError(
            f"{path}: llama.attention.sliding_window must be 0; got {fact('attention.sliding_window')}"
        )
    for name, theirs in SAMPLING.items():
        entries |= {} if theirs not in file.facts else {name: file.facts[theirs]}
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
