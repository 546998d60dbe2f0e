"""Tokens as people read them: bytes as characters, where they are some."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np


def ids_of_row(ids: Any) -> list[int] | None:
    """Return numbers of tokens as integers, or None if they are something else."""
    try:
        given = np.asarray(ids)
    except (ValueError, TypeError):  # rows of different lengths, say
        return None
    is_row = given.ndim == 1 and (given.dtype.kind in "iu" or given.size == 0)
    return given.tolist() if is_row and ((given >= 0) & (given < 2**32)).all() else None


def shown_names(tokenizer: Any, names: list[str]) -> list[str]:
    """Return tokens as text, where the vocabulary is one of bytes."""
    decoder = tokenizer.decoder
    of_bytes = decoder is not None and "ByteLevel" in repr(decoder)
    return [_from_bytes(name) for name in names] if of_bytes else names


@functools.cache
def _byte_signs() -> dict[str, int]:
    """Return the characters that represent bytes in vocabularies of bytes, as GPT-2 chose them."""
    printable = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + i): byte for i, byte in enumerate(others)}


def _from_bytes(name: str) -> str:
    signs = _byte_signs()
    if not all(sign in signs for sign in name):  # of a special token
        return name
    found = bytes(signs[sign] for sign in name)
    try:
        return found.decode()
    except UnicodeDecodeError:
        return "".join(f"<0x{byte:02X}>" if byte >= 0x80 else chr(byte) for byte in found)
