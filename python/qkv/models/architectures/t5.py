"""T5: an encoder-decoder whose positions are a relative bias that the layers of a side share; no scale."""

from __future__ import annotations

from .bart import end_classes
from .configuration import Configuration
from .table import Architecture, HeadTable, Options, answers, biases, language_head, projections


def options(c: Configuration) -> dict[str, Options]:
    """Return both bodies'."""
    activation, gated = c.gated_activation("feed_forward_proj")
    block = {
        "nhead": c.num_heads,
        "head_dim": c.d_kv,
        "dim_feedforward": c.d_ff,
        "activation": activation,
        "gated": gated,
        "norm": "rms",
        "norm_eps": c.layer_norm_epsilon,
        "scale": 1.0,
        **biases(False, False),
        **dict.fromkeys(("dropout", "inner_dropout", "attention_dropout"), c.dropout_rate),
    }
    body = {"d_model": c.d_model, "vocab_size": c.vocab_size, "dropout": c.dropout_rate}
    body |= {"final_norm": "rms", "norm_eps": c.layer_norm_epsilon}
    bias = {
        "num_buckets": c.relative_attention_num_buckets,
        "max_distance": c.relative_attention_max_distance,
    }
    above = {**block, "is_causal": c.is_causal, "memory": True}
    layers = {"encoder": [block] * c.num_layers, "decoder": [above] * (c.num_decoder_layers or c.num_layers)}
    return {
        side: {**body, "layers": own, "relative_bias": {**bias, "bidirectional": side == "encoder"}}
        for side, own in layers.items()
    }


def names(c: Configuration) -> dict[str, str]:
    """Return all names; a layer's parts are under the numbers of the sublayers."""
    found = {"encoder.embedding": "shared", "decoder.embedding": "shared"}
    for side, last in (("encoder", 1), ("decoder", 2)):
        ours, theirs = f"{side}.layers.{{}}.", f"{side}.block.{{}}.layer."
        found |= projections(ours + "self_attn", theirs + "0.SelfAttention.", "qkvo")
        found |= {f"{ours}norm{i + 1}": f"{theirs}{i}.layer_norm" for i in range(last + 1)}
        parts = {"linear1": "wi", "linear2": "wo"}
        if c.gated_activation("feed_forward_proj")[1]:
            parts = {"linear_gate": "wi_0", "linear1": "wi_1", "linear2": "wo"}
        found |= {ours + own: f"{theirs}{last}.DenseReluDense.{name}" for own, name in parts.items()}
        found[f"{side}.relative_bias"] = f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias"
        found[f"{side}.norm"] = f"{side}.final_layer_norm"
    cross = "decoder.block.{}.layer.1.EncDecAttention."
    return found | projections("decoder.layers.{}.multihead_attn", cross, "qkvo")


def scale(c: Configuration) -> float:
    """Return what a tied head multiplies the features with."""
    return float(c.d_model**-0.5) if c.get("scale_decoder_outputs", c.tie_word_embeddings) else 1.0


OTHER_HEADS = {
    "ForSequenceClassification": end_classes("transformer"),
    "ForTokenClassification": HeadTable(
        lambda c: {"outputs": c.num_labels, "dropout": c.classifier_dropout},
        {"head.output": "classifier"},
        encoder_only=True,
        prefix="transformer",
    ),
    "ForQuestionAnswering": answers(),
}
DEFAULTS = {
    "vocab_size": 32128, "d_model": 512, "d_kv": 64, "d_ff": 2048, "num_layers": 6,
    "num_decoder_layers": None, "num_heads": 8, "relative_attention_num_buckets": 32,
    "relative_attention_max_distance": 128, "dropout_rate": 0.1, "layer_norm_epsilon": 1e-6,
    "feed_forward_proj": "relu", "tie_word_embeddings": True,
    "is_causal": True, "classifier_dropout": 0.0,
}  # fmt: skip

ARCHITECTURE = Architecture(
    model_type="t5",
    kind="encoder-decoder",
    classes="T5",
    prefix="",
    defaults=DEFAULTS,
    allowed={"is_decoder": (False, True)},  # each side knows which it is
    nulls={"is_causal": False},
    bodies=options,
    names=names,
    heads=dict.fromkeys(("ForConditionalGeneration", "WithLMHeadModel"), language_head(scale=scale))
    | OTHER_HEADS,
    encoder_only="EncoderModel",
)
