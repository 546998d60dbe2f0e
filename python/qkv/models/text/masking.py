"""The masking of words by which BERT is trained."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from ... import _core
from ..._public import explained
from ..._words.errors import count_of, integer_of
from ...random import Generator, rand, randint

IGNORED = -100


@explained
def mask_tokens(
    ids: Any,
    *,
    vocab_size: int,
    mask_id: int,
    special_ids: Collection[int] = (),
    special_mask: Any = None,
    probability: float = 0.15,
    rng: Generator | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Choose words to be guessed: of them 80 % become the mask, 10 % a random word, 10 % stay.

    Parameters
    ----------
    ids : array_like of int
        ``(B, L)`` or any other shape.
    vocab_size : int
        Random words are drawn from all of ``0 .. vocab_size - 1``.
    mask_id : int
        The number of ``[MASK]``.
    special_ids : collection of int
        Numbers that are never chosen: padding, ``[CLS]``, ``[SEP]``.
    special_mask : array_like of bool, optional
        Shape of `ids`; True at further places that are never chosen.
    probability : float
        Of a place to be chosen.
    rng : Generator, optional
        The default generator if not given.

    Returns
    -------
    inputs, labels : np.ndarray
        int64, the shape of `ids`. `labels` holds the word where one was chosen and -100 elsewhere, which
        :func:`qkv.losses.cross_entropy` leaves out.

    Raises
    ------
    ValueError, TypeError
        If an id or `mask_id` is not in the vocabulary, a shape does not fit, or `probability` is not one.

    References
    ----------
    Devlin et al., 2018, section 3.1.

    Examples
    --------
    >>> _ = qkv.manual_seed(0)
    >>> inputs, labels = qkv.models.mask_tokens([[2, 5, 6, 7, 3, 0]], vocab_size=30, mask_id=4, special_ids=(0, 2, 3),
    ...                                         probability=1.0)
    >>> labels
    array([[-100,    5,    6,    7, -100, -100]])
    """
    words = _core.as_numpy(ids, "mask_tokens", "ids")
    if words.dtype.kind not in "iu":
        raise TypeError(f"mask_tokens: ids must be integers; got ids of {words.dtype}")
    words = words.astype(np.int64)
    count_of("mask_tokens", "vocab_size", vocab_size, 1)
    if words.size and not (words.min() >= 0 and words.max() < vocab_size):
        raise ValueError(
            f"mask_tokens: ids must be from 0 to vocab_size - 1 = {vocab_size - 1}; got {words.min()} to {words.max()}"
        )
    if not 0 <= integer_of("mask_tokens", "mask_id", mask_id) < vocab_size:
        raise ValueError(
            f"mask_tokens: mask_id must be from 0 to vocab_size - 1 = {vocab_size - 1}; got {mask_id}"
        )
    if not 0 <= probability <= 1:
        raise ValueError(f"mask_tokens: probability must be from 0 to 1; got {probability}")
    free = ~np.isin(words, list(special_ids))
    if special_mask is not None:
        excluded = np.asarray(special_mask)
        if excluded.shape != words.shape:
            raise ValueError(
                f"mask_tokens: special_mask must have the shape of ids {words.shape}; got special_mask {excluded.shape}"
            )
        free &= ~excluded.astype(bool)
    shape = words.shape
    whole, mine = _batch_of(shape) if rng is None else (shape, slice(None))
    chosen = (np.asarray(rand(*whole, rng=rng))[mine] < probability) & free
    fate = np.asarray(rand(*whole, rng=rng))[mine]
    others = np.asarray(randint(0, vocab_size, whole, rng=rng))[mine]
    inputs = np.where(chosen & (fate < 0.8), mask_id, words)
    inputs = np.where(chosen & (fate >= 0.8) & (fate < 0.9), others, inputs)
    return inputs, np.where(chosen, words, IGNORED)


def _batch_of(shape: tuple[int, ...]) -> tuple[tuple[int, ...], slice]:
    """Return the shape of the batch that rows are a part of, and which: several processes draw what one would."""
    first, count, total = _core.batch_part()
    if not count or not shape or shape[0] % count:
        return shape, slice(None)
    each = shape[0] // count
    return (total * each, *shape[1:]), slice(first * each, (first + count) * each)
