"""T5: an encoder-decoder without positions but for a relative bias that the layers of a side share; no scale."""

from __future__ import annotations

from ..architecture import Architecture, HeadTable, Options
from ..configuration import ACTIVATIONS, Configuration


def activation(c: Configuration) -> tuple[str, bool]:
    """Give the activation and whether it is gated: ``relu``, ``gated-gelu``, ``gated-silu``."""
    kind, _, name = c.feed_forward_proj.rpartition("-")
    name = "gelu_new" if c.feed_forward_proj == "gated-gelu" else name
    if kind not in ("", "gated") or name not in ACTIVATIONS:
        raise ValueError(
            f"feed_forward_proj must be an activation or gated- and one; got {c.feed_forward_proj[:100]!r}"
        )
    return ACTIVATIONS[name], kind == "gated"


def options(c: Configuration) -> dict[str, Options]:
    """Give both bodies'."""
    name, gated = activation(c)
    block = {
        "nhead": c.num_heads,
        "head_dim": c.d_kv,
        "dim_feedforward": c.d_ff,
        "activation": name,
        "gated": gated,
        "norm": "rms",
        "norm_eps": c.layer_norm_epsilon,
        "placement": "pre",
        "bias": False,
        "qkv_bias": False,
        "out_bias": False,
        "dropout": c.dropout_rate,
        "inner_dropout": c.dropout_rate,
        "attention_dropout": c.dropout_rate,
        "scale": 1.0,
    }
    body = {
        "d_model": c.d_model,
        "vocab_size": c.vocab_size,
        "final_norm": "rms",
        "norm_eps": c.layer_norm_epsilon,
        "dropout": c.dropout_rate,
    }
    buckets = {
        "num_buckets": c.relative_attention_num_buckets,
        "max_distance": c.relative_attention_max_distance,
    }
    decoder = [{**block, "is_causal": True, "memory": True}] * (c.num_decoder_layers or c.num_layers)
    return {
        "encoder": {
            **body,
            "layers": [block] * c.num_layers,
            "relative_bias": {**buckets, "bidirectional": True},
        },
        "decoder": {**body, "layers": decoder, "relative_bias": {**buckets, "bidirectional": False}},
    }


def side(own: str, feed_forward: int) -> dict[str, str]:
    """Give the names of one side, whose feed-forward networks have this number among the sublayers."""
    layer, block = f"{own}.layers.{{}}.", f"{own}.block.{{}}.layer."
    dense = f"{block}{feed_forward}.DenseReluDense."
    names = {f"{layer}self_attn.{x}_proj": f"{block}0.SelfAttention.{x[0]}" for x in ("q", "k", "v", "out")}
    return names | {
        f"{own}.relative_bias": f"{own}.block.0.layer.0.SelfAttention.relative_attention_bias",
        f"{layer}norm1": f"{block}0.layer_norm",
        f"{layer}norm{feed_forward + 1}": f"{block}{feed_forward}.layer_norm",
        f"{layer}linear1": dense + "wi",
        f"{layer}linear2": dense + "wo",
        f"{own}.norm": f"{own}.final_layer_norm",
    }


GATED = {
    f"{own}.layers.{{}}.{ours}": f"{own}.block.{{}}.layer.{n}.DenseReluDense.{theirs}"
    for own, n in (("encoder", 1), ("decoder", 2))
    for ours, theirs in (("linear_gate", "wi_0"), ("linear1", "wi_1"))
}
CROSS = {
    f"decoder.layers.{{}}.multihead_attn.{x}_proj": f"decoder.block.{{}}.layer.1.EncDecAttention.{x[0]}"
    for x in ("q", "k", "v", "out")
} | {"decoder.layers.{}.norm2": "decoder.block.{}.layer.1.layer_norm"}


def names(c: Configuration) -> dict[str, str]:
    """Give all names; gated networks have two matrices in place of one."""
    both = side("encoder", 1) | side("decoder", 2) | CROSS | (GATED if activation(c)[1] else {})
    return {"encoder.embedding": "shared", "decoder.embedding": "shared", **both}


WORDS = HeadTable(
    lambda c: {
        "outputs": c.vocab_size,
        "tied": c.tie_word_embeddings,
        "bias": False,
        "scale": c.d_model**-0.5 if c.get("scale_decoder_outputs", c.tie_word_embeddings) else 1.0,
    },
    {"head.output": "lm_head"},
)


DEFAULTS = {
    "vocab_size": 32128, "d_model": 512, "d_kv": 64, "d_ff": 2048, "num_layers": 6,
    "num_decoder_layers": None, "num_heads": 8, "relative_attention_num_buckets": 32,
    "relative_attention_max_distance": 128, "dropout_rate": 0.1, "layer_norm_epsilon": 1e-6,
    "feed_forward_proj": "relu", "tie_word_embeddings": True,
}  # fmt: skip

ARCHITECTURE = Architecture(
    model_type="t5",
    kind="encoder-decoder",
    classes="T5",
    prefix="",
    defaults=DEFAULTS,
    standard={
        "hidden_size": "d_model",
        "num_hidden_layers": "num_layers",
        "num_attention_heads": "num_heads",
    },
    bodies=options,
    names=names,
    heads={"ForConditionalGeneration": WORDS, "WithLMHeadModel": WORDS},
    encoder_only="EncoderModel",
)
