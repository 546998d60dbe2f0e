"""Phi-3: Llama with packed matrices, rotary positions of a part of the features, and a window."""

from __future__ import annotations

from dataclasses import replace

from .configuration import Configuration, head_width, rotary, windows
from .llama import ARCHITECTURE as LLAMA
from .llama import NAMES, WITHOUT_BIAS, block, body
from .table import Names, Options, Piece, decoder_heads


def options(c: Configuration) -> dict[str, Options]:
    """Return the body's; a part of the features may turn."""
    part = (c.get("rope_parameters") or {}).get("partial_rotary_factor", c.get("partial_rotary_factor", 1.0))
    more = {**rotary(c, part=None if part == 1 else part), "dropout": c.resid_pdrop}
    kinds = ["sliding_attention"] * c.num_hidden_layers
    return body(c, [block(c, **more, **window) for window in windows(c, kinds)])


def names(c: Configuration) -> Names:
    """Return all names; queries, keys and values are one matrix, gates and inner features another."""
    width = head_width(c)
    keys = (c.num_key_value_heads or c.num_attention_heads) * width
    rows = (c.num_attention_heads * width, keys, keys)
    own, inner = "layers.{}.self_attn.", "layers.{}.mlp.gate_up_proj"
    packed = {f"{own}{x}_proj": Piece(f"{own}qkv_proj", i, 3, rows) for i, x in enumerate("qkv")}
    return {
        **NAMES,
        **packed,
        "layers.{}.linear_gate": Piece(inner, 0, 2),
        "layers.{}.linear1": Piece(inner, 1, 2),
    }


ARCHITECTURE = replace(
    LLAMA,
    model_type="phi3",
    classes="Phi3",
    defaults=WITHOUT_BIAS
    | {
        "vocab_size": 32064,
        "hidden_size": 3072,
        "intermediate_size": 8192,
        "max_position_embeddings": 4096,
        "original_max_position_embeddings": 4096,
        "rms_norm_eps": 1e-5,
        "resid_pdrop": 0.0,
        "sliding_window": None,
        "pad_token_id": 32000,
    },
    nulls={"is_causal": False, "pad_token_id": None},
    bodies=options,
    names=names,
    heads={"ForCausalLM": LLAMA.heads["ForCausalLM"], **decoder_heads()},
)
