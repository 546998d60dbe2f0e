"""Tokenizers of pretrained models, by the package tokenizers."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterable, Mapping, Sequence, Set
from pathlib import Path
from typing import Any, Literal, overload

import numpy as np

from ..._words.errors import integer_of, shown
from ..files.folders import checked_folder, optional_json
from .chat import rendered, special_tokens, template_of
from .gguf_vocabulary import tokenizer_of
from .tokenizer_files import errors_as, from_json, from_words, library

LARGEST_LENGTH = 1_000_000  # tokenizer_config.json says 1e30 for "no limit"
HALVES = re.compile("[\ud800-\udfff]")  # of characters beyond 16 bits, alone


class Tokenizer:
    """Words to numbers and back.

    Parameters
    ----------
    tokenizer : tokenizers.Tokenizer
        What does the work.
    max_length : int, optional
        The longest input of the model that it was made for.
    chat_template : str, optional
        Of :meth:`apply_chat_template`, in jinja2's language.
    special_tokens : mapping, optional
        The texts that templates may name, such as ``bos_token``.
    settings : mapping, optional
        The entries of tokenizer_config.json, which are written back.

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
        chat_template: str | None = None,
        special_tokens: Mapping[str, str] | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        tokenizer.no_padding()
        tokenizer.no_truncation()
        self.tokenizer = tokenizer
        self.max_length = max_length
        self.chat_template, self.special_tokens = chat_template, dict(special_tokens or {})
        self.settings = dict(settings or {})
        self.largest_id: int = max(tokenizer.get_vocab(with_added_tokens=True).values(), default=-1)

    @classmethod
    def from_pretrained(cls, folder: str | os.PathLike[str]) -> Tokenizer:
        """Read tokenizer.json, or vocab.txt of a BERT model without one; or the vocabulary of a GGUF file.

        Parameters
        ----------
        folder : path
            Or a ``.gguf`` file (needs the package gguf).

        Returns
        -------
        Tokenizer

        Raises
        ------
        OSError
            If there is neither file.
        ValueError
            If the file is damaged; the message names it.

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
        settings = optional_json(path / "tokenizer_config.json")
        limit = settings.get("model_max_length")
        good = isinstance(limit, int) and not isinstance(limit, bool) and 1 <= limit <= LARGEST_LENGTH
        whole, words = path / "tokenizer.json", path / "vocab.txt"
        if not whole.is_file() and not words.is_file():
            raise FileNotFoundError(f"{whole}: this file must exist, or vocab.txt beside it; there is none")
        made = from_json(whole) if whole.is_file() else from_words(words, settings)
        return cls(
            made,
            limit if good else None,
            chat_template=template_of(path, settings),
            special_tokens=special_tokens(path, settings),
            settings=settings,
        )

    @overload
    def encode(  # type: ignore[overload-overlap]  # a str is a sequence of str, too
        self, texts: str, max_length: int | None = None
    ) -> list[int]: ...
    @overload
    def encode(self, texts: Sequence[str], max_length: int | None = None) -> list[list[int]]: ...
    def encode(
        self, texts: str | Sequence[str], max_length: int | None = None
    ) -> list[int] | list[list[int]]:
        """Return the numbers of each text, with those that the model wants around it.

        Parameters
        ----------
        texts : sequence of str, or one str
        max_length : int, optional
            Longer texts are cut at their end; what is around them stays.

        Returns
        -------
        list of list of int
            The numbers themselves for one text.

        Raises
        ------
        TypeError
            If `texts` holds anything but strings.
        ValueError
            If `max_length` leaves no room, a text has half a character, or the tokenizer has no number for a word.

        Examples
        --------
        >>> tokenizer = qkv.models.Tokenizer.from_pretrained("all-MiniLM-L6-v2")  # doctest: +SKIP
        >>> tokenizer.encode(["a dog"], max_length=3)  # doctest: +SKIP
        [[101, 1037, 102]]
        """
        if isinstance(texts, str):
            return self.encode([texts], max_length)[0]
        sentences = checked_texts("encode", texts)
        tokenizer, whole = self.tokenizer, max_length is None
        with errors_as("encode: the tokenizer must know what is around a text"):
            around = tokenizer.num_special_tokens_to_add(is_pair=False)
        if max_length is not None and integer_of("encode", "max_length", max_length) < around:
            raise ValueError(
                f"encode: max_length must be at least {around}, the tokens around a text; got {max_length}"
            )
        # A vocabulary may lack the word for unknown ones, say.
        with errors_as("encode: the tokenizer must have a number for every text"):
            encodings = tokenizer.encode_batch_fast(sentences, add_special_tokens=whole)
            if max_length is not None:  # the library would keep the length where other threads see it
                for encoding in encodings:
                    encoding.truncate(max_length - around)
                encodings = [tokenizer.post_process(encoding) for encoding in encodings]
            return [encoding.ids for encoding in encodings]

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
        ids = _numbers(text)
        if ids is None:
            _check_text("tokens", text)
            ids = self.encode(str(text))
        names = [self.tokenizer.id_to_token(number) for number in ids]
        if None in names:
            raise ValueError(
                f"tokens: text must hold numbers of the vocabulary's tokens; got {ids[names.index(None)]}"
            )
        if self._of_bytes():
            return [_from_bytes(name) for name in names]
        return names

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

    @overload
    def apply_chat_template(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        add_generation_prompt: bool = False,
        tokenize: Literal[True] = True,
    ) -> list[int]: ...
    @overload
    def apply_chat_template(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        add_generation_prompt: bool = False,
        tokenize: Literal[False],
    ) -> str: ...
    def apply_chat_template(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        add_generation_prompt: bool = False,
        tokenize: bool = True,
    ) -> list[int] | str:
        """Return a conversation as the model was trained on it (needs the package jinja2).

        Parameters
        ----------
        messages : sequence of mapping
            With ``role`` ("system", "user", "assistant") and ``content``.
        add_generation_prompt : bool
            End with what is before an answer.
        tokenize : bool
            Return numbers; else the text.

        Returns
        -------
        list of int, or str

        Raises
        ------
        TypeError
            If `messages` is anything but a sequence of mappings.
        ValueError
            If there is no template, or it does not take the messages.

        Examples
        --------
        >>> tokenizer = qkv.models.Tokenizer.from_pretrained("SmolLM2-135M-Instruct.gguf")  # doctest: +SKIP
        >>> messages = [{"role": "user", "content": "Hi"}]
        >>> ids = tokenizer.apply_chat_template(messages, add_generation_prompt=True)  # doctest: +SKIP
        """
        if self.chat_template is None:
            raise ValueError("apply_chat_template: the tokenizer must have a chat template; there is none")
        text = rendered(self.chat_template, messages, add_generation_prompt, self.special_tokens)
        if not tokenize:
            return text
        checked_texts("apply_chat_template", [text])
        with errors_as("apply_chat_template: the tokenizer must have a number for every text"):
            return list(self.tokenizer.encode(text, add_special_tokens=False).ids)

    def _of_bytes(self) -> bool:
        decoder = self.tokenizer.decoder
        return decoder is not None and "ByteLevel" in repr(decoder)

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
        numbers = _numbers(ids)
        if numbers is None:
            raise TypeError(f"decode: ids must be a row of whole numbers, 0 or more; got {shown(ids)}")
        with errors_as("decode: the tokenizer must make a text of its numbers"):
            return str(self.tokenizer.decode(numbers))


def _numbers(ids: Any) -> list[int] | None:
    """Return numbers of tokens as integers, or None if they are something else."""
    try:
        given = np.asarray(ids)
    except (ValueError, TypeError):  # rows of different lengths, say
        return None
    is_row = given.ndim == 1 and (given.dtype.kind in "iu" or given.size == 0)
    return given.tolist() if is_row and ((given >= 0) & (given < 2**32)).all() else None


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


def _check_text(operation: str, text: object) -> None:
    if not isinstance(text, str):
        raise TypeError(f"{operation}: text must be a string; got {shown(text)}")


@functools.cache
def _byte_signs() -> dict[str, int]:
    """Return the characters that represent bytes in vocabularies of bytes, as GPT-2 chose them."""
    printable = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + i): byte for i, byte in enumerate(others)}


def _from_bytes(name: str) -> str:
    signs = _byte_signs()
    if not all(sign in signs for sign in name):  # of a special token
        return name
    found = bytes(signs[sign] for sign in name)
    try:
        return found.decode()
    except UnicodeDecodeError:
        return "".join(f"<0x{byte:02X}>" if byte >= 0x80 else chr(byte) for byte in found)
