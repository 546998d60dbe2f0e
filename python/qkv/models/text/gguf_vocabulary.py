"""Tokenizers of the vocabularies in GGUF files."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from ..files.gguf_reader import GgufFile
from ..files.gguf_weights import special_id
from .gguf_pieces import pieces_of
from .library import errors_as
from .settings import ends_processor

LLAMA_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
# Words in which capital letters are before small ones; END is what may follow.
CASED = (
    r"[^\r\n\p{L}\p{N}]?((?=\p{L})([^a-z]))*((?=\p{L})([^A-Z]))+END"
    r"|[^\r\n\p{L}\p{N}]?((?=\p{L})([^a-z]))+((?=\p{L})([^A-Z]))*END|\p{N}DIGITS"
    r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
# llama.cpp's rule for files that name none, one after the other.
NO_NAME = (
    r"[\p{P}\$\+<=>\^~\|]+",
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)",
    r"\p{N}+",
    r"[0-9][0-9][0-9]",
)
SPLITS: dict[str, tuple[str, ...]] = {
    "default": NO_NAME,
    "gpt-4o": (CASED.replace("END", "(?i:'s|'t|'re|'ve|'m|'ll|'d)?").replace("DIGITS", "{1,3}"),),
    "llama-bpe": (LLAMA_WORDS,),
    "qwen2": (LLAMA_WORDS.replace("{1,3}", ""),),
    "smaug-bpe": (LLAMA_WORDS,),
    "tekken": (CASED.replace("END", "").replace("DIGITS", ""),),
}
OTHER_NAMES = {"deepseek-r1-qwen": "qwen2", "llama3": "llama-bpe", "llama-v3": "llama-bpe"}
KNOWN = ("gpt-2", "smollm", *SPLITS, *OTHER_NAMES)
WHOLE_WORDS = ("llama-bpe", "tekken")  # whose vocabularies hold words that no merges lead to
CONTROL, OWN = 3, 4  # types of tokens that are never split


def set_parts(made: Any, library: Any, split: str, prefixed: bool = False) -> None:
    """Split texts as the rule of that name does, with a space before the first word if `prefixed`."""
    parts = library.pre_tokenizers
    if split == "qwen2":
        made.normalizer = library.normalizers.NFC()
    if split in SPLITS:
        rules = [parts.Split(library.Regex(rule), "isolated") for rule in SPLITS[split]]
        made.pre_tokenizer = parts.Sequence(
            [*rules, parts.ByteLevel(add_prefix_space=prefixed, use_regex=False)]
        )
    elif split == "smollm":
        made.pre_tokenizer = parts.Sequence([parts.Digits(True), parts.ByteLevel(add_prefix_space=prefixed)])
    else:
        made.pre_tokenizer = parts.ByteLevel(add_prefix_space=prefixed)
    made.decoder = library.decoders.ByteLevel()


def tokenizer_of(path: Path, library: Any) -> tuple[Any, dict[str, Any]]:
    """Make a tokenizer of a GGUF file's vocabulary, and return what else it says of texts."""
    file = GgufFile(path)
    kind, split = file.said("tokenizer.ggml.model", "tokenizer.ggml.pre")
    of_pieces = kind == "llama"  # SentencePiece's
    if not of_pieces and (kind != "gpt2" or (split or "default") not in KNOWN):
        raise ValueError(
            f"{path}: tokenizer.ggml.model must be gpt2 or llama, and tokenizer.ggml.pre one of "
            f"{', '.join(KNOWN)}; got {kind!r}, {split!r}"
        )
    if not of_pieces and (split or "default") == "default":
        warnings.warn(
            f"{path}: tokenizer.ggml.pre names no rule, so texts are split by llama.cpp's default, which may not be "
            "that of the model",
            UserWarning,
            stacklevel=4,
        )
    split = OTHER_NAMES.get(split, split or "default")
    words, merges, types = file.said(*(f"tokenizer.ggml.{x}" for x in ("tokens", "merges", "token_type")))
    if not words or (merges is None and not of_pieces):
        raise ValueError(f"{path}: must hold tokenizer.ggml.tokens and merges; there are none")
    names = {"bos": "bos", "eos": "eos", "unk": "unknown", "pad": "padding"}
    ids = {ours: special_id(file, theirs) for ours, theirs in names.items()}
    if of_pieces:
        made = _of_pieces(path, file, words, types, ids)
    else:
        made = _of_merges(path, library, words, merges, types, split)
    special = {f"{name}_token": words[i] for name, i in ids.items() if i is not None and i < len(words)}
    before, after, template, architecture = file.said(
        *(f"tokenizer.{x}" for x in ("ggml.add_bos_token", "ggml.add_eos_token", "chat_template")),
        "general.architecture",
    )
    before = (of_pieces or split in WHOLE_WORDS) if before is None else before  # as llama.cpp
    first = [special["bos_token"]] if before and "bos_token" in special else []
    last = [special["eos_token"]] if after and "eos_token" in special else []
    if of_pieces:
        made.ends = (first, last)
    elif first or last:
        made.post_processor = ends_processor(made, first, last)
    [length] = file.said(f"{architecture}.context_length")
    return made, {
        "max_length": length if isinstance(length, int) else None,
        "chat_template": template if isinstance(template, str) else None,
        "special_tokens": special,
        "settings": {"add_bos_token": bool(first), "add_eos_token": bool(last)} if of_pieces else {},
    }


def _of_pieces(path: Path, file: GgufFile, words: Any, types: Any, ids: dict[str, int | None]) -> Any:
    """Make the tokenizer of SentencePiece's tokens; those that the file does not name are llama.cpp's."""
    for name, usual in {"unk": 0, "bos": 1, "eos": 2}.items():
        ids[name] = usual if ids[name] is None else ids[name]
    scores, prefixed = file.said("tokenizer.ggml.scores", "tokenizer.ggml.add_space_prefix")
    with errors_as(f"{path}: must hold tokenizer.ggml.tokens of SentencePiece"):
        return pieces_of(words, scores, types, prefixed is not False, ids["unk"])


def _of_merges(path: Path, library: Any, words: Any, merges: Any, types: Any, split: str) -> Any:
    with errors_as(f"{path}: must hold tokenizer.ggml.tokens and merges of them"):
        vocabulary = {word: number for number, word in enumerate(words)}
        pairs = [tuple(pair.split(" ", 1)) for pair in merges]
        model = library.models.BPE(vocabulary, pairs, fuse_unk=False, ignore_merges=split in WHOLE_WORDS)
        made = library.Tokenizer(model)
        set_parts(made, library, split)
        types = types if isinstance(types, list) else []
        made.add_special_tokens([w for w, t in zip(words, types, strict=False) if t == CONTROL])
        made.add_tokens([w for w, t in zip(words, types, strict=False) if t == OWN])
    return made
