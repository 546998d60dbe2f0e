"""Tokenizers in files: tokenizer.json, the words of a BERT model, or words and merges."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..files.folders import LARGEST_JSON, optional_json
from .gguf_vocabulary import set_parts
from .library import errors_as, library
from .sentencepieces import MODELS, from_sentencepieces
from .settings import (
    add_tokens,
    apply_class,
    bert_normalizer,
    class_named,
    special_tokens,
    with_ends,
)


def read_tokenizer(folder: Path, settings: dict[str, Any]) -> tuple[Any, str]:
    """Make the tokenizer of a folder, as its settings say, and return the name of its class."""
    name = class_named(folder, settings)
    readers: dict[str, Callable[[Path, dict[str, Any], str], Any]] = {
        "tokenizer.json": from_json,
        **dict.fromkeys(MODELS, from_sentencepieces),
        "vocab.txt": from_words,
        "merges.txt": from_merges,
    }
    for file, read in readers.items():
        path = folder / file
        if path.is_file():
            if path.stat().st_size > LARGEST_JSON:
                what = " of JSON" if path.suffix == ".json" else ""
                raise ValueError(
                    f"{path}: must be at most {LARGEST_JSON} bytes{what}; got {path.stat().st_size}"
                )
            made = read(path, settings, name)
            add_tokens(made, path, settings)
            return made, name
    others = ", ".join([*list(MODELS)[:-1], "vocab.txt", "vocab.json with merges.txt"])
    raise FileNotFoundError(
        f"{folder / 'tokenizer.json'}: this file must exist, or vocab.txt beside it, or another of {others}; "
        "there is none"
    )


def from_json(path: Path, settings: dict[str, Any], name: str) -> Any:
    """Read a tokenizer as the package writes it."""
    with errors_as(f"{path}: must hold a tokenizer"):
        made = library().Tokenizer.from_file(str(path))
    apply_class(made, name, settings)
    own = settings.get("auto_map")
    if isinstance(own, dict) and "AutoTokenizer" in own and {"add_bos_token", "add_eos_token"} & {*settings}:
        with_ends(made, settings)  # programs beside such a file read these entries, the library does not
    return made


def from_words(path: Path, settings: dict[str, Any], name: str) -> Any:
    """Make BERT's tokenizer of a list of words, one per line."""
    try:
        words = path.read_text(encoding="utf8").split("\n")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: must hold words in UTF-8; {error}") from None
    numbers = {word: i for i, word in enumerate(w.rstrip("\r") for w in words) if word}
    given = special_tokens(settings)
    usual = {k: f"[{k.upper()}]" for k in ("unk", "sep", "cls", "pad", "mask")}
    of_mpnet = name == "MPNetTokenizer" and "<s>" in numbers
    if of_mpnet:
        usual |= {"sep": "</s>", "cls": "<s>", "pad": "<pad>", "mask": "<mask>"}
    names = {k: given.get(f"{k}_token", word) for k, word in usual.items()}
    missing = [names[kind] for kind in ("unk", "sep", "cls") if names[kind] not in numbers]
    if missing:
        raise ValueError(f"{path}: must hold the words of BERT's vocabulary; missing: {', '.join(missing)}")
    with errors_as(f"{path}: must hold the words of BERT's vocabulary"):
        return _of_words(library(), numbers, names, settings, of_mpnet)


def _of_words(
    parts: Any, numbers: dict[str, int], names: dict[str, str], settings: dict[str, Any], of_mpnet: bool
) -> Any:
    made = parts.Tokenizer(parts.models.WordPiece(numbers, unk_token=names["unk"]))
    made.normalizer = bert_normalizer(settings)
    made.pre_tokenizer = parts.pre_tokenizers.BertPreTokenizer()
    around = parts.processors.RobertaProcessing if of_mpnet else parts.processors.BertProcessing
    made.post_processor = around((names["sep"], numbers[names["sep"]]), (names["cls"], numbers[names["cls"]]))
    made.decoder = parts.decoders.WordPiece()
    made.add_special_tokens([word for word in names.values() if word in numbers])
    return made


def from_merges(path: Path, settings: dict[str, Any], name: str) -> Any:
    """Make a tokenizer of bytes, as GPT-2, RoBERTa, BART and Qwen have it, of vocab.json and merges.txt."""
    words, parts = path.with_name("vocab.json"), library()
    numbers = optional_json(words)
    if not numbers:
        raise FileNotFoundError(f"{words}: this file must exist beside merges.txt; there is none")
    with errors_as(f"{path}: must hold merges of the words of vocab.json"):
        vocabulary, merges = parts.models.BPE.read_file(str(words), str(path))
        made = parts.Tokenizer(parts.models.BPE(vocabulary, merges, fuse_unk=False))
        prefixed = bool(settings.get("add_prefix_space", False))
        set_parts(made, parts, "qwen2" if name == "Qwen2Tokenizer" else "gpt-2", prefixed)
        given = special_tokens(settings)
        if name in ("RobertaTokenizer", "BartTokenizer"):
            usual = {"bos": "<s>", "eos": "</s>", "sep": "</s>", "cls": "<s>", "unk": "<unk>", "pad": "<pad>"}
        else:
            usual = dict.fromkeys(("bos", "eos", "unk"), "<|endoftext|>")
        words_of = {k: given.get(f"{k}_token", word) for k, word in usual.items()}
        made.add_special_tokens(
            [w for w in dict.fromkeys(words_of.values()) if w in vocabulary]
            + ["<mask>"] * ("sep" in usual and "<mask>" in vocabulary)
        )
        if "sep" in usual:
            sep, cls = ((words_of[k], vocabulary[words_of[k]]) for k in ("sep", "cls"))
            made.post_processor = parts.processors.RobertaProcessing(sep, cls, add_prefix_space=prefixed)
        else:
            ends = {f"{k}_token": word for k, word in words_of.items()}
            with_ends(made, {**ends, **settings})
    return made
