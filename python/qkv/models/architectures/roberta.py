"""RoBERTa: BERT whose positions begin behind the number of the padding."""

from __future__ import annotations

from ..architecture import Architecture, HeadTable, Options
from ..configuration import Configuration

DEFAULTS = {
    "vocab_size": 50265, "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12,
    "intermediate_size": 3072, "hidden_act": "gelu", "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1, "max_position_embeddings": 512, "type_vocab_size": 2,
    "layer_norm_eps": 1e-12, "pad_token_id": 1, "classifier_dropout": None, "is_decoder": False,
    "tie_word_embeddings": True,
}  # fmt: skip


def block(c: Configuration) -> Options:
    """Give the options of BERT's block."""
    return {
        "nhead": c.num_attention_heads,
        "dim_feedforward": c.intermediate_size,
        "activation": c.activation("hidden_act"),
        "norm_eps": c.layer_norm_eps,
        "placement": "post",
        "dropout": c.hidden_dropout_prob,
        "attention_dropout": c.attention_probs_dropout_prob,
    }


def body(c: Configuration) -> Options:
    """Give the options of BERT's body, with positions by rows."""
    return {
        "layers": [block(c)] * c.num_hidden_layers,
        "d_model": c.hidden_size,
        "vocab_size": c.vocab_size,
        "pad_id": c.pad_token_id,
        "max_positions": c.max_position_embeddings,
        "type_vocab_size": c.get("type_vocab_size", 0),
        "embedding_norm": "layer",
        "norm_eps": c.layer_norm_eps,
        "dropout": c.hidden_dropout_prob,
    }


def counted(c: Configuration) -> Options:
    """Give those of a body whose positions count the ids that are no padding."""
    return {**body(c), "position_rule": "ids", "position_offset": c.pad_token_id + 1}


NAMES = {
    "embedding": "embeddings.word_embeddings",
    "position_embedding": "embeddings.position_embeddings",
    "type_embedding": "embeddings.token_type_embeddings",
    "embedding_norm": "embeddings.LayerNorm",
    "layers.{}.self_attn.q_proj": "encoder.layer.{}.attention.self.query",
    "layers.{}.self_attn.k_proj": "encoder.layer.{}.attention.self.key",
    "layers.{}.self_attn.v_proj": "encoder.layer.{}.attention.self.value",
    "layers.{}.self_attn.out_proj": "encoder.layer.{}.attention.output.dense",
    "layers.{}.norm1": "encoder.layer.{}.attention.output.LayerNorm",
    "layers.{}.linear1": "encoder.layer.{}.intermediate.dense",
    "layers.{}.linear2": "encoder.layer.{}.output.dense",
    "layers.{}.norm2": "encoder.layer.{}.output.LayerNorm",
}


def words(c: Configuration, width: int | None = None) -> Options:
    """Give the head that fills in words: dense, activation, norm, and the words' table."""
    return {
        "outputs": c.vocab_size,
        "inner": width or c.hidden_size,
        "activation": "gelu",
        "norm_eps": c.layer_norm_eps,
        "tied": c.tie_word_embeddings,
    }


def labels(
    c: Configuration, inner: bool = False, activation: str = "tanh", dropout: float | None = None
) -> Options:
    """Give a head of classes, of the first row behind a dense layer, or of every row."""
    options: Options = {"outputs": c.num_labels, "dropout": dropout or c.get("classifier_dropout", 0.1)}
    return options | ({"inner": c.hidden_size, "activation": activation, "pooling": "first"} if inner else {})


POOLER = HeadTable(
    lambda c: {"inner": c.hidden_size, "activation": "tanh", "pooling": "first"},
    {"pooler.dense": "pooler.dense"},
)
WORDS = HeadTable(
    words,
    {
        "head.dense": "lm_head.dense",
        "head.norm": "lm_head.layer_norm",
        "head.bias": "lm_head.bias",
        "head.output": "lm_head.decoder",
        "head.output.bias": "lm_head.bias",
    },
)
TOKENS = HeadTable(labels, {"head.output": "classifier"})
CLASSES = HeadTable(
    lambda c: labels(c, inner=True), {"head.dense": "classifier.dense", "head.output": "classifier.out_proj"}
)

ARCHITECTURE = Architecture(
    model_type="roberta",
    kind="encoder",
    classes="Roberta",
    prefix="roberta",
    defaults=DEFAULTS,
    allowed={"is_decoder": (False,)},
    bodies=lambda c: {"body": counted(c)},
    names=NAMES,
    heads={"ForMaskedLM": WORDS, "ForSequenceClassification": CLASSES, "ForTokenClassification": TOKENS},
    pooler=POOLER,
)
