"""Which edition of the book the helpers are of, said where a call or a name is that of another one."""

from __future__ import annotations

import functools
from typing import NoReturn

from ..._words.errors import refusal
from .._outside import equal_of

EDITION = "qkv.torch.d2l is that of the English edition 1.0"
_RENAMED = {"EncoderBlock": "d2l.TransformerEncoderBlock", "NWKernelRegression": "qkv.NadarayaWatson"}


def refuse(name: str) -> NoReturn:
    """Say that there is no such helper."""
    equal = _RENAMED.get(name) or equal_of(name)
    words = (
        f"d2l: qkv.torch has no {name!r}; it holds what chapters on attention take; {EDITION} (docs/torch.md)"
    )
    raise AttributeError(words + (f"; see {equal}" if equal else ""))


def says_edition(cls: type) -> None:
    """Let a class say what it takes, and in which edition, where a call does not fit."""
    init = cls.__init__  # type: ignore[misc]

    @functools.wraps(init)
    def __init__(self, *args, **options) -> None:  # noqa: N807
        try:
            init(self, *args, **options)
        except TypeError as error:
            reached = error.__traceback__.tb_next is not None  # type: ignore[union-attr]  # a line of it
            words = None if reached else refusal(init, (self, *args), tuple(options))
            if words is None:
                raise
            raise TypeError(f"{words}; {EDITION}") from None

    cls.__init__ = __init__  # type: ignore[misc]
