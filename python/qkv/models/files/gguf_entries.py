"""What the head of a GGUF file says: entries that are computed, that change nothing, and that are refused.

Names of the architecture's own entries are without it: ``block_count`` is ``llama.block_count``.
"""

from __future__ import annotations

from typing import Any

# Entries of a configuration that have the value of one of the head.
ENTRIES = {
    "context_length": "max_position_embeddings",
    "block_count": "num_hidden_layers",
    "feed_forward_length": "intermediate_size",
    "embedding_length": "hidden_size",
    "rope.freq_base": "rope_theta",
    "attention.causal": "is_causal",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.key_length": "head_dim",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps",
    "attention.sliding_window": "sliding_window",
}
SIZES = ("block_count", "feed_forward_length", "embedding_length", "attention.head_count")
# Those that may be a list with the same number for each layer.
EACH_LAYER = ("feed_forward_length", "attention.head_count", "attention.head_count_kv")
# Read by the rules of rotary positions, and checked.
ROTARY = (
    "rope.dimension_count", "rope.scale_linear", "rope.scaling.alpha", "rope.scaling.attn_factor",
    "rope.scaling.factor", "rope.scaling.original_context_length", "rope.scaling.type",
    "rope.scaling.yarn_attn_factor", "rope.scaling.yarn_beta_fast", "rope.scaling.yarn_beta_slow",
    "rope.scaling.yarn_ext_factor", "rope.scaling.yarn_log_multiplier",
)  # fmt: skip
COMPUTED = {
    *ENTRIES, *ROTARY, "attention.value_length", "general.alignment", "general.architecture", "general.sampling.min_p",
    "general.sampling.temp", "general.sampling.top_k", "general.sampling.top_p", "general.type", "split.count",
    "split.no", "tokenizer.chat_template", "tokenizer.ggml.add_bos_token", "tokenizer.ggml.add_eos_token",
    "tokenizer.ggml.bos_token_id", "tokenizer.ggml.eom_token_id", "tokenizer.ggml.eos_token_id",
    "tokenizer.ggml.eot_token_id", "tokenizer.ggml.merges", "tokenizer.ggml.model",
    "tokenizer.ggml.padding_token_id", "tokenizer.ggml.pre", "tokenizer.ggml.token_type", "tokenizer.ggml.tokens",
    "tokenizer.ggml.unknown_token_id",
}  # fmt: skip
# Entries that change nothing; of the architecture's own all others are refused, unless they are 0, false or "none".
SAME = {
    "attention.layer_norm_epsilon": "is that of another norm",
    "decoder_start_token_id": "is read by encoder-decoders",
    "expert_used_count": "is read beside expert_count",
    "pooling_type": "says what llama.cpp makes of texts that it embeds",
    "rope.scaling.finetuned": "says how the model was trained",
    "tensor_data_layout": "says how the file was made; tensors are read as llama.cpp reads them",
    "vocab_size": "is the number of rows of token_embd.weight",
}
SAME_BEGINNINGS = {
    "general.": "says what the file is and whose",
    "tokenizer.": "is read by vocabularies of other kinds, or by prompts of llama.cpp's programs",
    "split.": "is read beside split.count",
}
SAMPLING = {name: f"general.sampling.{theirs}" for name, theirs in
            {"temperature": "temp", "top_k": "top_k", "top_p": "top_p", "min_p": "min_p"}.items()}  # fmt: skip


def fate(name: str, own: bool) -> str:
    """Return what becomes of an entry, the architecture's own or not: "computed", "refused", or why it is nothing."""
    if name in COMPUTED:
        return "computed"
    if own:
        return SAME.get(name, "refused")
    return next(
        (why for start, why in SAME_BEGINNINGS.items() if name.startswith(start)), "is of other programs"
    )


def check_head(path: Any, facts: dict[str, Any], architecture: str) -> None:
    """Refuse entries of the architecture that would change what is computed, and files that hold no model."""
    kind = facts.get("general.type")
    if kind not in (None, b"model", "model"):
        raise ValueError(f"{path}: general.type must be model because qkv reads no other; got {kind!r:.100}")
    for whole, value in facts.items():
        start, _, name = whole.partition(".")
        if start == architecture and fate(name, True) == "refused" and value not in (0, False, b"none", b""):
            raise ValueError(
                f"{path}: {whole} must be unset because qkv does not compute it; got {value!r:.100}"
            )
