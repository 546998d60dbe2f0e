"""GPT-NeoX (Pythia): both sublayers beside each other, rotary positions of a part of the features."""

from __future__ import annotations

from .configuration import Configuration, rotary, sizes
from .table import Architecture, Options, biases, decoder_heads, language_head, only_body, packed


def options(c: Configuration) -> dict[str, Options]:
    """Return the body's; old files say ``rotary_pct`` and ``rotary_emb_base``."""
    part = c.get("rotary_pct", 0.25)
    part = (c.get("rope_parameters") or {}).get("partial_rotary_factor", part)
    turned = rotary(c, base=c.get("rotary_emb_base"), part=part)
    block = {
        **sizes(c),
        "norm_eps": c.layer_norm_eps,
        "placement": "parallel" if c.use_parallel_residual else "pre",
        "dropout": c.hidden_dropout,
        "attention_dropout": c.attention_dropout,
        **biases(c.attention_bias, True),
        "is_causal": c.is_causal,
        **turned,
    }
    common = {"final_norm": "layer", "norm_eps": c.layer_norm_eps, "dropout": c.hidden_dropout}
    return only_body(c, [block] * c.num_hidden_layers, position_rule="mask", **common)


DEFAULTS = {
    "vocab_size": 50432, "hidden_size": 6144, "num_hidden_layers": 44, "num_attention_heads": 64,
    "intermediate_size": 24576, "hidden_act": "gelu", "attention_dropout": 0.0, "hidden_dropout": 0.0,
    "max_position_embeddings": 2048, "layer_norm_eps": 1e-5, "use_parallel_residual": True,
    "classifier_dropout": 0.1, "attention_bias": True, "tie_word_embeddings": False, "is_causal": True,
}  # fmt: skip

ARCHITECTURE = Architecture(
    model_type="gpt_neox",
    kind="causal",
    classes="GPTNeoX",
    prefix="gpt_neox",
    defaults=DEFAULTS,
    allowed={"is_decoder": (False, True)},
    nulls={"is_causal": False},
    bodies=options,
    names={
        "embedding": "embed_in",
        "layers.{}.norm1": "layers.{}.input_layernorm",
        **packed("layers.{}.attention.query_key_value", by_heads=True),
        "layers.{}.self_attn.out_proj": "layers.{}.attention.dense",
        "layers.{}.norm2": "layers.{}.post_attention_layernorm",
        "layers.{}.linear1": "layers.{}.mlp.dense_h_to_4h",
        "layers.{}.linear2": "layers.{}.mlp.dense_4h_to_h",
        "norm": "final_layer_norm",
    },
    heads={"ForCausalLM": language_head("embed_out"), **decoder_heads("classifier", "gpt_neox")},
)
