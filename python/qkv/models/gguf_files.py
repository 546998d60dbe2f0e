"""Models and vocabularies in GGUF files, by the package gguf."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .gguf_reader import GgufFile
from .gguf_rotary import rope_scaling
from .tokenizer_files import errors_as

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
    """The tensors of a GGUF file under Hugging Face's names, made floats of when they are read."""

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
    """Give the entries of a configuration and the weights that a GGUF file holds."""
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
    entries["bos_token_id"], entries["pad_token_id"] = _id(file, "bos"), _id(file, "padding")
    ends = [_id(file, kind) for kind in ("eos", "eot", "eom")]  # of a text, a turn, a message
    entries["eos_token_id"] = [end for end in dict.fromkeys(ends) if end is not None] or None
    return entries, weights


def _id(file: GgufFile, kind: str) -> int | None:
    """Give the id of a special token that a file names, or None."""
    [number] = file.said(f"tokenizer.ggml.{kind}_token_id")
    if number is not None and (type(number) is not int or number < 0):
        raise ValueError(
            f"{file.path}: tokenizer.ggml.{kind}_token_id must be a whole number, 0 or more; got {number!r:.100}"
        )
    return number


LLAMA_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
SPLITS = {"llama-bpe": LLAMA_WORDS, "qwen2": LLAMA_WORDS.replace("{1,3}", "")}
CONTROL, OWN = 3, 4  # types of tokens that no text is cut through


def _set_parts(made: Any, library: Any, split: str | None) -> None:
    """Cut texts as the rule of that name does."""
    parts = library.pre_tokenizers
    if split == "qwen2":
        made.normalizer = library.normalizers.NFC()
    if split in SPLITS:
        first = parts.Split(library.Regex(SPLITS[split]), "isolated")
        made.pre_tokenizer = parts.Sequence([first, parts.ByteLevel(add_prefix_space=False, use_regex=False)])
    elif split == "smollm":
        made.pre_tokenizer = parts.Sequence([parts.Digits(True), parts.ByteLevel(add_prefix_space=False)])
    else:
        made.pre_tokenizer = parts.ByteLevel(add_prefix_space=False)
    made.decoder = library.decoders.ByteLevel()


def tokenizer_of(path: Path, library: Any) -> tuple[Any, dict[str, Any]]:
    """Make a tokenizer of a GGUF file's vocabulary, and give what else it says of texts."""
    file = GgufFile(path)
    kind, split = file.said("tokenizer.ggml.model", "tokenizer.ggml.pre")
    known = ("default", "gpt-2", "smollm", *SPLITS)
    if kind != "gpt2" or (split or "default") not in known:
        raise ValueError(
            f"{path}: tokenizer.ggml.model must be gpt2 and tokenizer.ggml.pre one of {', '.join(known)}; "
            f"got {kind!r}, {split!r}"
        )
    words, merges, types = file.said(*(f"tokenizer.ggml.{x}" for x in ("tokens", "merges", "token_type")))
    if not words or merges is None:
        raise ValueError(f"{path}: must hold tokenizer.ggml.tokens and merges; there are none")
    of_llama = split == "llama-bpe"  # whose vocabulary holds words that no merges lead to
    with errors_as(f"{path}: must hold tokenizer.ggml.tokens and merges of them"):
        vocabulary = {word: number for number, word in enumerate(words)}
        pairs = [tuple(pair.split(" ", 1)) for pair in merges]
        model = library.models.BPE(vocabulary, pairs, fuse_unk=False, ignore_merges=of_llama)
        made = library.Tokenizer(model)
        _set_parts(made, library, split)
        types = types if isinstance(types, list) else []
        made.add_special_tokens([w for w, t in zip(words, types, strict=False) if t == CONTROL])
        made.add_tokens([w for w, t in zip(words, types, strict=False) if t == OWN])
    names = {"bos": "bos", "eos": "eos", "unk": "unknown", "pad": "padding"}
    ids = {ours: _id(file, theirs) for ours, theirs in names.items()}
    special = {f"{name}_token": words[i] for name, i in ids.items() if i is not None and i < len(words)}
    before, behind, template, architecture = file.said(
        *(f"tokenizer.{x}" for x in ("ggml.add_bos_token", "ggml.add_eos_token", "chat_template")),
        "general.architecture",
    )
    before = of_llama if before is None else before  # as llama.cpp
    first = ["bos"] if before and "bos_token" in special else []
    last = ["eos"] if behind and "eos_token" in special else []
    if first or last:
        # Under names of our own: "$A" as the name of a token would mean the text itself.
        tokens = [(name, special[f"{name}_token"]) for name in {*first, *last}]
        made.post_processor = library.processors.TemplateProcessing(
            single=[*first, "$A", *last],
            pair=[*first, "$A", *last, *first, "$B", *last],
            special_tokens=[
                {"id": name, "ids": [vocabulary[word]], "tokens": [word]} for name, word in tokens
            ],
        )
    [length] = file.said(f"{architecture}.context_length")
    return made, {
        "max_length": length if isinstance(length, int) else None,
        "chat_template": template if isinstance(template, str) else None,
        "special_tokens": special,
    }
