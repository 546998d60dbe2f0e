"""What the files of sentence-transformers may say, as :mod:`qkv.models.text.entries` says it of tokenizers."""

from __future__ import annotations

from ..text.entries import Entries

_TORCH = "says how PyTorch loads or computes; qkv computes in float32"
_VERSIONS = "says with which packages the folder was written"

MODULES = Entries(
    frozenset({"type", "path"}),
    {
        "idx": "numbers the parts, which are in order",
        "name": "names a part, which its type says",
        "kwargs": "lists arguments of calls that no part here has",
    },
)

SETTINGS = Entries(
    frozenset({"prompts", "default_prompt_name", "similarity_fn_name", "truncate_dim", "activation_fn"}),
    {"__version__": _VERSIONS, "requirements": _VERSIONS, "keep_in_fp32_modules": _TORCH},
    {"model_type": (None, "SentenceTransformer", "CrossEncoder")},
)

_FORWARD = {"method": "forward", "method_output_name": "last_hidden_state"}
_SCORED = {"method": "forward", "method_output_name": "logits"}
TRANSFORMER = Entries(
    frozenset({"max_seq_length", "do_lower_case", "query_length", "document_length"}),
    {
        "unpad_inputs": "says whether padding is left out, which qkv always does",
        "model_args": _TORCH,
        "model_kwargs": _TORCH,
        "backend": _TORCH,
    },
    {
        "transformer_task": (None, "feature-extraction", "sequence-classification"),
        "module_output_name": (None, "token_embeddings", "scores"),
        "modality_config": (None, {"text": _FORWARD}, {"text": _SCORED}),
        "processing_kwargs": (None, {}),
        "processor_kwargs": (None, {}),
        "tokenizer_args": (None, {}),
        "config_kwargs": (None, {}),
        "config_args": (None, {}),
        "query_expansion": (None,),
        "tokenizer_name_or_path": (None,),
    },
)

POOLING = Entries(
    frozenset(
        {
            "embedding_dimension",
            "word_embedding_dimension",
            "pooling_mode",
            "include_prompt",
            "pooling_mode_cls_token",
            "pooling_mode_max_tokens",
            "pooling_mode_mean_tokens",
            "pooling_mode_mean_sqrt_len_tokens",
            "pooling_mode_weightedmean_tokens",
            "pooling_mode_lasttoken",
        }
    ),
    {},
)

DENSE = Entries(
    frozenset({"in_features", "out_features", "bias", "activation_function", "use_residual"}),
    {"init_weight": "is replaced by the file's weights", "init_bias": "is replaced by the file's weights"},
    {
        "module_input_name": ("sentence_embedding", None),
        "module_output_name": ("sentence_embedding", None),
    },
)
