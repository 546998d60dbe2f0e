"""What a generation_config forbids and forces, as Hugging Face's libraries do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np


def numbers(value: Any) -> list[int]:
    """Return the ids of an entry that is one, a list of them, or nothing."""
    return (
        [] if value is None else [int(v) for v in value] if isinstance(value, (list, tuple)) else [int(value)]
    )


class Rules:
    """The rules of one call; ``apply`` changes the scores of the next token.

    Parameters
    ----------
    entries : mapping
        Of a generation_config.json.
    ends : list of int
        Tokens that end a text.
    first : int
        How many ids are before the new ones.
    length : int
        How many there will be at most, with those before.
    source : array, optional
        The ids that an encoder read.
    skipped : array, optional
        How many ids at the left of each row are padding.
    """

    def __init__(
        self,
        entries: Mapping[str, Any],
        ends: list[int],
        first: int,
        length: int,
        source: np.ndarray | None = None,
        skipped: np.ndarray | None = None,
    ) -> None:
        if entries.get("force_bos_token_to_be_generated"):  # of old BART
            entries = {"forced_bos_token_id": entries.get("bos_token_id"), **entries}
        self.entries, self.ends, self.first, self.length, self.source = entries, ends, first, length, source
        self.skipped = skipped
        bad = entries.get("bad_words_ids") or []
        self.bad_words = [
            list(map(int, words)) for words in bad if list(words) not in [[end] for end in ends]
        ]
        new = entries.get("min_new_tokens")
        shortest = int(entries.get("min_length") or 0) if new is None else first + int(new)
        self.shortest = shortest if ends else 0
        forced = first == 1 and entries.get("forced_bos_token_id") is not None
        self.free = first + forced  # ids before the first one that is chosen

    def reorder(self, indices: np.ndarray) -> None:
        """Continue with other rows."""
        self.source = None if self.source is None else self.source[indices]
        self.skipped = None if self.skipped is None else self.skipped[indices]

    def apply(self, ids: np.ndarray, scores: np.ndarray) -> np.ndarray:
        """Return the scores (N, V) after ids (N, T), changed by all rules."""
        e, count = self.entries, ids.shape[1]
        scores = scores.copy()
        penalty = e.get("repetition_penalty")
        if penalty not in (None, 1, 1.0):
            for b, row in enumerate(ids):
                seen = np.unique(row[0 if self.skipped is None else self.skipped[b] :])
                scores[b, seen] = np.where(
                    scores[b, seen] < 0, scores[b, seen] * penalty, scores[b, seen] / penalty
                )
        size = int(e.get("no_repeat_ngram_size") or 0)
        if size > 0:
            _forbid_repeats(scores, ids, ids, size)
        size = int(e.get("encoder_no_repeat_ngram_size") or 0)
        if size > 0 and self.source is not None:
            _forbid_repeats(scores, self.source, ids, size)
        for words in self.bad_words:
            _check_ids("bad_words_ids", words[-1:], scores)
            before = np.array(words[:-1], np.int64)
            if len(before) <= count:
                scores[(ids[:, count - len(before) :] == before).all(axis=1), words[-1]] = -np.inf
        if count < self.shortest:
            _forbid(scores, self.ends)
        if count == self.first == 1:
            scores = self._only(scores, "forced_bos_token_id")
        if count == self.length - 1:
            scores = self._only(scores, "forced_eos_token_id")
        _forbid(scores, numbers(e.get("suppress_tokens")))
        if count == self.free:
            _forbid(scores, numbers(e.get("begin_suppress_tokens")))
        return scores

    def _only(self, scores: np.ndarray, name: str) -> np.ndarray:
        """Allow the ids of an entry alone, where it has any."""
        tokens = numbers(self.entries.get(name))
        if not tokens:
            return scores
        _check_ids(name, tokens, scores)
        forced = np.full_like(scores, -np.inf)
        forced[:, tokens] = 0
        return forced


def _check_ids(name: str, tokens: list[int], scores: np.ndarray) -> None:
    words = scores.shape[1]
    if not all(0 <= token < words for token in tokens):
        raise ValueError(
            f"generate: {name} must have ids from 0 to vocab_size - 1 = {words - 1}; got {tokens!r:.100}"
        )


def _forbid(scores: np.ndarray, tokens: list[int]) -> None:
    """Forbid tokens; ids beyond the words forbid nothing."""
    scores[:, [token for token in tokens if 0 <= token < scores.shape[1]]] = -np.inf


def _forbid_repeats(scores: np.ndarray, texts: np.ndarray, ids: np.ndarray, size: int) -> None:
    """Forbid what would make a run of `size` ids that a text has already."""
    if ids.shape[1] + 1 < size or texts.shape[1] < size:
        return
    runs = np.lib.stride_tricks.sliding_window_view(texts, size, axis=1)  # (N, T - size + 1, size)
    last = ids[:, ids.shape[1] - size + 1 :]
    row, place = np.nonzero((runs[:, :, :-1] == last[:, None]).all(axis=2))
    following = runs[row, place, -1]
    words = following < scores.shape[1]  # an encoder may have more
    scores[row[words], following[words]] = -np.inf
