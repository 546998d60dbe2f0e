"""Embeddings of texts, as sentence-transformers computes them."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, overload

import numpy as np

from ..gradients import no_grad
from ..nn import no_attention_record
from .bert import BertModel
from .config import BertConfig
from .files import checked_folder, read_json
from .tokens import Tokenizer

CHUNK = 4096  # texts that are tokenized at a time

# What a pooling makes of the kept rows x (n, M), and its names in 1_Pooling/config.json.
POOLINGS: dict[str, str] = {
    "cls": "pooling_mode_cls_token",
    "max": "pooling_mode_max_tokens",
    "mean": "pooling_mode_mean_tokens",
    "mean_sqrt_len_tokens": "pooling_mode_mean_sqrt_len_tokens",
    "weightedmean": "pooling_mode_weightedmean_tokens",
    "lasttoken": "pooling_mode_lasttoken",
}


class SentenceEncoder:
    """A BERT model, its tokenizer, and what makes one vector of the rows of a text.

    Parameters
    ----------
    model : BertModel
    tokenizer : Tokenizer
    pooling : sequence of str
        ``"cls"``, ``"max"``, ``"mean"``, ``"mean_sqrt_len_tokens"``, ``"weightedmean"``, ``"lasttoken"``; several are
        put side by side, in this order.
    normalize : bool
        Divide each vector by its length.
    max_seq_length : int, optional
        Longer texts are cut; the model's number of positions by default.
    prompt : str
        Is put before each text.
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
        model: BertModel,
        tokenizer: Tokenizer,
        *,
        pooling: Sequence[str] = ("mean",),
        normalize: bool = False,
        max_seq_length: int | None = None,
        prompt: str = "",
        lower_case: bool = False,
    ) -> None:
        positions = model.config.max_position_embeddings
        unknown = [name for name in pooling if name not in POOLINGS]
        if unknown or not pooling:
            raise ValueError(
                f"SentenceEncoder: pooling must be of {', '.join(POOLINGS)}; got {', '.join(unknown) or 'none'}"
            )
        length = (
            min(positions, tokenizer.max_length or positions) if max_seq_length is None else max_seq_length
        )
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
        self.pooling = tuple(name for name in POOLINGS if name in pooling)
        self.normalize = normalize
        self.max_seq_length = length
        self.prompt = prompt
        self.lower_case = lower_case

    @property
    def dimension(self) -> int:
        """How many numbers an embedding has."""
        return len(self.pooling) * self.model.config.hidden_size

    @classmethod
    def from_pretrained(cls, folder: str | os.PathLike[str]) -> SentenceEncoder:
        """Load a folder of sentence-transformers, or one with only a BERT model and a tokenizer, to be averaged.

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
        parts = _parts(path)
        body = parts.pop("Transformer")
        model = BertModel.from_pretrained(body)
        settings = _optional(body / "sentence_bert_config.json")
        tokenizer = Tokenizer.from_pretrained(body)
        place = parts.get("Pooling")
        pooling = ("mean",) if place is None else _pooling(place / "config.json", model.config)
        top = _optional(path / "config_sentence_transformers.json")
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
                prompt=_prompt(path / "config_sentence_transformers.json", top),
                lower_case=bool(settings.get("do_lower_case", False)),
            )
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None

    @overload
    def encode(self, texts: str, batch_size: int = 32, show_progress: bool = False) -> np.ndarray: ...
    @overload
    def encode(
        self, texts: Sequence[str], batch_size: int = 32, show_progress: bool = False
    ) -> np.ndarray: ...
    def encode(
        self, texts: str | Sequence[str], batch_size: int = 32, show_progress: bool = False
    ) -> np.ndarray:
        """Give the embeddings of texts.

        Texts of similar length are computed together and no padding is computed at all, so the batch size changes the
        speed and nothing else that matters: results of different batch sizes agree to rounding.

        Parameters
        ----------
        texts : str or sequence of str
        batch_size : int
            Texts computed together.
        show_progress : bool
            Show a bar (needs tqdm).

        Returns
        -------
        np.ndarray
            float32, ``(N, M)``, or ``(M,)`` for one str.

        Raises
        ------
        TypeError
            If `texts` holds anything but strings.
        ValueError
            If `batch_size` is below 1.

        Examples
        --------
        >>> encoder = qkv.models.SentenceEncoder.from_pretrained("all-MiniLM-L6-v2")  # doctest: +SKIP
        >>> encoder.encode("A dog runs.").shape  # doctest: +SKIP
        (384,)
        """
        if isinstance(texts, str):
            single: np.ndarray = self.encode([texts], batch_size, show_progress)[0]
            return single
        sentences = list(texts)
        for i, text in enumerate(sentences):
            if not isinstance(text, str):
                raise TypeError(f"encode: texts must be strings; got {type(text).__name__} at position {i}")
        if batch_size < 1:
            raise ValueError(f"encode: batch_size must be at least 1; got {batch_size}")
        result = np.empty((len(sentences), self.dimension), np.float32)
        tick, close = progress_bar(len(sentences), " texts", bool(show_progress))
        try:
            for begin in range(0, len(sentences), max(CHUNK, batch_size)):
                chunk = sentences[begin : begin + max(CHUNK, batch_size)]
                for places, rows in self._batches(chunk, batch_size):
                    result[begin + places] = rows
                    tick(len(places))
        finally:
            close()
        return result

    def _batches(self, texts: list[str], batch_size: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Give the places of some texts and their embeddings, the longest first."""
        prepared = [self.prompt + (text.lower() if self.lower_case else text) for text in texts]
        ids = self.tokenizer.encode(prepared, self.max_seq_length)
        order = np.argsort([-len(x) for x in ids], kind="stable")
        for begin in range(0, len(order), batch_size):
            places = order[begin : begin + batch_size]
            yield places, self._embed([ids[i] for i in places])

    def _embed(self, ids: list[list[int]]) -> np.ndarray:
        lens = np.array([len(x) for x in ids])
        padded = np.zeros((len(ids), max(1, int(lens.max()))), np.int64)
        for row, x in zip(padded, ids, strict=True):
            row[: len(x)] = x
        with no_grad(), no_attention_record():
            rows = self.model(
                padded, valid_lens=lens, skip_padding=True
            ).last_hidden_state.numpy()  # (B, L, M)
        pooled = np.concatenate([_pooled(name, rows, lens) for name in self.pooling], axis=1)
        if self.normalize:
            pooled = pooled / np.maximum(np.linalg.norm(pooled, axis=1, keepdims=True), 1e-12)
        return pooled.astype(np.float32)


def _pooled(name: str, rows: np.ndarray, lens: np.ndarray) -> np.ndarray:
    """Give (B, M) of rows (B, L, M) that are zeros behind lens."""
    count = np.maximum(lens, 1)[:, None].astype(rows.dtype)
    pooled: np.ndarray
    if name == "cls":
        pooled = rows[:, 0]
    elif name == "lasttoken":
        pooled = rows[np.arange(len(rows)), np.maximum(lens, 1) - 1]
    elif name == "max":
        kept = np.arange(rows.shape[1]) < lens[:, None]
        pooled = np.where(kept[..., None], rows, np.where(lens > 0, -np.inf, 0)[:, None, None]).max(axis=1)
    elif name == "weightedmean":
        weights = np.arange(1, rows.shape[1] + 1, dtype=rows.dtype)
        pooled = np.einsum("blm,l->bm", rows, weights) / (count * (count + 1) / 2)
    else:
        pooled = rows.sum(axis=1) / (count if name == "mean" else np.sqrt(count))
    return pooled


def progress_bar(
    total: int | None, unit: str, show: bool | None
) -> tuple[Callable[[int], Any], Callable[[], Any]]:
    """Give what moves a bar and what closes it; with `show` None there is one on a terminal, if tqdm is there."""
    if show is False or (show is None and not sys.stderr.isatty()):
        return (lambda n: None), (lambda: None)
    try:
        tqdm = importlib.import_module("tqdm").tqdm
    except ImportError as error:
        if show is None:
            return (lambda n: None), (lambda: None)
        raise ImportError("encode: a bar needs the package tqdm; install it: pip install tqdm") from error
    bar = tqdm(total=total, unit=unit, unit_scale=True, dynamic_ncols=True)
    return bar.update, bar.close


def _optional(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = read_json(path) if path.is_file() else {}
    return found


def _parts(folder: Path) -> dict[str, Path]:
    """Give the folders of the parts that modules.json names."""
    listing = folder / "modules.json"
    if not listing.is_file():
        return {"Transformer": folder}
    parts: dict[str, Path] = {}
    order = ("Transformer", "Pooling", "Normalize")
    for entry in read_json(listing, list):
        kind, place = (entry.get("type"), entry.get("path")) if isinstance(entry, dict) else (None, None)
        if not isinstance(kind, str) or not isinstance(place, str):
            raise ValueError(f"{listing}: must hold objects with type and path; got {str(entry)[:100]}")
        name = kind.rpartition(".")[2]
        if (
            name not in order
            or name in parts
            or (parts and order.index(name) < order.index(next(reversed(parts))))
        ):
            raise ValueError(
                f"{listing}: must name a Transformer, a Pooling and maybe a Normalize; got {kind[:100]}"
            )
        if Path(place).is_absolute() or ".." in Path(place).parts or "\0" in place:
            raise ValueError(f"{listing}: must name folders below it; got {place[:100]!r}")
        parts[name] = folder / place
    if "Transformer" not in parts:
        raise ValueError(f"{listing}: must name a Transformer; got {', '.join(parts) or 'nothing'}")
    return parts


def _pooling(path: Path, config: BertConfig) -> tuple[str, ...]:
    entries = read_json(path)
    width = entries.get("embedding_dimension", entries.get("word_embedding_dimension", config.hidden_size))
    if width != config.hidden_size:
        raise ValueError(f"{path}: must be for rows of hidden_size = {config.hidden_size}; got {width!r}")
    if entries.get("include_prompt", True) is False:
        raise ValueError(f"{path}: include_prompt must be true; got false")
    chosen = entries.get("pooling_mode")
    if chosen is None:
        chosen = [name for name, key in POOLINGS.items() if entries.get(key)] or ["mean"]
    names = [chosen] if isinstance(chosen, str) else chosen
    if (
        not isinstance(names, list)
        or not names
        or not all(isinstance(n, str) and n in POOLINGS for n in names)
    ):
        raise ValueError(f"{path}: pooling_mode must be of {', '.join(POOLINGS)}; got {str(chosen)[:100]}")
    return tuple(names)


def _prompt(path: Path, entries: dict[str, Any]) -> str:
    name = entries.get("default_prompt_name")
    if name is None:
        return ""
    prompts = entries.get("prompts")
    prompt = prompts.get(name) if isinstance(prompts, dict) and isinstance(name, str) else None
    if not isinstance(prompt, str):
        raise ValueError(f"{path}: default_prompt_name must be one of prompts; got {str(name)[:100]}")
    return prompt
