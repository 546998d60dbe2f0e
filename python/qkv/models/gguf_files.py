"""Models and vocabularies in GGUF files, by the package gguf."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

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


def opened(path: Path) -> Any:
    """Read what a file says of itself and where its tensors are; their numbers stay on the disk."""
    try:
        import gguf
    except ImportError as error:
        raise ImportError(
            "qkv.models: GGUF files need the package gguf; install it: pip install 'qkv[gguf]'"
        ) from error
    if not path.is_file():
        raise FileNotFoundError(f"{path}: this file must exist; there is none")
    with path.open("rb") as file:
        if file.read(4) != b"GGUF":
            raise ValueError(f"{path}: must be a GGUF file; it does not begin with GGUF")
    try:
        return gguf.GGUFReader(path)
    except Exception as error:  # of any kind, for a file that is cut or lies about its sizes
        raise ValueError(f"{path}: must be a whole GGUF file; {type(error).__name__}: {error}") from None


def facts_of(reader: Any, *names: str) -> list[Any]:
    """Give values of a file's head, None for those that it lacks."""
    return [None if (field := reader.fields.get(name)) is None else field.contents() for name in names]


class GgufWeights:
    """The tensors of a GGUF file under Hugging Face's names, made floats of when they are read."""

    def __init__(self, path: Path, reader: Any, heads: Mapping[str, int], neighbours: bool) -> None:
        self.path, self._heads, self._neighbours = path, heads, neighbours
        self._tensors = {
            _named(path, tensor.name): tensor for tensor in reader.tensors if tensor.name != FREQUENCIES
        }
        self.shapes = {name: tuple(int(n) for n in t.shape[::-1]) for name, t in self._tensors.items()}

    def read(self, names: Mapping[str, str]) -> dict[str, np.ndarray]:
        """Read the tensors under `names` (the model's name to the file's)."""
        return {own: self._array(name) for own, name in names.items()}

    def _array(self, name: str) -> np.ndarray:
        from gguf.quants import dequantize

        tensor = self._tensors[name]
        try:
            array = dequantize(tensor.data, tensor.tensor_type).reshape(self.shapes[name])
        except NotImplementedError:
            raise ValueError(
                f"{self.path}: {name} must be of a block type that gguf reads; got {tensor.tensor_type.name}"
            ) from None
        except ValueError as error:
            raise ValueError(f"{self.path}: {name} must have {self.shapes[name]} numbers; {error}") from None
        kind = name.rpartition(".")[0].rpartition(".")[2]
        if self._neighbours and kind in self._heads:  # pairs (2 i, 2 i + 1) of a head become (i, i + D / 2)
            pairs = array.reshape(self._heads[kind], -1, 2, *array.shape[1:])
            array = pairs.swapaxes(1, 2).reshape(array.shape)
        return np.ascontiguousarray(array, np.float32)


def _named(path: Path, name: str) -> str:
    parts = name.split(".")
    if parts[0] == "blk" and len(parts) == 4 and parts[2] in INSIDE:
        return f"model.layers.{parts[1]}.{INSIDE[parts[2]]}.{parts[3]}"
    if len(parts) == 2 and parts[0] in OUTSIDE:
        return f"{OUTSIDE[parts[0]]}.{parts[1]}"
    raise ValueError(f"{path}: must hold tensors of {', '.join(ARCHITECTURES)} alone; got {name[:100]}")


def read_gguf(path: Path) -> tuple[dict[str, Any], GgufWeights]:
    """Give the entries of a configuration and the weights that a GGUF file holds."""
    reader = opened(path)
    [kind] = facts_of(reader, "general.architecture")
    if kind not in ARCHITECTURES:
        raise ValueError(
            f"{path}: general.architecture must be one of {', '.join(ARCHITECTURES)}; got {str(kind)[:100]!r}"
        )
    class_name, neighbours = ARCHITECTURES[kind]
    entries: dict[str, Any] = {"model_type": kind, "architectures": [class_name]}
    for theirs, ours in ENTRIES.items():
        [value] = facts_of(reader, f"{kind}.{theirs}")
        if value is not None:
            entries[ours] = value
    for name in ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size"):
        if not isinstance(entries.get(name), int) or entries[name] < 1:
            raise ValueError(f"{path}: must say {name}, a whole number above 0; got {entries.get(name)!r}")
    heads = entries["num_attention_heads"]
    key_heads = entries.setdefault("num_key_value_heads", heads)
    weights = GgufWeights(path, reader, {"q_proj": heads, "k_proj": key_heads}, neighbours)
    width = entries.get("head_dim") or entries["hidden_size"] // heads

    def fact(name: str) -> Any:
        return facts_of(reader, f"{kind}.{name}")[0]

    if fact("rope.dimension_count") not in (None, width):
        raise ValueError(
            f"{path}: rope.dimension_count must be {width}, the width of a head; got {fact('rope.dimension_count')}"
        )
    factors = next((np.asarray(t.data, np.float64) for t in reader.tensors if t.name == FREQUENCIES), None)
    if (scaling := rope_scaling(path, fact, factors)) is not None:
        entries["rope_scaling"] = scaling
    entries["vocab_size"] = weights.shapes.get("model.embed_tokens.weight", (0,))[0]
    entries["tie_word_embeddings"] = "lm_head.weight" not in weights.shapes
    for ours, theirs in (("bos", "bos"), ("eos", "eos"), ("pad", "padding")):
        [entries[f"{ours}_token_id"]] = facts_of(reader, f"tokenizer.ggml.{theirs}_token_id")
    return entries, weights


LLAMA_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
SPLITS = {"llama-bpe": LLAMA_WORDS, "qwen2": LLAMA_WORDS.replace("{1,3}", "")}
CONTROL, OWN = 3, 4  # types of tokens that no text is cut through


def tokenizer_of(path: Path, library: Any) -> tuple[Any, dict[str, Any]]:
    """Make a tokenizer of a GGUF file's vocabulary, and give what else it says of texts."""
    reader = opened(path)
    kind, split = facts_of(reader, "tokenizer.ggml.model", "tokenizer.ggml.pre")
    known = ("default", "gpt-2", "smollm", *SPLITS)
    if kind != "gpt2" or (split or "default") not in known:
        raise ValueError(
            f"{path}: tokenizer.ggml.model must be gpt2 and tokenizer.ggml.pre one of {', '.join(known)}; "
            f"got {kind!r}, {split!r}"
        )
    words, merges, types = facts_of(
        reader, *(f"tokenizer.ggml.{x}" for x in ("tokens", "merges", "token_type"))
    )
    if not words or merges is None:
        raise ValueError(f"{path}: must hold tokenizer.ggml.tokens and merges; there are none")
    vocabulary = {word: number for number, word in enumerate(words)}
    made = library.Tokenizer(
        library.models.BPE(vocabulary, [tuple(pair.split(" ", 1)) for pair in merges], fuse_unk=False)
    )
    parts = library.pre_tokenizers
    if split in SPLITS:
        first = parts.Split(library.Regex(SPLITS[split]), "isolated")
        made.pre_tokenizer = parts.Sequence([first, parts.ByteLevel(add_prefix_space=False, use_regex=False)])
    elif split == "smollm":
        made.pre_tokenizer = parts.Sequence([parts.Digits(True), parts.ByteLevel(add_prefix_space=False)])
    else:
        made.pre_tokenizer = parts.ByteLevel(add_prefix_space=False)
    made.decoder = library.decoders.ByteLevel()
    types = types or []
    made.add_special_tokens([w for w, t in zip(words, types, strict=False) if t == CONTROL])
    made.add_tokens([w for w, t in zip(words, types, strict=False) if t == OWN])
    names = {"bos": "bos", "eos": "eos", "unk": "unknown", "pad": "padding"}
    ids = {ours: facts_of(reader, f"tokenizer.ggml.{theirs}_token_id")[0] for ours, theirs in names.items()}
    special = {f"{name}_token": words[i] for name, i in ids.items() if isinstance(i, int) and i < len(words)}
    before, template, architecture = facts_of(
        reader, "tokenizer.ggml.add_bos_token", "tokenizer.chat_template", "general.architecture"
    )
    if before and "bos_token" in special:
        first = special["bos_token"]
        made.post_processor = library.processors.TemplateProcessing(
            single=f"{first} $A", pair=f"{first} $A {first} $B", special_tokens=[(first, ids["bos"])]
        )
    [length] = facts_of(reader, f"{architecture}.context_length")
    return made, {"max_length": length, "chat_template": template, "special_tokens": special}
