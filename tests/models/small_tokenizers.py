"""Folders with small trained tokenizers, as Hugging Face's library and SentencePiece write them."""

from __future__ import annotations

import functools
import json
from pathlib import Path

from models.folders import write

TEXTS = [
    "The Dog runs in the park.",
    "",
    "Ünïcode Äpfel, straße",
    "a  b\n\tc",
    "東京 dog <ent> cat",
    "hello <mask> [MASK] world!",
    "it's 2023123 dogs",
    "user says <|im_end|> and </s> and [SEP] here",
    "the end of a long text stays or its beginning stays, as the folder says",
]
CORPUS = [
    *TEXTS,
    "the quick brown fox jumps over the lazy dog",
    "The cat and the dogs run away from it all, 12 34.",
    "Attention weights are what a query gives to keys",
] * 20
SPECIAL = {
    "bert": ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"],
    "bytes": ["<s>", "<pad>", "</s>", "<unk>", "<mask>", "<|endoftext|>"],
    "unigram": ["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
}


def trained(kind: str, lower: bool = True) -> str:
    """Return a trained tokenizer as JSON: WordPiece as BERT's, bytes as RoBERTa's, or unigrams as XLM-RoBERTa's."""
    return _trained(kind, lower)  # once in a process: training is not the same each time


@functools.cache
def _trained(kind: str, lower: bool) -> str:
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

    special = SPECIAL[kind]
    if kind == "bert":
        made = Tokenizer(models.WordPiece(unk_token="[UNK]"))
        made.normalizer, made.pre_tokenizer = (
            normalizers.BertNormalizer(lowercase=lower),
            pre_tokenizers.BertPreTokenizer(),
        )
        trainer = trainers.WordPieceTrainer(vocab_size=220, special_tokens=special, show_progress=False)
        made.decoder = decoders.WordPiece()
    elif kind == "bytes":
        made = Tokenizer(models.BPE())
        made.pre_tokenizer, made.decoder = (
            pre_tokenizers.ByteLevel(add_prefix_space=False),
            decoders.ByteLevel(),
        )
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        trainer = trainers.BpeTrainer(
            vocab_size=400, special_tokens=special, initial_alphabet=alphabet, show_progress=False
        )
    else:
        made = Tokenizer(models.Unigram())
        made.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()]
        )
        made.decoder = decoders.Metaspace()
        trainer = trainers.UnigramTrainer(
            vocab_size=150, special_tokens=special, unk_token="<unk>", show_progress=False
        )
    made.train_from_iterator([text.lower() if kind == "bert" and lower else text for text in CORPUS], trainer)
    first, last = ("[CLS]", "[SEP]") if kind == "bert" else ("<s>", "</s>")
    pair = f"{first} $A {last} $B:1 {last}:1" if kind == "bert" else f"{first} $A {last} {last} $B {last}"
    ends = [(word, made.token_to_id(word)) for word in (first, last)]
    made.post_processor = processors.TemplateProcessing(
        single=f"{first} $A {last}", pair=pair, special_tokens=ends
    )
    return made.to_str()


def folder_of(
    path: Path,
    kind: str,
    model_type: str | None,
    settings: dict | None = None,
    lower: bool = True,
    **files: dict,
) -> Path:
    """Write a folder with such a tokenizer, the type of the model, and settings."""
    path.mkdir(parents=True, exist_ok=True)
    (path / "tokenizer.json").write_text(trained(kind, lower), encoding="utf8")
    if model_type is not None:
        write(path / "config.json", {"model_type": model_type})
    if settings is not None:
        write(path / "tokenizer_config.json", settings)
    return path


def change_file(path: Path, change) -> None:
    """Change a file of JSON."""
    entries = json.loads(path.read_text(encoding="utf8"))
    change(entries)
    write(path, entries)
