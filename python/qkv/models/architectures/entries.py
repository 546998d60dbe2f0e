"""What a config.json may say in any type: entries that change nothing, that have one value, and other names of sizes.

An entry that a type computes is in its table, in the place of these.
"""

from __future__ import annotations

from typing import Any

# What no architecture here computes otherwise, where a configuration has it.
NEVER: dict[str, tuple[Any, ...]] = {
    "add_cross_attention": (False, None),
    "is_decoder": (False, None),
    "per_layer_config": (None, {}, []),
    "pruned_heads": ({}, None),
    "quantization_config": (None,),
}
# What architectures call sizes that all have.
OTHER_NAMES = {
    "head_dim": ("d_kv",),
    "hidden_size": ("n_embd", "d_model", "dim"),
    "num_hidden_layers": ("n_layer", "n_layers", "num_layers", "encoder_layers"),
    "num_attention_heads": ("n_head", "n_heads", "num_heads", "encoder_attention_heads"),
    "max_position_embeddings": ("n_positions",),
}
_FIRST = "says how the values of a new model are drawn"
_ROUNDING = "changes the order of rounding alone"
_RESULT = "says what Hugging Face's calls return"
_LOSS = "is that of a loss, which is chosen where a model is trained"
_ABSENT = "is read by heads that are not here"
_TOKENS = "is for texts that are written, or is told by masks"
_FILE = "says where the file is from, or how it was made"
SAME: dict[str, str] = {
    "_name_or_path": _FILE,
    "attention_chunk_size": "is read by types with chunks alone",
    "bos_token_id": _TOKENS,
    "chunk_size_feed_forward": _ROUNDING,
    "cls_token_id": _TOKENS,
    "decoder_layerdrop": "leaves out layers in a training that is not here",
    "decoder_start_token_id": _TOKENS,
    "deterministic_flash_attn": _ROUNDING,
    "dtype": "is that of the file; numbers become float32",
    "embd_pdrop": "is read by GPT-2 alone",
    "encoder_layerdrop": "leaves out layers in a training that is not here",
    "encoder_stride": _ABSENT,
    "eos_token_id": _TOKENS,
    "finetuning_task": _FILE,
    "forced_eos_token_id": _TOKENS,
    "gradient_checkpointing": "saves memory in training",
    "init_std": _FIRST,
    "initializer_cutoff_factor": _FIRST,
    "initializer_factor": _FIRST,
    "initializer_range": _FIRST,
    "is_causal": "is read by decoders alone",
    "is_encoder_decoder": "follows from the model type",
    "layer_types": "is read by types with windows in some layers",
    "output_attentions": _RESULT,
    "output_hidden_states": _RESULT,
    "pad_token_id": _TOKENS,
    "position_embedding_type": "was read by BERT's family alone",
    "pretraining_tp": _ROUNDING,
    "problem_type": _LOSS,
    "reorder_and_upcast_attn": _ROUNDING,
    "return_dict": _RESULT,
    "sep_token_id": _TOKENS,
    "sinusoidal_pos_embds": _FIRST,
    "slow_but_exact": _ROUNDING,
    "sparse_pred_ignore_index": _LOSS,
    "sparse_prediction": _LOSS,
    "summary_activation": _ABSENT,
    "summary_first_dropout": _ABSENT,
    "summary_last_dropout": _ABSENT,
    "summary_proj_to_labels": _ABSENT,
    "summary_type": _ABSENT,
    "summary_use_proj": _ABSENT,
    "tokenizer_class": _FILE,
    "torch_dtype": "is that of the file; numbers become float32",
    "transformers_version": _FILE,
    "use_cache": "says how texts are continued, by the same words",
}
