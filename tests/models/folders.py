"""A small pretrained folder for the tests: a model, a tokenizer, and what sentence-transformers puts around them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

import qkv
from qkv import models

LETTERS = "abcdefghijklmnopqrstuvwxyz"
WORDS = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    *LETTERS,
    *(f"##{x}" for x in LETTERS),
    "dog",
    "cat",
    ".",
]
SIZES = dict(
    vocab_size=len(WORDS), hidden_size=24, num_hidden_layers=2, num_attention_heads=3, intermediate_size=40,
    max_position_embeddings=19, initializer_range=0.3,
)  # fmt: skip
TEXTS = [
    "dog",
    "a dog runs.",
    "the cat and the dogs run away from it all",
    "",
    "Cats ...",
    "dog",
    "ünknöwn 東",
]


def make_model(kind=models.BertModel, seed=0, **changes):
    """Make a model whose LayerNorms and biases are not the initial ones."""
    qkv.manual_seed(seed)
    model = kind(models.BertConfig(**{**SIZES, **changes})).eval()
    for i, (_, p) in enumerate(model.named_parameters()):
        p.copy_(p.numpy() + 0.1 * np.random.default_rng(i).standard_normal(p.shape))
    return model


def make_folder(
    folder: Path, *, tokenizer: str = "vocab.txt", pooling=("mean",), normalize=True, length=11
) -> Path:
    """Write a sentence-transformers folder."""
    make_model().save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n", encoding="utf8")
    if tokenizer == "tokenizer.json":
        models.Tokenizer.from_pretrained(folder).tokenizer.save(str(folder / "tokenizer.json"))
        (folder / "vocab.txt").unlink()
    parts = [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")]
    entries = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (path, kind) in enumerate(parts if normalize else parts[:2])
    ]
    (folder / "1_Pooling").mkdir(exist_ok=True)
    keys = {models.sentences.pooling.POOLINGS[name]: True for name in pooling}
    write(folder / "modules.json", entries)
    write(
        folder / "1_Pooling" / "config.json",
        {"word_embedding_dimension": 24, "pooling_mode_mean_tokens": False, **keys},
    )
    write(folder / "sentence_bert_config.json", {"max_seq_length": length, "do_lower_case": False})
    return folder


def write(path: Path, value: object) -> None:
    path.write_text(json.dumps(value), encoding="utf8")


def change(path: Path, **entries: object) -> None:
    """Replace entries of a JSON file."""
    write(path, {**json.loads(path.read_text(encoding="utf8")), **entries})
