"""What the tables of BART's family share: options of both sides, names and heads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .architecture import HeadTable, Options, Piece, language_head, projections
from .configuration import Configuration


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


def side(own: str) -> dict[str, str]:
    """Give the names of one side."""
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
    """Give the scores of words, with a bias that training leaves as it is."""
    return language_head(names=LOGITS_BIAS, outputs=outputs, bias=lambda c: True, fixed_bias=lambda c: True)
