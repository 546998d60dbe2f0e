"""The tiny BERT of the golden files: its sizes, and the names of its parameters in them."""

from __future__ import annotations

from golden import golden

import qkv
from qkv import models

SIZES = dict(
    vocab_size=30,
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=64,
    max_position_embeddings=16,
)
PARTS = {
    "emb.word": "embeddings.word_embeddings.weight",
    "emb.position": "embeddings.position_embeddings.weight",
    "emb.type": "embeddings.token_type_embeddings.weight",
    "emb.ln.g": "embeddings.LayerNorm.weight",
    "emb.ln.b": "embeddings.LayerNorm.bias",
    "pooler.W": "pooler.dense.weight",
    "pooler.b": "pooler.dense.bias",
    "mlm.W": "cls.predictions.transform.dense.weight",
    "mlm.b": "cls.predictions.transform.dense.bias",
    "mlm.ln.g": "cls.predictions.transform.LayerNorm.weight",
    "mlm.ln.b": "cls.predictions.transform.LayerNorm.bias",
    "mlm.bias": "cls.predictions.bias",
    "nsp.W": "cls.seq_relationship.weight",
    "nsp.b": "cls.seq_relationship.bias",
}
LAYER = {
    **{f"att.W{name[0]}": f"attention.self.{name}.weight" for name in ("query", "key", "value")},
    **{f"att.b{name[0]}": f"attention.self.{name}.bias" for name in ("query", "key", "value")},
    "att.Wo": "attention.output.dense.weight",
    "att.bo": "attention.output.dense.bias",
    "ln1.g": "attention.output.LayerNorm.weight",
    "ln1.b": "attention.output.LayerNorm.bias",
    "ff.W1": "intermediate.dense.weight",
    "ff.b1": "intermediate.dense.bias",
    "ff.W2": "output.dense.weight",
    "ff.b2": "output.dense.bias",
    "ln2.g": "output.LayerNorm.weight",
    "ln2.b": "output.LayerNorm.bias",
}  # fmt: skip
PARTS |= {
    f"layer.{i}.{short}": f"encoder.layer.{i}.{long}" for i in range(2) for short, long in LAYER.items()
}
HEADS = ("cls", "tag", "pair")  # classifiers


def own_name(short: str, head: str = "") -> str:
    """Return the name of a golden parameter in a model with a head."""
    if head and short.startswith(head + "."):
        return "classifier." + ("weight" if short.endswith("W") else "bias")
    name = PARTS[short]
    return name if name.startswith("cls.") else "bert." + name


def parameters(kind: type, head: str = "") -> dict[str, object]:
    """Return the golden parameters that a model of this kind has."""
    params = golden("D3-23").params()
    names = {k: own_name(k, head) for k in params if k in PARTS or (head and k.startswith(head + "."))}
    if kind is models.BertModel:
        return {PARTS[k]: params[k] for k in PARTS if not PARTS[k].startswith("cls.")}
    if kind is models.BertForPreTraining:
        return {name: params[k] for k, name in names.items()}
    kept = {k: n for k, n in names.items() if not n.startswith("cls.")}
    if kind is models.BertForMaskedLM:
        kept = {k: n for k, n in names.items() if "seq_relationship" not in n}
    if kind in (models.BertForMaskedLM, models.BertForTokenClassification):
        kept = {k: n for k, n in kept.items() if "pooler" not in n}
    return {name: params[k] for k, name in kept.items()}


def tiny(kind: type, head: str = "", dtype: str = "float64", **changes: object):
    """Make a model of this kind with the golden parameters."""
    model = kind(models.BertConfig(**{**SIZES, **changes})).to(dtype).eval()
    model.load_state_dict(parameters(kind, head))
    return model


def train(model, loss, steps: int) -> list[float]:
    """Return the losses before each of some steps of Adam."""
    optimizer = qkv.optim.Adam(model.parameters(), lr=1e-3)
    losses = []
    for _ in range(steps):
        model.zero_grad()
        value = loss()
        losses.append(value.item())
        value.backward()
        optimizer.step()
    return losses
