"""GPT-2: norms before the sublayers, learned positions, matrices stored as (in, out)."""

from __future__ import annotations

from .configuration import Configuration
from .table import Architecture, Options, Piece, decoder_heads, language_head, only_body, packed


def options(c: Configuration) -> dict[str, Options]:
    """Return the body's; the scale of the scores may fall with the number of the layer."""
    width, heads = c.n_embd, c.n_head
    layers = []
    for i in range(c.n_layer):
        scale = (width // heads) ** -0.5 if c.scale_attn_weights else 1.0
        layers.append(
            {
                "nhead": heads,
                "dim_feedforward": c.n_inner or 4 * width,
                "activation": c.activation("activation_function"),
                "norm_eps": c.layer_norm_epsilon,
                "placement": "pre",
                "dropout": c.resid_pdrop,
                "attention_dropout": c.attn_pdrop,
                "is_causal": c.is_causal,
                "scale": scale / (i + 1) if c.scale_attn_by_inverse_layer_idx else scale,
            }
        )
    common = {"final_norm": "layer", "norm_eps": c.layer_norm_epsilon, "dropout": c.embd_pdrop}
    return only_body(c, layers, max_positions=c.n_positions, position_rule="mask", **common)


DEFAULTS = {
    "vocab_size": 50257, "n_positions": 1024, "n_embd": 768, "n_layer": 12, "n_head": 12, "n_inner": None,
    "activation_function": "gelu_new", "resid_pdrop": 0.1, "embd_pdrop": 0.1, "attn_pdrop": 0.1,
    "layer_norm_epsilon": 1e-5, "scale_attn_weights": True, "scale_attn_by_inverse_layer_idx": False,
    "tie_word_embeddings": True, "is_causal": True,
}  # fmt: skip

ARCHITECTURE = Architecture(
    model_type="gpt2",
    kind="causal",
    classes="GPT2",
    prefix="transformer",
    defaults=DEFAULTS,
    nulls={"is_causal": False},
    bodies=options,
    names={
        "embedding": "wte",
        "position_embedding": "wpe",
        "layers.{}.norm1": "h.{}.ln_1",
        **packed("h.{}.attn.c_attn", transposed=True),
        "layers.{}.self_attn.out_proj": Piece("h.{}.attn.c_proj", transposed=True),
        "layers.{}.norm2": "h.{}.ln_2",
        "layers.{}.linear1": Piece("h.{}.mlp.c_fc", transposed=True),
        "layers.{}.linear2": Piece("h.{}.mlp.c_proj", transposed=True),
        "norm": "ln_f",
    },
    heads={"LMHeadModel": language_head(), **decoder_heads("classifier", "transformer")},
)
