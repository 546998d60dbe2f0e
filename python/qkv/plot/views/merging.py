"""Weights over words instead of pieces, and without special tokens."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from ..._public import explained
from ..._words.errors import shown
from .heads import Layers, Weights, layers_of, sentence_of

_SPECIAL = re.compile(r"\[[A-Z]+\d*\]|<[^<>\s]+>")
_STARTS = "Ġ▁"  # marks of byte-level tokenizers and of SentencePiece: a word begins

Words = bool | Sequence[int | None]


@explained
def by_words(
    weights: Weights,
    tokens: Sequence[Any],
    key_tokens: Sequence[Any] | None = None,
    *,
    words: Words = True,
    key_words: Words | None = None,
    hide: bool | Collection[str] = False,
    item: int = 0,
) -> tuple[Any, ...]:
    """Merge pieces to words, and leave tokens out, for the views that take weights.

    What a word's pieces attend to is averaged, what its pieces get is summed, so that rows sum to what they did; what
    rows give to tokens that are left out is missing in their sums.

    Parameters
    ----------
    weights : array or Tensor (Lq, Lk), (H, Lq, Lk) or (B, H, Lq, Lk), a list of such arrays, or a recording
        A list holds the layers. Of a recording all weights are taken.
    tokens : sequence of Lq str
        The queries' tokens; or B such sequences.
    key_tokens : sequence of Lk str, optional
        The keys' tokens; the queries' unless given.
    words : bool or sequence of (int or None)
        The word of each token, as ``Tokenizer.words`` returns them; None is a token by itself. True tells pieces by
        their marks (``##`` before a piece, or one of ``Ġ`` and ``▁`` before each word); False merges nothing.
    key_words : bool or sequence of (int or None), optional
        The same of `key_tokens`.
    hide : bool or collection of str
        Tokens that are left out, as they are before they are merged. True: those in brackets, such as ``[SEP]`` and
        ``</s>``.
    item : int
        Which sentence of a batch.

    Returns
    -------
    layers : list of ndarray, (H, words, words) each
    words : list of str
    key_words : list of str
        Where `key_tokens` are given.

    Raises
    ------
    ValueError
        If weights or words do not fit the tokens in number, or no token is left.

    Examples
    --------
    >>> tokens = ["[CLS]", "un", "##like", "##ly", "[SEP]"]
    >>> layers, words = qkv.plot.by_words(np.full((2, 5, 5), 0.2), tokens, hide=True)
    >>> words, layers[0].shape, float(layers[0][0, 0, 0].round(3))
    (['unlikely'], (2, 1, 1), 0.6)
    >>> view = qkv.plot.head_view(*qkv.plot.by_words(np.full((2, 5, 5), 0.2), tokens))
    """
    name = "by_words"
    layers, _ = layers_of(name, weights, item)
    layers, queries, keys = sentence_of(name, layers, tokens, key_tokens, item)
    rows, names = _groups(name, queries, words, hide)
    if key_tokens is None:
        columns, key_names = rows, names
    else:
        columns, key_names = _groups(name, keys, words if key_words is None else key_words, hide)
    summed = [np.stack([layer[..., group].sum(-1) for group in columns], -1) for layer in layers]
    merged: Layers = [np.stack([layer[:, group].mean(1) for group in rows], 1) for layer in summed]
    return (merged, names) if key_tokens is None else (merged, names, key_names)


def _groups(name: str, tokens: list[str], words: Any, hide: Any) -> tuple[list[list[int]], list[str]]:
    """Return the places of the tokens of each word that is left, and the words."""
    if isinstance(words, bool):
        numbers = _told(tokens) if words else [None] * len(tokens)
    else:
        numbers = list(words)
        if len(numbers) != len(tokens):
            raise ValueError(
                f"{name}: words must have {len(tokens)} entries, one for each token; got {len(numbers)}"
            )
    hidden = hide if isinstance(hide, bool) else {hide} if isinstance(hide, str) else set(hide)
    groups: list[list[int]] = []
    before: Any = None
    for place, (token, number) in enumerate(zip(tokens, numbers, strict=True)):
        if (hidden is True and _SPECIAL.fullmatch(token)) or (
            hidden and hidden is not True and token in hidden
        ):
            before = None
            continue
        if number is not None and number == before:
            groups[-1].append(place)
        else:
            groups.append([place])
        before = number
    if not groups:
        raise ValueError(f"{name}: hide must leave a token because weights are drawn; got {shown(hide)}")
    pieces = [[tokens[place] for place in group] for group in groups]
    return groups, [group[0] if words is False else _word(group) for group in pieces]


def _told(tokens: list[str]) -> list[int | None]:
    """Return the words of pieces by their marks."""
    marked = any(token[:1] in _STARTS for token in tokens if token)
    found: list[int | None] = []
    count = 0
    for token in tokens:
        if _SPECIAL.fullmatch(token):
            found.append(None)
            count += 1
            continue
        goes_on = token[:1] not in _STARTS if marked else token.startswith("##") and len(token) > 2
        count += not goes_on
        found.append(count)
    return found


def _word(pieces: list[str]) -> str:
    first, *others = pieces
    return "".join([first.lstrip(_STARTS) or first, *(piece.removeprefix("##") for piece in others)])
