"""Text while it is written: characters are told when all of their bytes are there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..._words.errors import shown

LOST = "\ufffd"  # what decoders write for bytes that are no character, or not yet
MOST_BYTES = 3  # of a character that is not whole


class TextStream:
    """Text of the ids that a model chooses, as soon as it is there; :meth:`Tokenizer.stream` makes it.

    Called with the id of each step, it fits ``on_token`` of ``generate``. A character whose bytes are parts of several
    tokens is written with the last of them.

    Attributes
    ----------
    text : str
        What was written so far.
    """

    def __init__(self, tokenizer: Any, write: Callable[[str], Any] | None = None) -> None:
        if write is not None and not callable(write):
            raise TypeError(f"stream: write must be a function of a string; got {shown(write)}")
        self.tokenizer, self.write, self.text = tokenizer, write, ""
        self._ids: list[int] = []
        self._begin = self._end = 0  # of the ids that were written last, with which the next are decoded
        self._told = 0  # characters of those from _begin

    def __call__(self, ids: Any) -> str:
        """Take the id that follows; return the text that is new."""
        given = np.asarray(ids)
        if given.size != 1 or given.dtype.kind not in "iu":
            what = given.shape if given.dtype.kind in "iu" else shown(ids)
            raise TypeError(f"stream: ids must be one whole number, as a stream is of one text; got {what}")
        self._ids.append(int(given.reshape(())))
        return self._written(False)

    def end(self) -> str:
        """Write what is left: bytes that became no character are replacement marks."""
        return self._written(True)

    def _written(self, whole: bool) -> str:
        ids = self._ids[self._begin :]
        now, held = str(self.tokenizer.decode(ids)), False
        if now.endswith(LOST) and not whole:
            held = True
            earlier = (str(self.tokenizer.decode(ids[:-count])) for count in range(1, MOST_BYTES + 1))
            now = next((text for text in earlier if not text.endswith(LOST)), now[:-MOST_BYTES])
        made = now[self._told :]
        self._told = max(self._told, len(now))
        if made and not held:
            self._begin, self._end = self._end, len(self._ids)
            self._told = len(self.tokenizer.decode(self._ids[self._begin :]))
        self.text += made
        if made and self.write is not None:
            self.write(made)
        return made
