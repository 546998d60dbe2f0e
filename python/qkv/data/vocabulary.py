"""Tokens and their numbers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from .._public import explained
from .._words.errors import integer_of, shown, unknown_attribute
from .ragged import as_array, is_array

PAD, UNKNOWN, START, END = "<pad>", "<unk>", "<start>", "<end>"

_WORD = re.compile(r"\w+|[^\w\s]")


@explained
def words(text: str) -> list[str]:
    """Cut a text into words in lower case and single signs.

    Parameters
    ----------
    text : str

    Returns
    -------
    list of str

    Examples
    --------
    >>> qkv.data.words("It's 5 o'clock.")
    ['it', "'", 's', '5', 'o', "'", 'clock', '.']
    """
    if not isinstance(text, str):
        raise TypeError(f"words: text must be a string; got {shown(text)}")
    return _WORD.findall(text.lower())


def _strings(operation: str, name: str, tokens: Any) -> list[str]:
    found = list(tokens) if isinstance(tokens, Iterable) else [tokens]
    for token in found:
        if not isinstance(token, str):
            raise TypeError(f"{operation}: {name} must be strings; got {shown(token)}")
    return found


class Vocabulary:
    """Numbers 0, 1, 2, ... for tokens: characters, words or anything else that is a string.

    Parameters
    ----------
    tokens : iterable of str
        In the order of their numbers; repetitions are dropped.
    specials : sequence of str
        Get the first numbers. In order: what fills up batches, what stands for unknown tokens, and, if there are so
        many, start, end and others, such as BERT's ``[PAD] [UNK] [CLS] [SEP] [MASK]``.

    Attributes
    ----------
    tokens : list of str
        By number, the specials among them.
    pad_id, unknown_id : int
        0 and 1.

    Raises
    ------
    ValueError
        If there are fewer than two specials, or two are the same.
    TypeError
        If a token is no string.

    Examples
    --------
    >>> vocabulary = qkv.data.Vocabulary("abc")
    >>> vocabulary.encode("cab?", start=True, end=True)
    [2, 6, 4, 5, 1, 3]
    >>> vocabulary.decode([2, 6, 4, 5, 3, 0, 0]), len(vocabulary), vocabulary["a"]
    (['c', 'a', 'b'], 7, 4)
    """

    def __init__(self, tokens: Iterable[str], specials: Sequence[str] = (PAD, UNKNOWN, START, END)) -> None:
        specials = [specials] if isinstance(specials, str) else _strings("Vocabulary", "specials", specials)
        if len(specials) < 2 or len(set(specials)) < len(specials):
            raise ValueError(
                "Vocabulary: specials must be at least two different ones, for padding and for unknown tokens; "
                f"got {shown(specials)}"
            )
        self.specials = tuple(specials)
        self.tokens = list(dict.fromkeys((*specials, *_strings("Vocabulary", "tokens", tokens))))
        self.pad_id, self.unknown_id = 0, 1
        self._ids = {token: number for number, token in enumerate(self.tokens)}
        self._has_characters = min(map(len, self.tokens[len(specials) :]), default=1) < 2

    @classmethod
    def of(
        cls,
        texts: Iterable[Iterable[str]],
        *,
        max_size: int | None = None,
        min_count: int = 1,
        specials: Sequence[str] = (PAD, UNKNOWN, START, END),
    ) -> Vocabulary:
        """Number the tokens of some texts, the most frequent first, equally frequent ones by their code points.

        Parameters
        ----------
        texts : iterable of (str or sequence of str)
            A string counts as the sequence of its characters.
        max_size : int, optional
            Length of the vocabulary with its specials; the rarest tokens are left out.
        min_count : int
            Rarer tokens are left out.
        specials : sequence of str

        Returns
        -------
        Vocabulary

        Examples
        --------
        >>> qkv.data.Vocabulary.of(["abba", "ab"], specials=("_", "?")).tokens
        ['_', '?', 'a', 'b']
        """
        min_count = integer_of("Vocabulary.of", "min_count", min_count)
        if max_size is not None and integer_of("Vocabulary.of", "max_size", max_size) < len(specials):
            raise ValueError(
                f"Vocabulary.of: max_size must be at least {len(specials)}, the number of specials; got {max_size}"
            )
        if not isinstance(texts, Iterable):
            raise TypeError(f"Vocabulary.of: texts must be strings or lists of tokens; got {shown(texts)}")
        counts = Counter(token for text in texts for token in _strings("Vocabulary.of", "texts", text))
        for special in specials:
            counts.pop(special, None)
        kept = [t for t, n in sorted(counts.items(), key=lambda item: (-item[1], item[0])) if n >= min_count]
        if max_size is not None:
            kept = kept[: max_size - len(specials)]
        return cls(kept, specials)

    def encode(self, tokens: Iterable[str], *, start: bool = False, end: bool = False) -> list[int]:
        """Return the numbers of tokens, with those of start and end around them if asked for.

        Raises
        ------
        ValueError
            If the vocabulary has no start or end, or a text is given where all tokens are longer than one character.
        TypeError
            If a token is no string.
        """
        if isinstance(tokens, str) and tokens and not self._has_characters:
            raise ValueError(
                f"encode: tokens must be a list because a text is one of characters, and this vocabulary has none; "
                f"got {shown(tokens)}, write qkv.data.words(text)"
            )
        ids = [self._ids.get(token, self.unknown_id) for token in _strings("encode", "tokens", tokens)]
        before, after = [self._special(2)] if start else [], [self._special(3)] if end else []
        return [*before, *ids, *after]

    def _special(self, place: int) -> int:
        if place >= len(self.specials):
            raise ValueError(
                "encode: the vocabulary must have four specials because start and end are the last two of them; "
                f"got {list(self.specials)}"
            )
        return place

    def decode(self, ids: Iterable[int]) -> list[str]:
        """Return the tokens of numbers up to the first end, without padding and start.

        Raises
        ------
        TypeError, ValueError
            If one is no whole number, or no token's.
        """
        start, end = (place if place < len(self.specials) else -1 for place in (2, 3))
        tokens = []
        if not isinstance(ids, Iterable):
            raise TypeError(f"decode: ids must be a list of numbers; got {shown(ids)}")
        for number in as_array("decode", "ids", ids).tolist() if is_array(ids) else ids:
            number = integer_of("decode", "ids", number)
            if not 0 <= number < len(self):
                raise ValueError(f"decode: ids must be from 0 to {len(self) - 1}; got {number}")
            if number == end:
                break
            if number not in (self.pad_id, start):
                tokens.append(self.tokens[number])
        return tokens

    def __getitem__(self, token: str) -> int:
        """Return the number of one token.

        Raises
        ------
        KeyError
            If the vocabulary does not have it.
        TypeError
            If it is no string.
        """
        if not isinstance(token, str):
            raise TypeError(
                f"Vocabulary: a token must be a string; got {shown(token)}; write encode(tokens) for several, "
                "tokens[number] for that of a number"
            )
        return self._ids[token]

    def __contains__(self, token: object) -> bool:
        return token in self._ids

    def __iter__(self) -> Iterator[str]:
        return iter(self.tokens)

    def __len__(self) -> int:
        return len(self.tokens)

    def __getattr__(self, name: str) -> Any:
        raise unknown_attribute(self, name)

    def __repr__(self) -> str:
        return f"Vocabulary({len(self)} tokens: {' '.join(map(repr, self.tokens[:8]))}{' ...' * (len(self) > 8)})"
