"""Tokens and titles as pages and figures can hold them."""

from __future__ import annotations

import unicodedata
from typing import Any


def readable(token: Any) -> str:
    """Return a token with control characters and lone surrogates as Python escapes them, so that a page can hold it."""
    text = str(token)
    if text.isprintable():
        return text
    return "".join(repr(sign)[1:-1] if unicodedata.category(sign) in ("Cc", "Cs") else sign for sign in text)


def readable_title(text: Any) -> str:
    """Return a title or a name of an axis, of any number of lines, in the same way; "" for None."""
    return "" if text is None else "\n".join(map(readable, str(text).split("\n")))
