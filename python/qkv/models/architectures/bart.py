"""BART: BERT's blocks as encoder and decoder, learned positions behind an offset of two."""

from __future__ import annotations

from typing import Any

from ..architecture import Architecture, HeadTable, Options, Piece
from ..configuration import Configuration


def body(c: Configuration, side: str, **more: Any) -> Options:
    """Give the options of one side."""
    block = {
        "nhead": c.get(f"{side}_attention_heads"),
        "dim_feedforward": c.get(f"{side}_ffn_dim"),
        "activation": c.activation("activation_function"),
        "placement": "post",
        "dropout": c.dropout,
        "inner_dropout": c.activation_dropout,
        "attention_dropout": c.attention_dropout,
        **({"is_causal": True, "memory": True} if side == "decoder" else {}),
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


def options(c: Configuration) -> dict[str, Options]:
    """Give both bodies'."""
    more = {"max_positions": c.max_position_embeddings + 2, "position_offset": 2, "embedding_norm": "layer"}
    return {side: body(c, side, **more) for side in ("encoder", "decoder")}


def side(own: str) -> dict[str, str]:
    """Give the names of one side."""
    layer, last = f"{own}.layers.{{}}.", "norm3" if own == "decoder" else "norm2"
    names = {f"{layer}self_attn.{x}_proj": f"{layer}self_attn.{x}_proj" for x in ("q", "k", "v", "out")}
    names |= {
        f"{layer}norm1": f"{layer}self_attn_layer_norm",
        f"{layer}linear1": f"{layer}fc1",
        f"{layer}linear2": f"{layer}fc2",
        f"{layer}{last}": f"{layer}final_layer_norm",
    }
    if own == "decoder":
        cross = f"{layer}multihead_attn."
        names |= {f"{cross}{x}_proj": f"{layer}encoder_attn.{x}_proj" for x in ("q", "k", "v", "out")}
        names |= {f"{layer}norm2": f"{layer}encoder_attn_layer_norm"}
    return names


NAMES = {"encoder.embedding": "shared", "decoder.embedding": "shared", **side("encoder"), **side("decoder")}
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
    "forced_eos_token_id": 2, "is_decoder": False, "tie_word_embeddings": True,
}  # fmt: skip
STANDARD = {
    "hidden_size": "d_model",
    "num_hidden_layers": "encoder_layers",
    "num_attention_heads": "encoder_attention_heads",
}
# Options of old files that no one of the family's block has.
ALLOWED = {
    "is_decoder": (False,),
    "normalize_before": (False, None),
    "add_final_layer_norm": (False, None),
    "normalize_embedding": (True, None),
}
WORDS = HeadTable(
    lambda c: {"outputs": c.vocab_size, "tied": c.tie_word_embeddings},
    {
        "head.bias": Piece("final_logits_bias", row=True, optional=True),
        "head.output.bias": Piece("final_logits_bias", row=True, optional=True),
        "head.output": "lm_head",
    },
)

ARCHITECTURE = Architecture(
    model_type="bart",
    kind="encoder-decoder",
    classes="Bart",
    prefix="model",
    defaults=DEFAULTS,
    allowed=ALLOWED,
    standard=STANDARD,
    bodies=options,
    names=NAMES | EMBEDDINGS,
    heads={"ForConditionalGeneration": WORDS},
)
