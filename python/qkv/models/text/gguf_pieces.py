"""SentencePiece models of the scores and types of tokens that GGUF files hold."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from .sentencepieces import BYTE, CONTROL, NORMAL, OWN, UNKNOWN, SentencePieces, never_divided

IDENTITY, PAIRS = b"\x0a\x08identity", 2  # a normalizer's name; the model that joins pairs by their scores


def pieces_of(
    words: Sequence[str], scores: Any, types: Any, prefixed: bool, unknown: int | None
) -> SentencePieces:
    """Return what divides texts as llama.cpp does with these tokens.

    Parameters
    ----------
    words, scores, types : sequence
        The tokens, what decides which pairs are joined first, and SentencePiece's numbers of types.
    prefixed : bool
        Write a space before each part between special tokens.
    unknown : int, optional
        The id of the token for words that no other token is of; where a type says which, that counts.
    """
    count = len(words)
    if not isinstance(scores, list) or len(scores) != count or not all(isinstance(x, float) for x in scores):
        raise ValueError(f"tokenizer.ggml.scores must hold a number for each of {count} tokens")
    kinds = list(types) if isinstance(types, list) and len(types) == count else [NORMAL] * count
    first = kinds.index(UNKNOWN) if UNKNOWN in kinds else (unknown or 0)
    kinds = [NORMAL if kind == UNKNOWN and i != first else kind for i, kind in enumerate(kinds)]
    kinds[first] = UNKNOWN
    model = b"".join(
        _field(1, _field(1, word.encode()) + b"\x15" + struct.pack("<f", score) + b"\x18" + _number(kind))
        for word, score, kind in zip(words, scores, kinds, strict=True)
    )
    falls_back = kinds.count(BYTE) == 256
    trainer = b"\x18" + _number(PAIRS) + _number(35 << 3) + _number(falls_back)
    for name, place in (("unk_id", 40), ("bos_id", 41), ("eos_id", 42), ("pad_id", 43)):
        trainer += _number(place << 3) + _number(first if name == "unk_id" else 2**64 - 1)
    trainer += _field(45, words[first].encode())
    model += _field(2, trainer) + _field(3, IDENTITY + b"\x18" + _number(prefixed) + b"\x20\x00\x28\x01")
    made = SentencePieces(model)
    made.add_special_tokens(
        never_divided(w) for w, kind in zip(words, kinds, strict=True) if kind in (CONTROL, UNKNOWN)
    )
    made.add_tokens(
        never_divided(w, special=False) for w, kind in zip(words, kinds, strict=True) if kind == OWN
    )
    return made


def _number(value: int) -> bytes:
    """Return a number as protocol buffers write it, seven bits at a time."""
    parts = bytearray()
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    return bytes([*parts, value])


def _field(number: int, content: bytes) -> bytes:
    """Return a field of bytes."""
    return _number(number << 3 | 2) + _number(len(content)) + content
