"""Tokenizers in files: tokenizer.json, or the words of a BERT model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .files import LARGEST_JSON


def library() -> Any:
    """Import the package when it is needed."""
    try:
        import tokenizers
    except ImportError as error:
        raise ImportError(
            "qkv.models: texts need the package tokenizers; install it: pip install 'qkv[models]'"
        ) from error
    return tokenizers


def from_json(path: Path) -> Any:
    """Read a tokenizer as the package writes it."""
    if path.stat().st_size > LARGEST_JSON:
        raise ValueError(f"{path}: must be at most {LARGEST_JSON} bytes of JSON; got {path.stat().st_size}")
    try:
        return library().Tokenizer.from_file(str(path))
    except ImportError:
        raise
    except BaseException as error:  # the library raises bare exceptions, and its panics are BaseExceptions
        if isinstance(error, (KeyboardInterrupt, SystemExit)):
            raise
        raise ValueError(f"{path}: must hold a tokenizer; {error}") from None


def from_words(path: Path, settings: dict[str, Any]) -> Any:
    """Make BERT's tokenizer of a list of words, one per line."""
    if path.stat().st_size > LARGEST_JSON:
        raise ValueError(f"{path}: must be at most {LARGEST_JSON} bytes; got {path.stat().st_size}")
    try:
        words = path.read_text(encoding="utf8").split("\n")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: must hold words in UTF-8; {error}") from None
    numbers = {word: i for i, word in enumerate(w.rstrip("\r") for w in words) if word}
    names = {kind: str(settings.get(f"{kind}_token", f"[{kind.upper()}]")) for kind in ("unk", "sep", "cls")}
    missing = [name for name in names.values() if name not in numbers]
    if missing:
        raise ValueError(f"{path}: must hold the words of BERT's vocabulary; missing: {', '.join(missing)}")
    parts = library()
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
    made.add_special_tokens([name for name in (*names.values(), "[PAD]", "[MASK]") if name in numbers])
    return made
