"""BLOOM: scores fall with the distance (ALiBi), and a norm is after the embeddings."""

from __future__ import annotations

from .configuration import Configuration
from .table import Architecture, Options, decoder_heads, language_head, only_body, packed


def options(c: Configuration) -> dict[str, Options]:
    """Return the body's."""
    block = {
        "nhead": c.n_head,
        "dim_feedforward": 4 * c.hidden_size,
        "activation": "gelu_tanh",
        "norm_eps": c.layer_norm_epsilon,
        "placement": "pre",
        "dropout": c.hidden_dropout,
        "attention_dropout": c.attention_dropout,
        "is_causal": True,
        "alibi": True,
    }
    norms = {"embedding_norm": "layer", "final_norm": "layer", "norm_eps": c.layer_norm_epsilon}
    return only_body(c, [block] * c.n_layer, position_rule="mask", **norms)


DEFAULTS = {
    "vocab_size": 250880, "hidden_size": 64, "n_layer": 2, "n_head": 8, "layer_norm_epsilon": 1e-5,
    "hidden_dropout": 0.0, "attention_dropout": 0.0, "tie_word_embeddings": True,
    "is_causal": True,
}  # fmt: skip

ARCHITECTURE = Architecture(
    model_type="bloom",
    kind="causal",
    classes="Bloom",
    prefix="transformer",
    defaults=DEFAULTS,
    # Rows that see what follows would need distances with a sign.
    allowed={"apply_residual_connection_post_layernorm": (False,), "is_causal": (True,)},
    aliases={"n_embed": "hidden_size"},
    bodies=options,
    names={
        "embedding": "word_embeddings",
        "embedding_norm": "word_embeddings_layernorm",
        "layers.{}.norm1": "h.{}.input_layernorm",
        **packed("h.{}.self_attention.query_key_value", by_heads=True),
        "layers.{}.self_attn.out_proj": "h.{}.self_attention.dense",
        "layers.{}.norm2": "h.{}.post_attention_layernorm",
        "layers.{}.linear1": "h.{}.mlp.dense_h_to_4h",
        "layers.{}.linear2": "h.{}.mlp.dense_4h_to_h",
        "norm": "ln_f",
    },
    heads={"ForCausalLM": language_head(), **decoder_heads("classifier", "transformer")},
)
