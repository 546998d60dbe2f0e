"""Embeddings of texts, as sentence-transformers computes them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, overload

import numpy as np

from ..._core import Tensor
from ..._words.errors import count_of, integer_of, shown
from ...functions.elementwise import maximum, sqrt
from ...functions.gradients import no_grad, tensor
from ...functions.joining import concatenate
from ...nn.record import no_attention_record
from ..families.auto import from_pretrained
from ..files.folders import checked_folder, optional_json
from ..text.pairs import checked_texts
from ..text.tokens import Tokenizer
from .pooling import POOLINGS, SHORTEST, SIMILARITIES, compared, pooled
from .progress import progress_bar
from .sentence_files import SETTINGS, parts_of, pooling_of, prompts_of, write_parts

CHUNK = 4096  # texts that are tokenized at a time


class SentenceEncoder:
    """An encoder, its tokenizer, and what makes one vector of the rows of a text.

    Parameters
    ----------
    model : BertModel or PretrainedEncoder
    tokenizer : Tokenizer
    pooling : str or sequence of str
        Of ``"cls"``, ``"max"``, ``"mean"``, ``"mean_sqrt_len_tokens"``, ``"weightedmean"``, ``"lasttoken"``; several
        are side by side, in the order given.
    normalize : bool
        Divide each vector by its length.
    max_seq_length : int, optional
        Longer texts are cut; the model's number of positions by default.
    prompt : str
        Is written before each text, unless :meth:`encode` is given another.
    prompts : mapping, optional
        More of them, by name.
    similarity_fn_name : {"cosine", "dot", "euclidean", "manhattan"}
        Of :meth:`similarity`.
    lower_case : bool
        Lower the letters before the tokenizer sees them.

    Raises
    ------
    ValueError
        If a pooling is unknown, a length does not fit the model, or the tokenizer has ids that the model lacks.

    References
    ----------
    Reimers and Gurevych, Sentence-BERT: Sentence Embeddings using Siamese BERT-Networks, 2019.

    Examples
    --------
    >>> encoder = qkv.models.SentenceEncoder.from_pretrained("all-MiniLM-L6-v2")  # doctest: +SKIP
    >>> encoder.encode(["A dog runs.", "A cat sleeps."]).shape  # doctest: +SKIP
    (2, 384)
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Tokenizer,
        *,
        pooling: str | Sequence[str] = ("mean",),
        normalize: bool = False,
        max_seq_length: int | None = None,
        prompt: str = "",
        lower_case: bool = False,
        prompts: Mapping[str, str] | None = None,
        similarity_fn_name: str = "cosine",
    ) -> None:
        bare = hasattr(model, "positions") and getattr(model, "head_name", None) is None
        if not bare or not hasattr(tokenizer, "largest_id"):
            raise TypeError(
                "SentenceEncoder: model must be an encoder of texts without a head, and tokenizer a "
                "qkv.models.Tokenizer; "
                f"got {type(model).__name__} and {type(tokenizer).__name__}"
            )
        positions = model.positions
        pooling = (pooling,) if isinstance(pooling, str) else tuple(pooling)
        unknown = [str(name) for name in pooling if name not in POOLINGS]
        if unknown or not pooling:
            raise ValueError(
                f"SentenceEncoder: pooling must be of {', '.join(POOLINGS)}; got {', '.join(unknown) or 'none'}"
            )
        length = min(positions, tokenizer.max_length or positions)
        if max_seq_length is not None:
            length = integer_of("SentenceEncoder", "max_seq_length", max_seq_length)
        if not 1 <= length <= positions:
            raise ValueError(
                f"SentenceEncoder: max_seq_length must be from 1 to max_position_embeddings = {positions}; got {length}"
            )
        around = tokenizer.encode([""])[0]
        largest = max([tokenizer.largest_id, *around])
        if largest >= model.config.vocab_size:
            raise ValueError(
                f"SentenceEncoder: tokenizer must have ids below vocab_size = {model.config.vocab_size}; "
                f"got {largest}"
            )
        if length < len(around):
            raise ValueError(
                f"SentenceEncoder: max_seq_length must be at least {len(around)}, the tokens around a text; "
                f"got {length}"
            )
        self.model = model
        self.tokenizer = tokenizer
        self.pooling = pooling
        self.normalize = normalize
        self.max_seq_length = length
        self.prompt = prompt
        self.lower_case = lower_case
        self.prompts = dict(prompts or {})
        if similarity_fn_name not in SIMILARITIES:
            raise ValueError(
                f"SentenceEncoder: similarity_fn_name must be one of {', '.join(SIMILARITIES)}; "
                f"got {similarity_fn_name!r}"
            )
        self.similarity_fn_name = similarity_fn_name

    @property
    def dimension(self) -> int:
        """How many numbers an embedding has."""
        return len(self.pooling) * int(self.model.config.hidden_size)

    def __repr__(self) -> str:
        return (
            f"SentenceEncoder({type(self.model).__name__}, {self.dimension} numbers, pooling={'+'.join(self.pooling)}, "
            f"normalize={self.normalize}, max_seq_length={self.max_seq_length})"
        )

    @classmethod
    def from_pretrained(cls, folder: str | os.PathLike[str]) -> SentenceEncoder:
        """Load a folder of sentence-transformers, or one with only an encoder and a tokenizer, to be averaged.

        Parameters
        ----------
        folder : path
            ``modules.json`` names the parts: the model with ``sentence_bert_config.json``, pooling, normalisation.

        Returns
        -------
        SentenceEncoder

        Raises
        ------
        OSError
            If the folder or one of its files is missing.
        ValueError
            If a file is damaged, asks for an unknown part, or does not fit the others; the message names it.

        Examples
        --------
        >>> qkv.models.SentenceEncoder.from_pretrained("all-MiniLM-L6-v2").max_seq_length  # doctest: +SKIP
        256
        """
        path = checked_folder("SentenceEncoder.from_pretrained", folder)
        parts = parts_of(path)
        body = parts.pop("Transformer")
        model = from_pretrained(body, architectures=None)
        if not hasattr(model, "positions"):
            raise ValueError(f"{body}: must hold an encoder of texts; got {type(model).__name__}")
        settings = optional_json(body / "sentence_bert_config.json")
        tokenizer = Tokenizer.from_pretrained(body)
        place = parts.get("Pooling")
        pooling = ("mean",) if place is None else pooling_of(place / "config.json", model.config)
        top = optional_json(path / SETTINGS)
        prompts, prompt = prompts_of(path / SETTINGS, top)
        length = settings.get("max_seq_length")
        if length is not None and (not isinstance(length, int) or isinstance(length, bool)):
            raise ValueError(
                f"{body / 'sentence_bert_config.json'}: max_seq_length must be an integer; got {length!r}"
            )
        try:
            return cls(
                model,
                tokenizer,
                pooling=pooling,
                normalize="Normalize" in parts,
                max_seq_length=length,
                prompt=prompt,
                lower_case=bool(settings.get("do_lower_case", False)),
                prompts=prompts,
                similarity_fn_name=top.get("similarity_fn_name") or "cosine",
            )
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None

    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        """Write a folder that sentence-transformers and :meth:`from_pretrained` load.

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
        >>> encoder = qkv.models.SentenceEncoder.from_pretrained("all-MiniLM-L6-v2")  # doctest: +SKIP
        >>> encoder.save_pretrained("mine")  # doctest: +SKIP
        """
        self.model.save_pretrained(folder)
        write_parts(Path(folder), self)

    @overload
    def encode(
        self,
        texts: str | Sequence[str],
        batch_size: int = 32,
        show_progress: bool = False,
        normalize_embeddings: bool | None = None,
        convert_to_numpy: Literal[True] = True,
        prompt: str | None = None,
        prompt_name: str | None = None,
    ) -> np.ndarray: ...
    @overload
    def encode(
        self,
        texts: str | Sequence[str],
        batch_size: int = 32,
        show_progress: bool = False,
        normalize_embeddings: bool | None = None,
        *,
        convert_to_numpy: bool,
        prompt: str | None = None,
        prompt_name: str | None = None,
    ) -> Any: ...
    def encode(
        self,
        texts: str | Sequence[str],
        batch_size: int = 32,
        show_progress: bool = False,
        normalize_embeddings: bool | None = None,
        convert_to_numpy: bool = True,
        prompt: str | None = None,
        prompt_name: str | None = None,
    ) -> Any:
        """Return the embeddings of texts.

        Texts of similar length are computed together and no padding is computed at all, so the batch size changes the
        speed and nothing else that matters: results of different batch sizes agree to rounding.

        Parameters
        ----------
        texts : str or sequence of str
        batch_size : int
            Texts computed together.
        show_progress : bool
            Show a bar (needs tqdm).
        normalize_embeddings : bool, optional
            True divides each vector by its length even if the model does not.
        convert_to_numpy : bool
            False returns a list of Tensors, as sentence-transformers does, or one Tensor for one str.
        prompt : str, optional
            Is written before each text, in place of the encoder's.
        prompt_name : str, optional
            That of one of the encoder's prompts.

        Returns
        -------
        np.ndarray
            float32, ``(N, M)``, or ``(M,)`` for one str.

        Raises
        ------
        TypeError
            If `texts` holds anything but strings.
        ValueError
            If `batch_size` is below 1, or there is no prompt of that name.

        Examples
        --------
        >>> encoder = qkv.models.SentenceEncoder.from_pretrained("all-MiniLM-L6-v2")  # doctest: +SKIP
        >>> encoder.encode("A dog runs.").shape  # doctest: +SKIP
        (384,)
        """
        sentences = checked_texts("encode", [texts] if isinstance(texts, str) else texts)
        count_of("encode", "batch_size", batch_size, 1)
        before = self._prompt(prompt, prompt_name)
        normalize = self.normalize or bool(normalize_embeddings)
        result = np.empty((len(sentences), self.dimension), np.float32)
        tick, close = progress_bar(len(sentences), " texts", bool(show_progress))
        try:
            with no_grad(), no_attention_record():
                for begin in range(0, len(sentences), max(CHUNK, batch_size)):
                    ids = self._ids(sentences[begin : begin + max(CHUNK, batch_size)], before)
                    for places in _batches(ids, batch_size):
                        result[begin + places] = self._embedded([ids[i] for i in places], normalize).numpy()
                        tick(len(places))
        finally:
            close()
        rows: Any = result if convert_to_numpy else list(map(tensor, result))
        return rows[0] if isinstance(texts, str) else rows

    def forward(self, texts: Sequence[str], prompt: str | None = None) -> Tensor:
        """Return the embeddings ``(N, M)`` of some texts as one Tensor, with gradients of the model's parameters.

        Parameters
        ----------
        texts : sequence of str
            Computed together.
        prompt : str, optional
            As in :meth:`encode`.

        Returns
        -------
        Tensor

        Raises
        ------
        TypeError, ValueError
            If `texts` holds anything but strings, or nothing.

        Examples
        --------
        >>> encoder = qkv.models.SentenceEncoder.from_pretrained("all-MiniLM-L6-v2")  # doctest: +SKIP
        >>> encoder.forward(["A dog runs.", "A cat sleeps."]).sum().backward()  # doctest: +SKIP
        """
        sentences = checked_texts("forward", [texts] if isinstance(texts, str) else texts)
        if not sentences:
            raise ValueError("forward: texts must hold at least one; got none")
        return self._embedded(self._ids(sentences, self._prompt(prompt, None)), self.normalize)

    __call__ = forward

    def similarity(self, a: Any, b: Any) -> np.ndarray:
        """Compare each embedding of `a` with each of `b`, as ``similarity_fn_name`` says.

        Parameters
        ----------
        a, b : array_like
            ``(N, M)`` and ``(K, M)``, or ``(M,)`` for one.

        Returns
        -------
        np.ndarray, ``(N, K)``; distances are negative, so that larger is nearer

        Raises
        ------
        TypeError, ValueError
            If they are not numbers, or have different numbers of features.

        Examples
        --------
        >>> encoder = qkv.models.SentenceEncoder.from_pretrained("all-MiniLM-L6-v2")  # doctest: +SKIP
        >>> encoder.similarity(encoder.encode(["dog", "cat"]), encoder.encode("puppy")).shape  # doctest: +SKIP
        (2, 1)
        """
        return compared(self.similarity_fn_name, a, b)

    def _prompt(self, prompt: str | None, name: str | None) -> str:
        if prompt is not None and not isinstance(prompt, str):
            raise TypeError(f"encode: prompt must be a string; got {shown(prompt)}")
        if prompt is not None or name is None:
            return self.prompt if prompt is None else prompt
        if name not in self.prompts:
            raise ValueError(
                f"encode: prompt_name must be one of {', '.join(self.prompts) or 'none'}; got {name!r}"
            )
        return self.prompts[name]

    def _ids(self, texts: list[str], prompt: str) -> list[list[int]]:
        prepared = [(prompt + text).lower() if self.lower_case else prompt + text for text in texts]
        return self.tokenizer.encode(prepared, self.max_seq_length)

    def _embedded(self, ids: list[list[int]], normalize: bool) -> Tensor:
        lens = np.array([len(x) for x in ids])
        padding = getattr(self.model.config, "pad_token_id", None) or 0
        padded = np.full((len(ids), max(1, int(lens.max()))), padding, np.int64)
        for row, x in zip(padded, ids, strict=True):
            row[: len(x)] = x
        rows = self.model(padded, valid_lens=lens, skip_padding=True).last_hidden_state  # (B, L, M)
        made = [pooled(name, rows, lens) for name in self.pooling]
        y: Tensor = made[0] if len(made) == 1 else concatenate(made, axis=1)
        if normalize:
            y = y / maximum(sqrt((y * y).sum(axis=1, keepdims=True)), SHORTEST)
        return y


def _batches(ids: list[list[int]], batch_size: int) -> Iterator[np.ndarray]:
    """Return the places of texts that are computed together, the longest first."""
    order = np.argsort([-len(x) for x in ids], kind="stable")
    for begin in range(0, len(order), batch_size):
        yield order[begin : begin + batch_size]
