"""Which words may be drawn: the filters that Hugging Face's libraries have beside top_k and top_p."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ...functions.normalizers import log_softmax

MOST = 100  # words that top_h looks at


def keep(
    scores: np.ndarray,
    temperature: float,
    top_k: int | None,
    top_p: float | None,
    others: Mapping[str, float],
) -> np.ndarray:
    """Return scores (N, V), float64, with -inf for the words that a filter leaves out; each sees what is left."""
    scaled = scores / temperature

    def drop(left_out: np.ndarray) -> None:
        best = np.arange(scaled.shape[1]) == scaled.argmax(axis=1)[:, None]
        scaled[left_out & ~best] = -np.inf

    def numbers() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        logs = np.asarray(log_softmax(scaled), np.float64)
        p = np.exp(logs)
        return logs, p, -(p * np.where(p > 0, logs, 0)).sum(axis=1, keepdims=True)

    if "top_h" in others:
        count = min(MOST, scaled.shape[1])
        order = np.argsort(-scaled, axis=1, kind="stable")[:, :count]
        logs = np.asarray(log_softmax(np.take_along_axis(scaled, order, 1)), np.float64)
        p = np.exp(logs)
        parts = -p * np.where(p > 0, logs, 0)
        inside = parts.cumsum(axis=1) <= others["top_h"] * parts.sum(axis=1, keepdims=True)
        kept = np.zeros(scaled.shape, bool)
        np.put_along_axis(kept, order, inside, 1)
        drop(~kept)
    if top_k is not None and top_k < scaled.shape[1]:
        drop(scaled < np.partition(scaled, -top_k, axis=1)[:, -top_k, None])
    if top_p is not None:
        _, p, _ = numbers()
        order = np.argsort(scaled, axis=1, kind="stable")
        small = np.take_along_axis(p, order, 1).cumsum(axis=1) <= 1 - top_p
        left_out = np.zeros(scaled.shape, bool)
        np.put_along_axis(left_out, order, small, 1)
        drop(left_out)
    if "min_p" in others:
        _, p, _ = numbers()
        drop(p < others["min_p"] * p.max(axis=1, keepdims=True))
    if "typical_p" in others:
        _drop_untypical(scaled, numbers(), others["typical_p"])
    if "epsilon_cutoff" in others:
        drop(numbers()[1] < others["epsilon_cutoff"])
    if "eta_cutoff" in others:
        _, p, entropy = numbers()
        drop(p < np.minimum(others["eta_cutoff"], others["eta_cutoff"] ** 0.5 * np.exp(-entropy)))
    return np.where(scaled == -np.inf, -np.inf, scores)


def _drop_untypical(scaled: np.ndarray, numbers: tuple[np.ndarray, ...], mass: float) -> None:
    """Keep the words whose information is nearest to the mean, until they weigh `mass`."""
    logs, p, entropy = numbers
    apart = np.abs(-logs - entropy)
    order = np.argsort(apart, axis=1, kind="stable")
    last = (np.take_along_axis(p, order, 1).cumsum(axis=1) < mass).sum(axis=1).clip(max=p.shape[1] - 1)
    limit = np.take_along_axis(np.take_along_axis(apart, order, 1), last[:, None], 1)
    scaled[apart > limit] = -np.inf
