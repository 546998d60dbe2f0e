"""BART: BERT's blocks as encoder and decoder, learned positions after an offset of two; what its family shares."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .configuration import Configuration
from .table import Architecture, HeadTable, Options, Piece, answers, language_head, projections


def body(c: Configuration, side: str, **more: Any) -> Options:
    """Return the options of one side."""
    block = {
        "nhead": c.get(f"{side}_attention_heads"),
        "dim_feedforward": c.get(f"{side}_ffn_dim"),
        "activation": c.activation("activation_function"),
        "placement": "post",
        "dropout": c.dropout,
        "inner_dropout": c.activation_dropout,
        "attention_dropout": c.attention_dropout,
        **({"is_causal": c.is_causal, "memory": True} if side == "decoder" else {}),
    }
    return {
        "layers": [block] * c.get(f"{side}_layers"),
        "d_model": c.d_model,
        "vocab_size": c.vocab_size,
        "pad_id": c.pad_token_id,
        "embedding_scale": c.d_model**0.5 if c.scale_embedding else 1.0,
        "dropout": c.dropout,
        **more,
    }


def side(own: str) -> dict[str, str]:
    """Return the names of one side."""
    layer, ends = f"{own}.layers.{{}}.", ("q_proj", "k_proj", "v_proj", "out_proj")
    last = 3 if own == "decoder" else 2
    names = projections(f"{layer}self_attn", f"{layer}self_attn.", ends)
    names |= {f"{layer}linear{i}": f"{layer}fc{i}" for i in (1, 2)}
    names |= {f"{layer}norm1": f"{layer}self_attn_layer_norm"}
    names |= {f"{layer}norm{last}": f"{layer}final_layer_norm"}
    if own == "decoder":
        names |= projections(f"{layer}multihead_attn", f"{layer}encoder_attn.", ends)
        names |= {f"{layer}norm2": f"{layer}encoder_attn_layer_norm"}
    return names


NAMES = {"encoder.embedding": "shared", "decoder.embedding": "shared", **side("encoder"), **side("decoder")}

# A row in files, a vector in the model, whether the matrix is tied or not; Hugging Face's is a buffer.
LOGITS_BIAS = dict.fromkeys(
    ("head.bias", "head.output.bias"), Piece("final_logits_bias", row=True, optional=True)
)


def words_head(outputs: Callable[[Configuration], Any] = lambda c: c.vocab_size) -> HeadTable:
    """Return the scores of words, with a bias that training leaves as it is."""
    return language_head(names=LOGITS_BIAS, outputs=outputs, bias=lambda c: True, fixed_bias=lambda c: True)


def end_classes(prefix: str | None = None) -> HeadTable:
    """Return classes by the decoder's row at the last end of the text."""
    return HeadTable(
        lambda c: {
            "outputs": c.num_labels,
            "inner": c.d_model,
            "activation": "tanh",
            "pooling": "end",
            "dropout": c.classifier_dropout,
        },
        {"head.dense": "classification_head.dense", "head.output": "classification_head.out_proj"},
        prefix=prefix,
    )


def options(c: Configuration) -> dict[str, Any]:
    """Return both bodies'."""
    more = {"max_positions": c.max_position_embeddings + 2, "position_offset": 2, "embedding_norm": "layer"}
    return {
        **{side: body(c, side, **more) for side in ("encoder", "decoder")},
        "shared": c.tie_word_embeddings,
    }


def own_words(c: Configuration) -> dict[str, str]:
    """Return the names of all, where each side has words of its own."""
    words = {f"{side}.embedding": f"{side}.embed_tokens" for side in ("encoder", "decoder")}
    return NAMES if c.tie_word_embeddings else {**NAMES, **words}


def copies(c: Configuration) -> dict[str, str]:
    """Return what nothing reads where each side has words of its own."""
    return {} if c.tie_word_embeddings else {"shared.weight": "encoder.embed_tokens.weight"}


EMBEDDINGS = {
    f"{own}.{ours}": f"{own}.{theirs}"
    for own in ("encoder", "decoder")
    for ours, theirs in (("position_embedding", "embed_positions"), ("embedding_norm", "layernorm_embedding"))
}
DEFAULTS: dict[str, Any] = {
    "vocab_size": 50265, "max_position_embeddings": 1024, "encoder_layers": 12, "encoder_ffn_dim": 4096,
    "encoder_attention_heads": 16, "decoder_layers": 12, "decoder_ffn_dim": 4096,
    "decoder_attention_heads": 16, "activation_function": "gelu", "d_model": 1024, "dropout": 0.1,
    "attention_dropout": 0.0, "activation_dropout": 0.0, "classifier_dropout": 0.0,
    "scale_embedding": False, "pad_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2,
    "forced_eos_token_id": 2, "tie_word_embeddings": True, "is_causal": True,
    "num_labels": 3,
}  # fmt: skip
# Options of old files that the blocks of the family do not have.
ALLOWED = {
    "normalize_before": (False, None),
    "add_final_layer_norm": (False, None),
    "normalize_embedding": (True, None),
}

ARCHITECTURE = Architecture(
    model_type="bart",
    kind="encoder-decoder",
    classes="Bart",
    prefix="model",
    defaults=DEFAULTS,
    allowed=ALLOWED,
    nulls={
        "is_causal": False,
        "pad_token_id": None,
        "attention_dropout": 0.0,
        "scale_embedding": False,
        "classifier_dropout": 0.0,
    },
    bodies=options,
    names=lambda c: own_words(c) | EMBEDDINGS,
    copies=copies,
    heads={
        "ForConditionalGeneration": words_head(),
        "ForSequenceClassification": end_classes(),
        "ForQuestionAnswering": answers(),
    },
)
