"""Texts and pairs of texts as tokens, cut where they are too long."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Set
from typing import Any

from ..._words.errors import integer_of, shown
from .library import errors_as

HALVES = re.compile("[\ud800-\udfff]")  # of characters beyond 16 bits, alone


def checked_texts(operation: str, texts: Iterable[object]) -> list[str]:
    """Return texts as a list, unless there is something else, or half a character, which has no encoding."""
    if not isinstance(texts, Iterable) or isinstance(texts, (bytes, Mapping, Set)):
        raise TypeError(f"{operation}: texts must be a sequence of strings; got {shown(texts)}")
    sentences = []
    for i, text in enumerate(texts):
        if not isinstance(text, str):
            raise TypeError(f"{operation}: texts must be strings; got {type(text).__name__} at position {i}")
        if half := HALVES.search(text):
            raise ValueError(
                f"{operation}: texts must hold whole characters; got {half[0]!r}, half of one, at position {i}"
            )
        sentences.append(text)
    return sentences


def is_pair(value: Any) -> bool:
    """Return whether something is two texts."""
    return isinstance(value, (tuple, list)) and len(value) == 2 and all(isinstance(x, str) for x in value)


def with_seconds(operation: str, texts: Any, text_pair: Any) -> tuple[list[str], list[str] | None]:
    """Return first and second texts of a call: two arguments, or a list of pairs."""
    if text_pair is None:
        listed = (
            texts if isinstance(texts, (str, Mapping)) or not isinstance(texts, Iterable) else list(texts)
        )
        if not (isinstance(listed, list) and listed and all(map(is_pair, listed))):
            return checked_texts(operation, listed), None
        texts, text_pair = zip(*listed, strict=True)
    first, second = checked_texts(operation, texts), checked_texts(operation, text_pair)
    if isinstance(text_pair, str) or len(first) != len(second):
        raise ValueError(
            f"{operation}: text_pair must hold one text for each of texts; got {len(first)} and "
            f"{'one str' if isinstance(text_pair, str) else len(second)}"
        )
    return first, second


def encodings(
    operation: str, made: Any, first: list[str], second: list[str] | None, length: int | None, left: bool
) -> list[Any]:
    """Return the tokens of texts, or of pairs of texts, with those around them, at most so many."""
    with errors_as(f"{operation}: the tokenizer must know what is around a text"):
        around = made.num_special_tokens_to_add(is_pair=second is not None)
    if length is not None and integer_of(operation, "max_length", length) < around:
        raise ValueError(
            f"{operation}: max_length must be at least {around}, the tokens around a text; got {length}"
        )
    # A vocabulary may lack the word for unknown ones, say.
    with errors_as(f"{operation}: the tokenizer must have a number for every text"):
        whole = second is None and length is None
        found: list[Any] = made.encode_batch_fast(first, add_special_tokens=whole)
        if whole:
            return found
        others = [None] * len(found)
        if second is not None:
            others = made.encode_batch_fast(second, add_special_tokens=False)
        if length is not None:  # the library would keep the length where other threads see it
            for one, two in zip(found, others, strict=True):
                _cut(one, two, length - around, "left" if left else "right")
        return [made.post_process(one, two) for one, two in zip(found, others, strict=True)]


def _cut(one: Any, two: Any, length: int, side: str) -> None:
    """Keep so many tokens; of a pair the longer text loses first, as in the package tokenizers."""
    if two is None:
        one.truncate(length, direction=side)
        return
    short, long = sorted((len(one.ids), len(two.ids)))
    if short + long <= length:
        return
    swapped = len(one.ids) > len(two.ids)
    long = short if short > length else max(short, length - short)
    if short + long > length:
        short, long = length // 2, length // 2 + length % 2
    one.truncate(long if swapped else short, direction=side)
    two.truncate(short if swapped else long, direction=side)
