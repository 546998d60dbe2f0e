"""Tiny random models of Hugging Face's, with the options that real checkpoints use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

ENCODER = dict(
    vocab_size=61, hidden_size=24, num_hidden_layers=3, num_attention_heads=3, intermediate_size=40,
    max_position_embeddings=37,
)  # fmt: skip
DECODER = dict(
    ENCODER, num_attention_heads=4, num_key_value_heads=2, bos_token_id=3, eos_token_id=2, pad_token_id=0
)
SIDES = dict(
    vocab_size=61, d_model=24, encoder_layers=2, decoder_layers=3, encoder_attention_heads=3,
    decoder_attention_heads=4, encoder_ffn_dim=40, decoder_ffn_dim=31, max_position_embeddings=37, pad_token_id=1,
    bos_token_id=0, eos_token_id=2, decoder_start_token_id=2, forced_eos_token_id=2,
)  # fmt: skip
DEBERTA = dict(
    ENCODER, relative_attention=True, pos_att_type=["p2c", "c2p"], position_buckets=8, norm_rel_ebd="layer_norm",
    share_att_key=True, position_biased_input=False, max_relative_positions=-1,
)  # fmt: skip
T5 = dict(
    vocab_size=61, d_model=24, d_kv=5, d_ff=40, num_layers=3, num_decoder_layers=2, num_heads=3,
    decoder_start_token_id=0, pad_token_id=0, eos_token_id=1, relative_attention_max_distance=20,
)  # fmt: skip
GPT2 = dict(
    vocab_size=61,
    n_embd=24,
    n_layer=3,
    n_head=3,
    n_positions=37,
    bos_token_id=0,
    eos_token_id=2,
    pad_token_id=0,
)
BLOOM = dict(
    vocab_size=61, hidden_size=24, n_layer=3, n_head=3, bos_token_id=3, eos_token_id=2, pad_token_id=0
)
VIT = dict(
    hidden_size=24, num_hidden_layers=3, num_attention_heads=3, intermediate_size=40, image_size=12, patch_size=4,
    num_channels=2,
)  # fmt: skip
ROPE = {
    "linear": {"rope_type": "linear", "factor": 2.0, "rope_theta": 5000.0},
    "dynamic": {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 5000.0},
    "yarn": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 9, "rope_theta": 5000.0},
    "llama3": {
        "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 23, "rope_theta": 500.0,
    },
}  # fmt: skip
MODERN = dict(
    ENCODER, pad_token_id=0, local_attention=4, bos_token_id=3, eos_token_id=2, cls_token_id=3, sep_token_id=2
)
MARIAN = dict(
    SIDES, decoder_vocab_size=61, pad_token_id=60, decoder_start_token_id=60, eos_token_id=0, forced_eos_token_id=0,
    bos_token_id=None,
)  # fmt: skip

# model type: (what all variants have, the variants)
TINY: dict[str, tuple[dict[str, Any], dict[str, dict[str, Any]]]] = {
    "bert": (ENCODER, {"plain": {}, "gelu_new": {"hidden_act": "gelu_new", "type_vocab_size": 3}}),
    "roberta": (ENCODER, {"plain": {"type_vocab_size": 1}, "relu": {"hidden_act": "relu", "pad_token_id": 5}}),
    "xlm-roberta": (ENCODER, {"plain": {"type_vocab_size": 1}}),
    "camembert": (ENCODER, {"plain": {"type_vocab_size": 1}}),
    "distilbert": (
        dict(vocab_size=61, dim=24, n_layers=3, n_heads=3, hidden_dim=40, max_position_embeddings=37),
        {"plain": {}, "relu": {"activation": "relu", "sinusoidal_pos_embds": True}},
    ),
    "electra": (ENCODER, {"narrow": {"embedding_size": 16}, "same": {"embedding_size": 24}}),
    "mpnet": (ENCODER, {"plain": {}}),
    "modernbert": (
        MODERN,
        {
            "plain": {},
            "mean": {"classifier_pooling": "mean", "norm_bias": True, "attention_bias": True, "mlp_bias": True},
            "every_second": {
                "layer_types": ["full_attention", "sliding_attention", "full_attention"],
                "classifier_bias": True,
            },
        },
    ),
    "deberta-v2": (
        DEBERTA,
        {
            "v3": {},
            "segments": {"type_vocab_size": 2, "position_biased_input": True, "hidden_act": "relu"},
            "no_buckets": {"position_buckets": -1, "norm_rel_ebd": "none", "max_relative_positions": 11},
            "own_distances": {"share_att_key": False, "conv_kernel_size": 3, "legacy": False},
            "one_term": {
                "share_att_key": False, "pos_att_type": "c2p", "conv_kernel_size": 5, "conv_groups": 4,
                "conv_act": "gelu",
            },
            "absolute": {
                "relative_attention": False,
                "pos_att_type": None,
                "position_biased_input": True,
                "norm_rel_ebd": "none",
            },
        },
    ),
    "gpt2": (
        GPT2,
        {
            "plain": {},
            "scales": {"scale_attn_by_inverse_layer_idx": True, "n_inner": 41, "activation_function": "gelu"},
            "unscaled": {"scale_attn_weights": False, "reorder_and_upcast_attn": True},
        },
    ),
    "gpt_neox": (
        dict(ENCODER, bos_token_id=3, eos_token_id=2, pad_token_id=0),
        {
            "plain": {},
            "serial": {"use_parallel_residual": False, "hidden_act": "gelu_fast", "attention_bias": False},
            "all": {"rope_parameters": {"rope_type": "default", "rope_theta": 300.0, "partial_rotary_factor": 1.0}},
            "tied": {"tie_word_embeddings": True},
        },
    ),
    "llama": (
        DECODER,
        {
            "plain": {},
            "tied": {"tie_word_embeddings": True, "attention_bias": True, "mlp_bias": True},
            "wide_heads": {"head_dim": 10, "num_key_value_heads": 1},
            **{name: {"rope_parameters": rule} for name, rule in ROPE.items()},
        },
    ),
    "mistral": (DECODER, {"window": {"sliding_window": 5, "head_dim": 10}, "whole": {"sliding_window": None}}),
    "qwen2": (
        DECODER,
        {
            "plain": {"tie_word_embeddings": True},
            "windows": {"use_sliding_window": True, "sliding_window": 5, "max_window_layers": 1},
        },
    ),
    "qwen3": (DECODER, {"plain": {"head_dim": 10}, "bias": {"head_dim": 6, "attention_bias": True}}),
    "gemma2": (
        DECODER,
        {
            "plain": {"head_dim": 10, "query_pre_attn_scalar": 7, "sliding_window": 5},
            "no_caps": {
                "head_dim": 6,
                "query_pre_attn_scalar": 7,
                "attn_logit_softcapping": None,
                "final_logit_softcapping": None,
            },
        },
    ),
    "gemma": (
        DECODER,
        {"plain": {"head_dim": 10}, "old": {"head_dim": 6, "hidden_act": "gelu", "attention_bias": True}},
    ),
    "phi3": (
        DECODER,
        {
            "plain": {},
            "part": {
                "sliding_window": 5,
                "rope_parameters": {"rope_type": "default", "rope_theta": 300.0, "partial_rotary_factor": 0.67},
            },
        },
    ),
    "smollm3": (
        DECODER,
        {
            "plain": {"no_rope_layer_interval": 2},
            "windows": {
                "no_rope_layers": [1, 0, 0],
                "use_sliding_window": True,
                "sliding_window": 5,
                "mlp_bias": True,
                "tie_word_embeddings": False,
            },
        },
    ),
    "bloom": (BLOOM, {"plain": {}, "four_heads": {"n_head": 4}}),
    "t5": (
        T5,
        {
            "plain": {},
            "v1_1": {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False},
            "gated_silu": {"feed_forward_proj": "gated-silu", "relative_attention_num_buckets": 12},
        },
    ),
    "mt5": (T5, {"plain": {}}),
    "bart": (
        SIDES,
        {
            "plain": {},
            "scaled": {"scale_embedding": True, "activation_function": "relu", "forced_eos_token_id": None},
        },
    ),
    "marian": (
        MARIAN,
        {
            "plain": {"scale_embedding": True, "activation_function": "swish"},
            "own_words": {"share_encoder_decoder_embeddings": False, "decoder_vocab_size": 53, "pad_token_id": 50,
                          "decoder_start_token_id": 50},
        },
    ),
    "deit": (VIT, {"plain": {}, "wide": {"image_size": [12, 12], "patch_size": [4, 2], "pooler_output_size": 17}}),
    "vit": (VIT, {"plain": {}, "no_bias": {"qkv_bias": False, "hidden_act": "gelu_new"}}),
}  # fmt: skip
CASES = [(kind, variant) for kind, (_, variants) in TINY.items() for variant in variants]


def hugging_face(kind: str, variant: str, class_name: str, folder: Path, **changes: Any) -> Any:
    """Make a model whose every parameter is drawn, and save it."""
    import torch
    import transformers

    common, variants = TINY[kind]
    config = transformers.AutoConfig.for_model(kind, **{**common, **variants[variant], **changes})
    config._attn_implementation = "eager"
    torch.manual_seed(7)
    model = getattr(transformers, class_name)(config).eval()
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.requires_grad and not name.endswith("embed_positions.weight"):
                p.add_(
                    0.2 * torch.randn_like(p)
                    if p.dim() < 2
                    else 0.3 * torch.randn_like(p) / p.shape[-1] ** 0.25
                )
    model.save_pretrained(folder)
    return model


def largest_difference(ours: Any, theirs: Any) -> float:
    """Return the largest difference, as a share of the largest value."""
    a, b = np.asarray(ours), np.asarray(theirs)
    assert a.shape == b.shape, (a.shape, b.shape)
    return float(np.abs(a - b).max() / max(np.abs(b).max(), 1e-30))
