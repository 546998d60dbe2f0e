"""Tokenizers of pretrained models, by the package tokenizers."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, overload

import numpy as np

from ..._atomic import write_files
from ..._words.errors import shown
from ..files.folders import checked_folder
from .chat import template_of
from .conversations import Conversations
from .gguf_vocabulary import tokenizer_of
from .library import errors_as, library
from .pairs import encodings, with_seconds
from .saving import saved_files
from .settings import (
    checked_settings,
    class_of,
    content,
    extra_tokens,
    is_cut_left,
    reads_types,
    special_tokens,
)
from .shown_tokens import ids_of_row, shown_names
from .streams import TextStream
from .tokenizer_files import read_tokenizer

LARGEST_LENGTH = 1_000_000  # tokenizer_config.json says 1e30 for "no limit"
TIDY = (" .", " ?", " !", " ,", " ' ", " n't", " 'm", " 's", " 've", " 're")  # lose their spaces


class Tokenizer(Conversations):
    """Words to numbers and back.

    Called as ``tokenizer(texts, text_pair=None, *, max_length=None)`` it returns what a model is called with:
    ``model(**tokenizer(["a dog", "the cat"]))``.

    Parameters
    ----------
    tokenizer : tokenizers.Tokenizer
        What does the work.
    max_length : int, optional
        The longest input of the model that it was made for.
    chat_template : str or mapping, optional
        Of :meth:`apply_chat_template`, in jinja2's language; several by their names.
    special_tokens : mapping, optional
        The texts that templates may name, such as ``bos_token``.
    settings : mapping, optional
        The entries of tokenizer_config.json, which are written back.
    reads_types : bool
        The model is told which text of a pair each token is of.

    Examples
    --------
    >>> tokenizer = qkv.models.Tokenizer.from_pretrained("all-MiniLM-L6-v2")  # doctest: +SKIP
    >>> tokenizer.encode(["a dog"])  # doctest: +SKIP
    [[101, 1037, 3899, 102]]
    """

    def __init__(
        self,
        tokenizer: Any,
        max_length: int | None = None,
        *,
        chat_template: str | Mapping[str, str] | None = None,
        special_tokens: Mapping[str, str] | None = None,
        settings: Mapping[str, Any] | None = None,
        reads_types: bool = False,
    ) -> None:
        self.settings = dict(settings or {})
        self._left = is_cut_left(self.settings, tokenizer)
        tokenizer.no_padding()
        tokenizer.no_truncation()
        tokenizer.encode_special_tokens = bool(self.settings.get("split_special_tokens", False))
        self.tokenizer = tokenizer
        self.max_length = max_length
        self.chat_template, self.special_tokens = chat_template, dict(special_tokens or {})
        self.reads_types = reads_types
        self.largest_id: int = max(tokenizer.get_vocab(with_added_tokens=True).values(), default=-1)

    @classmethod
    def from_pretrained(cls, folder: str | os.PathLike[str]) -> Tokenizer:
        """Read the tokenizer of a folder, as tokenizer_config.json beside it says, or of a GGUF file.

        Parameters
        ----------
        folder : path
            With ``tokenizer.json``, or without it a model of SentencePiece (``tokenizer.model``, ``spiece.model``,
            ``spm.model``, ``sentencepiece.bpe.model``, ``source.spm``; needs the package sentencepiece), ``vocab.txt``
            of a BERT model, or ``vocab.json`` and ``merges.txt``. Or a ``.gguf`` file (needs the package gguf).

        Returns
        -------
        Tokenizer

        Raises
        ------
        OSError
            If there is no such file.
        ValueError
            If the file is damaged, or asks for what qkv does not compute; the message names it.

        Notes
        -----
        The entries of these files, those that change nothing among them, are listed in
        ``qkv/models/text/entries.py``.

        Examples
        --------
        >>> qkv.models.Tokenizer.from_pretrained("all-MiniLM-L6-v2").largest_id  # doctest: +SKIP
        30521
        """
        path = Path(folder)
        if path.suffix == ".gguf" and not path.is_dir():
            made, settings = tokenizer_of(path, library())
            return cls(made, settings.pop("max_length"), **settings)
        path = checked_folder("Tokenizer.from_pretrained", folder)
        settings = checked_settings(path)
        made, name = read_tokenizer(path, settings)
        if name:
            settings.setdefault("tokenizer_class", name)
        limit = settings.get("model_max_length", settings.get("max_len"))
        good = isinstance(limit, int) and not isinstance(limit, bool) and 1 <= limit <= LARGEST_LENGTH
        return cls(
            made,
            limit if good else None,
            chat_template=template_of(path, settings),
            special_tokens=special_tokens(settings),
            settings=settings,
            reads_types=reads_types(settings, name),
        )

    @overload
    def encode(  # type: ignore[overload-overlap]  # a str is a sequence of str, too
        self, texts: str, max_length: int | None = None, *, text_pair: str | None = None
    ) -> list[int]: ...
    @overload
    def encode(
        self,
        texts: Sequence[str] | Sequence[Sequence[str]],
        max_length: int | None = None,
        *,
        text_pair: Sequence[str] | None = None,
    ) -> list[list[int]]: ...
    def encode(
        self,
        texts: str | Sequence[str] | Sequence[Sequence[str]],
        max_length: int | None = None,
        *,
        text_pair: str | Sequence[str] | None = None,
    ) -> list[int] | list[list[int]]:
        """Return the numbers of each text, or pair of texts, with those that the model wants around it.

        Parameters
        ----------
        texts : sequence of str, or one str
            Or a sequence of pairs, ``[(query, document), ...]``.
        max_length : int, optional
            Longer texts are cut at their end, or at their beginning if the folder says so; what is around them stays.
            Of a pair the longer one is cut first.
        text_pair : sequence of str, or one str, optional
            The second text of each pair.

        Returns
        -------
        list of list of int
            The numbers themselves for one text, or one pair.

        Raises
        ------
        TypeError
            If `texts` holds anything but strings or pairs of them.
        ValueError
            If `max_length` leaves no room, a text has half a character, the tokenizer has no number for a word, or
            `text_pair` does not have a text for each.

        Examples
        --------
        >>> tokenizer = qkv.models.Tokenizer.from_pretrained("all-MiniLM-L6-v2")  # doctest: +SKIP
        >>> tokenizer.encode(["a dog"], max_length=3)  # doctest: +SKIP
        [[101, 1037, 102]]
        >>> tokenizer.encode("a dog", text_pair="cat")  # doctest: +SKIP
        [101, 1037, 3899, 102, 4937, 102]
        """
        found = [list(encoding.ids) for encoding in self._encodings("encode", texts, text_pair, max_length)]
        return found[0] if isinstance(texts, str) else found

    def __call__(
        self,
        texts: str | Sequence[str] | Sequence[Sequence[str]],
        text_pair: str | Sequence[str] | None = None,
        *,
        max_length: int | None = None,
    ) -> dict[str, np.ndarray]:
        """Return what a model is called with: ``input_ids``, ``attention_mask``, and where it reads them types."""
        found = self._encodings("Tokenizer", texts, text_pair, max_length)
        lens = np.array([len(encoding.ids) for encoding in found], np.int64)
        mask = np.arange(lens.max(initial=0)) < lens[:, None]
        padding = self.tokenizer.token_to_id(self.special_tokens.get("pad_token", "")) or 0
        names = {"input_ids": ("ids", padding), "token_type_ids": ("type_ids", 0)}
        made = {"attention_mask": mask.astype(np.int64)}
        for name, (own, rest) in names.items():
            if name == "input_ids" or self.reads_types:
                made[name] = np.full(mask.shape, rest, np.int64)
                made[name][mask] = [x for encoding in found for x in getattr(encoding, own)]
        return made

    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        """Write the tokenizer and tokenizer_config.json, which Hugging Face's library and :meth:`from_pretrained` read.

        Parameters
        ----------
        folder : path
            Is made if it does not exist.

        Raises
        ------
        OSError
            If the folder cannot be written.

        Examples
        --------
        >>> qkv.models.Tokenizer.from_pretrained("all-MiniLM-L6-v2").save_pretrained("mine")  # doctest: +SKIP
        """
        path = Path(folder)
        path.mkdir(parents=True, exist_ok=True)
        write_files(saved_files(self, path, self.max_length))

    def _encodings(self, operation: str, texts: Any, text_pair: Any, max_length: int | None) -> list[Any]:
        if isinstance(max_length, str):
            raise TypeError(
                f"{operation}: max_length must be an integer; got a str; a second text is text_pair="
            )
        if isinstance(texts, str):
            texts, text_pair = [texts], None if text_pair is None else [text_pair]
        first, second = with_seconds(operation, texts, text_pair)
        return encodings(operation, self.tokenizer, first, second, max_length, self._left)

    @property
    def special_ids(self) -> set[int]:
        """The ids of the tokens that have a name, such as ``eos_token``, or are listed as special."""
        if class_of(self.settings):
            added = self.tokenizer.get_added_tokens_decoder().items()
            return {number for number, token in added if token.special}
        words = [*self.special_tokens.values(), *map(content, extra_tokens(self.settings))]
        return {self.tokenizer.token_to_id(word) for word in words} - {None}

    def __repr__(self) -> str:
        return f"Tokenizer({self.tokenizer.get_vocab_size()} words, max_length={self.max_length})"

    def tokens(self, text: str | Sequence[int]) -> list[str]:
        """Return the tokens of a text as the vocabulary has them, with those around it, as beside weights.

        Parameters
        ----------
        text : str or sequence of int
            Or the numbers themselves, such as those that a model has generated.

        Returns
        -------
        list of str
            As many as :meth:`encode` returns numbers. Parts that continue a word begin with ``##``, as in BERT's. In
            vocabularies of bytes a space is a space, and a part of a character is shown by its bytes, ``<0xF0>``.

        Raises
        ------
        TypeError
            If `text` is neither a string nor numbers.
        ValueError
            If the tokenizer has no number for a word, or no token of a number.

        Examples
        --------
        >>> tokenizer = qkv.models.Tokenizer.from_pretrained("all-MiniLM-L6-v2")  # doctest: +SKIP
        >>> tokenizer.tokens("a dog")  # doctest: +SKIP
        ['[CLS]', 'a', 'dog', '[SEP]']
        """
        ids = ids_of_row(text)
        if ids is None:
            _check_text("tokens", text)
            ids = self.encode(str(text))
        names = [self.tokenizer.id_to_token(number) for number in ids]
        if None in names:
            raise ValueError(
                f"tokens: text must hold numbers of the vocabulary's tokens; got {ids[names.index(None)]}"
            )
        return shown_names(self.tokenizer, names)

    def words(self, text: str) -> list[int | None]:
        """Return the number of the word that each token is a part of, so that weights of tokens can be summed to words.

        Parameters
        ----------
        text : str

        Returns
        -------
        list of (int or None)
            As many as :meth:`tokens` returns; None for the tokens around a text. Words are what the tokenizer divides
            before it looks into its vocabulary; punctuation counts as words.

        Raises
        ------
        TypeError
            If `text` is not a string.
        ValueError
            If the tokenizer has no number for a word.

        Examples
        --------
        >>> tokenizer = qkv.models.Tokenizer.from_pretrained("all-MiniLM-L6-v2")  # doctest: +SKIP
        >>> tokenizer.words("a dog")  # doctest: +SKIP
        [None, 0, 1, None]
        """
        _check_text("words", text)
        self.encode(text)  # refuses tokens without a number
        with errors_as("words: the tokenizer must cut every text"):
            return list(self.tokenizer.encode(text).word_ids)

    def stream(self, write: Callable[[str], Any] | None = None) -> TextStream:
        """Return what makes text of ids one by one: it fits ``on_token`` of ``generate``.

        Parameters
        ----------
        write : callable, optional
            Is called with each text that is new, never with half a character.

        Returns
        -------
        TextStream
            Called with an id, it returns the text that is new; ``end()`` writes what is left, ``text`` is all of it.

        Examples
        --------
        >>> tokenizer = qkv.models.Tokenizer.from_pretrained("SmolLM2-135M-Instruct.gguf")  # doctest: +SKIP
        >>> stream = tokenizer.stream(lambda text: print(text, end="", flush=True))  # doctest: +SKIP
        >>> _ = model.generate([ids], max_new_tokens=100, on_token=stream)  # doctest: +SKIP
        >>> _ = stream.end()  # doctest: +SKIP
        """
        return TextStream(self, write)

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of numbers, without those around it.

        Parameters
        ----------
        ids : sequence of int
            Of a whole text: a character may be parts of several, which none of them is alone.

        Returns
        -------
        str

        Raises
        ------
        TypeError
            If `ids` is anything but a row of whole numbers, 0 or more.

        Examples
        --------
        >>> qkv.models.Tokenizer.from_pretrained("all-MiniLM-L6-v2").decode([101, 1037, 3899, 102])  # doctest: +SKIP
        'a dog'
        """
        numbers = ids_of_row(ids)
        if numbers is None:
            raise TypeError(f"decode: ids must be a row of whole numbers, 0 or more; got {shown(ids)}")
        with errors_as("decode: the tokenizer must make a text of its numbers"):
            text = str(self.tokenizer.decode(numbers))
        if self._is_tidied():
            for mark in TIDY:
                text = text.replace(mark, mark.strip())
        return text

    def _is_tidied(self) -> bool:
        """Return whether texts lose the spaces before punctuation, which the folder asks for; not those of bytes."""
        anyway = "clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output"
        of_pairs = type(getattr(self.tokenizer, "model", None)).__name__ == "BPE"
        asked = bool(self.settings.get("clean_up_tokenization_spaces", False))
        return asked and (not of_pairs or bool(self.settings.get(anyway, False)))


def _check_text(operation: str, text: object) -> None:
    if not isinstance(text, str):
        raise TypeError(f"{operation}: text must be a string; got {shown(text)}")
