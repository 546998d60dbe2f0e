"""Embeddings of texts, as sentence-transformers computes them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, overload

import numpy as np

from ..._core import Module, Tensor
from ..._words.errors import count_of, integer_of
from ...functions.elementwise import maximum, sqrt
from ...functions.gradients import no_grad, tensor
from ...functions.joining import concatenate
from ...nn.record import no_attention_record
from ..files.folders import checked_folder
from ..text.pairs import checked_texts
from ..text.tokens import Tokenizer
from .batches import batches, check_options, chunks, most_positions, padded, quantized
from .pooling import POOLINGS, SHORTEST, SIMILARITIES, pooled
from .progress import progress_bar
from .queries import Queries
from .sentence_files import is_body, read_parts, write_parts

LONGEST = 1_000_000  # ids of a text, where neither the model nor the tokenizer has a limit


class SentenceEncoder(Queries):
    """A model of texts, its tokenizer, and what makes one vector of the rows of a text.

    Parameters
    ----------
    model : BertModel, PretrainedEncoder, PretrainedCausalLM or PretrainedEncoderDecoder
        Without a head; of an encoder-decoder the encoder alone. Each row of a decoder sees what is before it, so that
        ``"lasttoken"`` is its pooling.
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
    dense : sequence of Module
        Layers on the embedding, before it is divided by its length.
    include_prompt : bool
        False leaves the rows of a prompt out of the pooling.
    truncate_dim : int, optional
        Keep so many numbers of each embedding.
    task_lengths : mapping, optional
        Other longest texts for the tasks "query" and "document".

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
        dense: Sequence[Module] = (),
        include_prompt: bool = True,
        truncate_dim: int | None = None,
        task_lengths: Mapping[str, int] | None = None,
    ) -> None:
        if not is_body(model) or not hasattr(tokenizer, "largest_id"):
            raise TypeError(
                "SentenceEncoder: model must be an encoder of texts without a head, and tokenizer a "
                "qkv.models.Tokenizer; "
                f"got {type(model).__name__} and {type(tokenizer).__name__}"
            )
        pooling = (pooling,) if isinstance(pooling, str) else tuple(pooling)
        unknown = [str(name) for name in pooling if name not in POOLINGS]
        if unknown or not pooling:
            raise ValueError(
                f"SentenceEncoder: pooling must be of {', '.join(POOLINGS)}; got {', '.join(unknown) or 'none'}"
            )
        if similarity_fn_name not in SIMILARITIES:
            raise ValueError(
                f"SentenceEncoder: similarity_fn_name must be one of {', '.join(SIMILARITIES)}; "
                f"got {similarity_fn_name!r}"
            )
        around = tokenizer.encode([""])[0]
        largest = max([tokenizer.largest_id, *around])
        if largest >= model.config.vocab_size:
            raise ValueError(
                f"SentenceEncoder: tokenizer must have ids below vocab_size = {model.config.vocab_size}; "
                f"got {largest}"
            )
        self.model = model
        self.tokenizer = tokenizer
        self.pooling = pooling
        self.normalize = normalize
        self.dense = list(dense)
        self.include_prompt = include_prompt
        self.prompt = prompt
        self.lower_case = lower_case
        self.prompts = dict(prompts or {})
        self.similarity_fn_name = similarity_fn_name
        self.max_seq_length = self._length("max_seq_length", max_seq_length, len(around))
        self.task_lengths = {
            task: self._length(f"task_lengths[{task!r}]", length, len(around))
            for task, length in (task_lengths or {}).items()
        }
        self.truncate_dim = None if truncate_dim is None else self._dimension("SentenceEncoder", truncate_dim)

    def _length(self, name: str, given: int | None, around: int) -> int:
        """Return how many ids a text may have: what is asked for, or what the tokenizer and the model allow."""
        positions = most_positions(self.model)
        limits = [n for n in (positions, self.tokenizer.max_length) if n]
        length = min(limits, default=LONGEST) if given is None else integer_of("SentenceEncoder", name, given)
        if not 1 <= length <= (positions or length):
            raise ValueError(
                f"SentenceEncoder: {name} must be from 1 to max_position_embeddings = {positions}; got {length}"
            )
        if length < around:
            raise ValueError(
                f"SentenceEncoder: {name} must be at least {around}, the tokens around a text; got {length}"
            )
        return length

    def _dimension(self, operation: str, given: int) -> int:
        return min(count_of(operation, "truncate_dim", given, 1), self._width)

    @property
    def _width(self) -> int:
        whole = len(self.pooling) * int(self.model.config.hidden_size)
        return int(self.dense[-1].outputs) if self.dense else whole

    @property
    def dimension(self) -> int:
        """How many numbers an embedding has."""
        return self._width if self.truncate_dim is None else self.truncate_dim

    def __repr__(self) -> str:
        return (
            f"SentenceEncoder({type(self.model).__name__}, {self.dimension} numbers, pooling={'+'.join(self.pooling)}, "
            f"normalize={self.normalize}, max_seq_length={self.max_seq_length})"
        )

    @classmethod
    def from_pretrained(cls, folder: str | os.PathLike[str], *, dtype: Any = None) -> SentenceEncoder:
        """Load a folder of sentence-transformers, or one with only an encoder and a tokenizer, to be averaged.

        Parameters
        ----------
        folder : path
            ``modules.json`` names the parts: the model with ``sentence_bert_config.json``, pooling, layers on it,
            normalisation. Without it rows are averaged, and of a model that was made to write the last one counts.
        dtype : str or numpy.dtype, optional
            Of the model, as of :func:`qkv.models.from_pretrained`.

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
        arguments = read_parts(path, dtype)
        try:
            return cls(arguments.pop("model"), arguments.pop("tokenizer"), **arguments)
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
        *,
        truncate_dim: int | None = None,
        precision: str = "float32",
        output_value: Literal["sentence_embedding"] = "sentence_embedding",
        task: str | None = None,
    ) -> np.ndarray: ...
    @overload
    def encode(self, texts: str | Sequence[str], *arguments: Any, **options: Any) -> Any: ...
    def encode(
        self,
        texts: str | Sequence[str],
        batch_size: int = 32,
        show_progress: bool = False,
        normalize_embeddings: bool | None = None,
        convert_to_numpy: bool = True,
        prompt: str | None = None,
        prompt_name: str | None = None,
        *,
        truncate_dim: int | None = None,
        precision: str = "float32",
        output_value: str = "sentence_embedding",
        task: str | None = None,
    ) -> Any:
        """Return the embeddings of texts.

        Texts of similar length are computed together and no padding is computed at all, so the batch size changes the
        speed and nothing else that matters: results of different batch sizes agree to rounding. At most 8192 tokens
        are computed together, or one text, so the memory does not grow with the number of texts.

        Parameters
        ----------
        texts : str or sequence of str
        batch_size : int
            Texts computed together.
        show_progress : bool
            Show a bar (needs tqdm).
        normalize_embeddings : bool, optional
            True divides each vector by its length even if the model does not, after it is cut.
        convert_to_numpy : bool
            False returns a list of Tensors, as sentence-transformers does, or one Tensor for one str.
        prompt : str, optional
            Is written before each text, in place of the encoder's.
        prompt_name : str, optional
            That of one of the encoder's prompts.
        truncate_dim : int, optional
            Keep so many numbers of each embedding, in place of the encoder's.
        precision : {"float32", "int8", "uint8", "binary", "ubinary"}
            Bytes divide the range that each feature has in these embeddings; bits say what is above 0, eight in a byte.
        output_value : {"sentence_embedding", "token_embeddings"}
            The second returns a list with the rows ``(L, M)`` of each text, before the pooling.
        task : {"query", "document"}, optional
            Take the longest text of that task, where the folder names one.

        Returns
        -------
        np.ndarray
            ``(N, M)``, or ``(M,)`` for one str; float32, or as `precision` says.

        Raises
        ------
        TypeError
            If `texts` holds anything but strings.
        ValueError
            If `batch_size` is below 1, there is no prompt of that name, or an option is none of those above.

        Examples
        --------
        >>> encoder = qkv.models.SentenceEncoder.from_pretrained("all-MiniLM-L6-v2")  # doctest: +SKIP
        >>> encoder.encode("A dog runs.").shape  # doctest: +SKIP
        (384,)
        """
        sentences = checked_texts("encode", [texts] if isinstance(texts, str) else texts)
        count_of("encode", "batch_size", batch_size, 1)
        check_options(precision=precision, output_value=output_value, task=task)
        before = self._prompt(prompt, prompt_name)
        width = self.dimension if truncate_dim is None else self._dimension("encode", truncate_dim)
        length = self.task_lengths.get(task or "", self.max_seq_length)
        of_tokens = output_value == "token_embeddings"
        result: Any = [None] * len(sentences) if of_tokens else np.empty((len(sentences), width), np.float32)
        tick, close = progress_bar(len(sentences), " texts", bool(show_progress))
        try:
            with no_grad(), no_attention_record():
                for part in chunks(sentences, batch_size):
                    ids = self._ids(sentences[part], before, length)
                    for places in batches(ids, batch_size):
                        rows, lens = self._rows([ids[i] for i in places])
                        if of_tokens:
                            found = rows.numpy()
                            for i, row, count in zip(places, found, lens, strict=True):
                                result[part.start + i] = row[:count].copy()
                        else:
                            made = self._embedded(rows, lens, before)[:, :width]
                            if normalize_embeddings:
                                made = _normalized(made)
                            result[part.start + places] = made.numpy()
                        tick(len(places))
        finally:
            close()
        if not of_tokens:
            result = quantized(result, precision)
        returned: Any = result if convert_to_numpy else list(map(tensor, result))
        return returned[0] if isinstance(texts, str) else returned

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
        before = self._prompt(prompt, None)
        rows, lens = self._rows(self._ids(sentences, before, self.max_seq_length))
        return self._embedded(rows, lens, before)[:, : self.dimension]

    __call__ = forward

    def _ids(self, texts: list[str], prompt: str, length: int) -> list[list[int]]:
        prepared = [(prompt + text).lower() if self.lower_case else prompt + text for text in texts]
        return self.tokenizer.encode(prepared, length)

    def _rows(self, ids: list[list[int]]) -> tuple[Tensor, np.ndarray]:
        """Return the model's rows (B, L, M) of texts, and how many each has."""
        made, lens = padded(ids, getattr(self.model.config, "pad_token_id", None) or 0)
        return self.model(made, valid_lens=lens, skip_padding=True).last_hidden_state, lens

    def _embedded(self, rows: Tensor, lens: np.ndarray, prompt: str) -> Tensor:
        begin = 0 if self.include_prompt or not prompt else self._prompt_tokens(prompt)
        made = [pooled(name, rows, lens, begin) for name in self.pooling]
        y: Tensor = made[0] if len(made) == 1 else concatenate(made, axis=1)
        for layer in self.dense:
            y = layer(y)
        return _normalized(y) if self.normalize else y

    def _prompt_tokens(self, prompt: str) -> int:
        """Return how many tokens a prompt has, without what ends a text."""
        [ids] = self._ids([""], prompt, self.max_seq_length)
        return len(ids) - (ids[-1] in self.tokenizer.special_ids)


def _normalized(y: Tensor) -> Tensor:
    z: Tensor = y / maximum(sqrt((y * y).sum(axis=1, keepdims=True)), SHORTEST)
    return z
