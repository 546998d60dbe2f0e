"""Tokenizers in files: tokenizer.json, or the words of a BERT model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..._words.errors import needs
from ..files.folders import LARGEST_JSON, optional_json
from .chat import special_tokens

OPTIONS = ("single_word", "lstrip", "rstrip", "normalized", "special")  # of added tokens


def library() -> Any:
    """Import the package when it is needed."""
    with needs("qkv.models: texts need the package tokenizers; install it: pip install 'qkv[models]'"):
        import tokenizers
    return tokenizers


@contextmanager
def errors_as(words: str) -> Iterator[None]:
    """Raise a ValueError of these words for what the package raises, panics too, which are not Exceptions."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit, GeneratorExit, ImportError, MemoryError):
        raise
    except BaseException as error:
        raise ValueError(f"{words}; {' '.join(str(error).splitlines()[:1])}") from None


def from_json(path: Path) -> Any:
    """Read a tokenizer as the package writes it."""
    if path.stat().st_size > LARGEST_JSON:
        raise ValueError(f"{path}: must be at most {LARGEST_JSON} bytes of JSON; got {path.stat().st_size}")
    with errors_as(f"{path}: must hold a tokenizer"):
        return library().Tokenizer.from_file(str(path))


def from_words(path: Path, settings: dict[str, Any]) -> Any:
    """Make BERT's tokenizer of a list of words, one per line."""
    if path.stat().st_size > LARGEST_JSON:
        raise ValueError(f"{path}: must be at most {LARGEST_JSON} bytes; got {path.stat().st_size}")
    try:
        words = path.read_text(encoding="utf8").split("\n")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: must hold words in UTF-8; {error}") from None
    numbers = {word: i for i, word in enumerate(w.rstrip("\r") for w in words) if word}
    given = special_tokens(path.parent, settings)
    names = {k: given.get(f"{k}_token", f"[{k.upper()}]") for k in ("unk", "sep", "cls", "pad", "mask")}
    missing = [names[kind] for kind in ("unk", "sep", "cls") if names[kind] not in numbers]
    if missing:
        raise ValueError(f"{path}: must hold the words of BERT's vocabulary; missing: {', '.join(missing)}")
    with errors_as(f"{path}: must hold the words of BERT's vocabulary"):
        made = _of_words(library(), numbers, names, settings)
    _add_tokens(made, path, settings)
    return made


def _of_words(parts: Any, numbers: dict[str, int], names: dict[str, str], settings: dict[str, Any]) -> Any:
    lower = bool(settings.get("do_lower_case", True))
    accents = settings.get("strip_accents")
    made = parts.Tokenizer(parts.models.WordPiece(numbers, unk_token=names["unk"]))
    made.normalizer = parts.normalizers.BertNormalizer(
        lowercase=lower,
        strip_accents=accents if isinstance(accents, bool) else None,
        handle_chinese_chars=bool(settings.get("tokenize_chinese_chars", True)),
    )
    made.pre_tokenizer = parts.pre_tokenizers.BertPreTokenizer()
    made.post_processor = parts.processors.BertProcessing(
        (names["sep"], numbers[names["sep"]]), (names["cls"], numbers[names["cls"]])
    )
    made.decoder = parts.decoders.WordPiece()
    made.add_special_tokens([name for name in names.values() if name in numbers])
    return made


def _add_tokens(made: Any, path: Path, settings: dict[str, Any]) -> None:
    """Add the tokens that a folder names beside the list of words, under the numbers that it gives them."""
    old = optional_json(path.parent / "added_tokens.json")
    entries: dict[str, Any] = {str(number): {"content": word} for word, number in old.items()}
    named = settings.get("added_tokens_decoder")
    entries |= named if isinstance(named, dict) else {}
    for number, entry in sorted(
        entries.items(), key=lambda item: int(item[0]) if item[0].isdecimal() else -1
    ):
        word = entry.get("content") if isinstance(entry, dict) else None
        if not isinstance(word, str) or not number.isdecimal():
            raise ValueError(
                f"{path}: must be beside added tokens with ids and contents; got {number[:100]!r}"
            )
        given = {name: entry[name] for name in OPTIONS if isinstance(entry.get(name), bool)}
        with errors_as(f"{path}: must have added tokens beside it that the words allow"):
            token = library().AddedToken(word, **given)
            (made.add_special_tokens if given.get("special") else made.add_tokens)([token])
        if made.token_to_id(word) != int(number):
            raise ValueError(
                f"{path}: must hold the words before the added token {word[:100]!r} = {number}; "
                f"it would be {made.token_to_id(word)}"
            )
