"""Tokens and their numbers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

PAD, UNKNOWN, START, END = "<pad>", "<unk>", "<start>", "<end>"

_WORD = re.compile(r"\w+|[^\w\s]")


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
    return _WORD.findall(text.lower())


class Vocabulary:
    """Numbers 0, 1, 2, ... for tokens: characters, words or anything else that is a string.

    Parameters
    ----------
    tokens : iterable of str
        In the order of their numbers; repetitions are dropped.
    specials : sequence of str
        Get the first numbers. The first of them fills up batches, the second stands for unknown tokens.

    Attributes
    ----------
    tokens : list of str
        By number, the specials among them.
    pad_id, unknown_id : int
        0 and 1.

    Raises
    ------
    ValueError
        If there are fewer than two specials.

    Examples
    --------
    >>> vocabulary = qkv.data.Vocabulary("abc")
    >>> vocabulary.encode("cab?", start=True, end=True)
    [2, 6, 4, 5, 1, 3]
    >>> vocabulary.decode([2, 6, 4, 5, 3, 0, 0]), len(vocabulary), vocabulary["a"]
    (['c', 'a', 'b'], 7, 4)
    """

    def __init__(self, tokens: Iterable[str], specials: Sequence[str] = (PAD, UNKNOWN, START, END)) -> None:
        if len(specials) < 2:
            raise ValueError(
                "Vocabulary: specials must be at least two, for padding and for unknown tokens; "
                f"got {list(specials)}"
            )
        self.specials = tuple(specials)
        self.tokens = list(dict.fromkeys((*specials, *tokens)))
        self.pad_id, self.unknown_id = 0, 1
        self._ids = {token: number for number, token in enumerate(self.tokens)}

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
        counts = Counter(token for text in texts for token in text)
        for special in specials:
            counts.pop(special, None)
        kept = [t for t, n in sorted(counts.items(), key=lambda item: (-item[1], item[0])) if n >= min_count]
        if max_size is not None:
            kept = kept[: max(max_size - len(specials), 0)]
        return cls(kept, specials)

    def encode(self, tokens: Iterable[str], *, start: bool = False, end: bool = False) -> list[int]:
        """Give the numbers of tokens, with those of ``<start>`` and ``<end>`` around them if asked for."""
        ids = [self._ids.get(token, self.unknown_id) for token in tokens]
        return [self._ids[START]] * start + ids + [self._ids[END]] * end

    def decode(self, ids: Iterable[int]) -> list[str]:
        """Give the tokens of numbers up to the first ``<end>``, without padding and ``<start>``."""
        tokens = []
        for number in ids:
            token = self.tokens[int(number)]
            if token == END:
                break
            if token not in (PAD, START) and int(number) != self.pad_id:
                tokens.append(token)
        return tokens

    def __getitem__(self, token: str) -> int:
        """Give the number of one token.

        Raises
        ------
        KeyError
            If the vocabulary does not have it.
        """
        return self._ids[token]

    def __contains__(self, token: object) -> bool:
        return token in self._ids

    def __iter__(self) -> Iterator[str]:
        return iter(self.tokens)

    def __len__(self) -> int:
        return len(self.tokens)

    def __repr__(self) -> str:
        return f"Vocabulary({len(self)} tokens: {' '.join(map(repr, self.tokens[:8]))}{' ...' * (len(self) > 8)})"
