"""Beam search as Hugging Face's libraries do it: finished texts leave their place to others."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ...functions.sorting import topk

Hypotheses = list[tuple[list[int], float, None]]


class Beams:
    """The hypotheses of one prompt.

    Parameters
    ----------
    count : int
        How many are continued, and how many finished ones are kept.
    ends : sequence of int
        Tokens that finish a hypothesis.
    length_penalty : float
        Finished ones are ranked by ``log p / length ** length_penalty``.
    early_stopping : bool or "never"
        True stops with ``count`` finished ones; False when the best of the others would not be among them at its
        length, "never" when it could not be at any length.
    longest : int
        Most tokens; with these every hypothesis is finished.
    """

    def __init__(
        self,
        count: int,
        ends: Sequence[int],
        length_penalty: float,
        early_stopping: bool | str,
        longest: int,
    ) -> None:
        self.count, self.ends, self.longest = count, frozenset(ends), longest
        self.length_penalty, self.early_stopping = length_penalty, early_stopping
        self.running: list[tuple[float, list[int]]] = [(0.0, [])]
        self.finished: list[tuple[float, list[int]]] = []

    @property
    def wanted(self) -> int:
        """How many continuations are looked at: `count` of them remain even if all others end."""
        return max(2, 1 + len(self.ends)) * self.count

    def advance(self, log_probs: np.ndarray, tokens: np.ndarray) -> list[int]:
        """Continue by the likeliest tokens (N, K) of each row; return which rows are continued, none at the end."""
        flat = (log_probs + np.array([score for score, _ in self.running])[:, None]).ravel()
        best = np.argsort(-flat, kind="stable")[: self.wanted]  # ties go to the earlier row and token
        before, self.running = self.running, []
        parents: list[int] = []
        length = len(before[0][1]) + 1
        for place, at in enumerate(best):
            parent, column = divmod(int(at), log_probs.shape[1])
            token, score = int(tokens[parent, column]), float(flat[at])
            if score == -np.inf:
                break
            ids = [*before[parent][1], token]
            if token in self.ends or length == self.longest:
                if place < self.count:
                    self.finished.append((score / length**self.length_penalty, ids))
            elif len(self.running) < self.count:
                self.running.append((score, ids))
                parents.append(parent)
        self.finished = sorted(self.finished, key=lambda one: -one[0])[: self.count]
        return parents if self._may_improve(length) else []

    def _may_improve(self, length: int) -> bool:
        if not self.running or len(self.finished) < self.count:
            return bool(self.running)
        if self.early_stopping is True:
            return False
        most = self.early_stopping == "never" and self.length_penalty > 0
        best = self.running[0][0] / (self.longest if most else length) ** self.length_penalty
        return bool(best > self.finished[-1][0])

    def found(self) -> Hypotheses:
        """Return the finished ones, best first; the running ones where all others are impossible."""
        return [(ids, score, None) for score, ids in self.finished or self.running[:1]]


def search(
    step: Callable[[np.ndarray], np.ndarray],
    reorder: Callable[[np.ndarray], None],
    first: np.ndarray,
    every: Sequence[Beams],
) -> list[Hypotheses]:
    """Continue all prompts together. ``step(tokens (N,))`` returns log-probabilities (N, V) of what follows."""
    tokens, open_ones = first, list(every)
    while open_ones:
        scores, begin = step(tokens), 0
        scores = np.where(np.isnan(scores), -np.inf, scores) if np.isnan(scores).any() else scores
        likely, words = topk(scores, min(every[0].wanted, scores.shape[1]))
        rows: list[int] = []
        following: list[int] = []
        left = []
        for beams in open_ones:
            end = begin + len(beams.running)
            parents = beams.advance(likely[begin:end], words[begin:end])
            if parents:
                left.append(beams)
                rows += [begin + parent for parent in parents]
                following += [ids[-1] for _, ids in beams.running]
            begin = end
        open_ones, tokens = left, np.array(following, np.int64)
        if left:
            reorder(np.array(rows, np.int64))
    return [beams.found() for beams in every]
