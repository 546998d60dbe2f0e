"""BERT, and what the tables of its family share: entries of configurations, options, names and heads."""

from __future__ import annotations

from dataclasses import replace

from .bert_config import ALLOWED, DEFAULTS, NULLS, BertConfig
from .configuration import Configuration, sizes
from .table import Architecture, HeadTable, Options, answers, head_names, projections

NAMES = {
    "embedding": "embeddings.word_embeddings",
    "position_embedding": "embeddings.position_embeddings",
    "type_embedding": "embeddings.token_type_embeddings",
    "embedding_norm": "embeddings.LayerNorm",
    **projections(
        "layers.{}.self_attn",
        "encoder.layer.{}.attention.",
        ("self.query", "self.key", "self.value", "output.dense"),
    ),
    "layers.{}.norm1": "encoder.layer.{}.attention.output.LayerNorm",
    "layers.{}.linear1": "encoder.layer.{}.intermediate.dense",
    "layers.{}.linear2": "encoder.layer.{}.output.dense",
    "layers.{}.norm2": "encoder.layer.{}.output.LayerNorm",
}


def block(c: Configuration) -> Options:
    """Return the options of BERT's block."""
    return {
        **sizes(c),
        "norm_eps": c.layer_norm_eps,
        "placement": "post",
        "dropout": c.hidden_dropout_prob,
        "attention_dropout": c.attention_probs_dropout_prob,
    }


def body(c: Configuration) -> Options:
    """Return the options of BERT's body, with positions by rows."""
    return {
        "layers": [block(c)] * c.num_hidden_layers,
        "d_model": c.hidden_size,
        "vocab_size": c.vocab_size,
        "pad_id": c.get("pad_token_id"),
        "max_positions": c.max_position_embeddings,
        "type_vocab_size": c.get("type_vocab_size", 0),
        "embedding_norm": "layer",
        "norm_eps": c.layer_norm_eps,
        "dropout": c.hidden_dropout_prob,
    }


def halves(both: Options) -> tuple[Options, Options]:
    """Split a body's options into those of its embeddings and of its layers, whose parts have the file's names."""

    def under(start: str) -> dict[str, str]:
        return {
            own.removeprefix("layers.{}."): theirs.removeprefix(start)
            for own, theirs in NAMES.items()
            if theirs.startswith(start)
        }

    whole = dict(both)
    paths = {"self_attn": "attention.self", **under("encoder.layer.{}.")}
    paths |= {"dropout1": "attention.output.dropout", "dropout2": "output.dropout"}
    layers = [{**layer, "names": paths} for layer in whole.pop("layers")]
    embeddings = {**whole, "names": {**under("embeddings."), "dropout": "dropout"}}
    return embeddings, {"layers": layers, "d_model": whole["d_model"], "names": {"layers": "layer"}}


def masked_words(
    dense: str,
    norm: str,
    output: str,
    bias: str | None = None,
    *,
    width: str = "hidden_size",
    activation: str | None = None,
    norm_eps: float | None = None,
) -> HeadTable:
    """Return the head that fills in words: dense, activation (an entry's, or gelu), norm, and the words' table."""
    return HeadTable(
        lambda c: {
            "outputs": c.vocab_size,
            "inner": c.get(width),
            "activation": c.activation(activation) if activation else "gelu",
            "norm_eps": norm_eps or c.layer_norm_eps,
            "tied": c.tie_word_embeddings,
        },
        head_names(output, dense, norm, bias),
        untied={} if bias is None else {"head.output.bias": f"{output}.bias"},
        copies={} if bias is None else {bias: f"{output}.bias"},
    )


def labels(
    dense: str | None = None,
    output: str = "classifier",
    *,
    activation: str = "tanh",
    entry: str | None = None,
    dropout: str | None = None,
) -> HeadTable:
    """Return classes of every row; with a matrix before, and an activation or an entry's, of the first row."""

    def options(c: Configuration) -> Options:
        p = c.get(dropout or "classifier_dropout", c.get("hidden_dropout_prob", 0.1))
        function = c.activation(entry) if entry else activation
        first = {"inner": c.hidden_size, "activation": function, "pooling": "first"}
        return {"outputs": c.num_labels, "dropout": p, **(first if dense else {})}

    return HeadTable(options, head_names(output, dense))


POOLER = HeadTable(
    lambda c: {"inner": c.hidden_size, "activation": "tanh", "pooling": "first"},
    {"pooler.dense": "pooler.dense"},
)

WORDS = masked_words(
    "cls.predictions.transform.dense",
    "cls.predictions.transform.LayerNorm",
    "cls.predictions.decoder",
    "cls.predictions.bias",
    activation="hidden_act",
)
ARCHITECTURE = Architecture(
    model_type="bert",
    kind="encoder",
    classes="Bert",
    prefix="bert",
    defaults=DEFAULTS,
    allowed=ALLOWED,
    nulls=NULLS,
    bodies=lambda c: {"body": body(c)},
    names=NAMES,
    heads={
        "ForPreTraining": HeadTable(
            WORDS.options,
            {"head.follows": "cls.seq_relationship", "head.output": "cls.predictions.decoder"},
            pooler=True,
        ),
        "ForMaskedLM": WORDS,
        "ForSequenceClassification": replace(labels(), pooler=True),
        "ForTokenClassification": labels(),
        "ForQuestionAnswering": answers(),
    },
    pooler=POOLER,
    configure=BertConfig.from_dict,
    # The heads of other models, and buffers.
    beside=r"(cls|classifier|qa_outputs|dropout)\.|(bert\.)?pooler\.|(bert\.)?embeddings\.(position|token_type)_ids$",
)
