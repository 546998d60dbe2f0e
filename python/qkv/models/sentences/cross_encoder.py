"""Scores of pairs of texts, as sentence-transformers computes them."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..._core import Tensor
from ..._words.errors import count_of, integer_of, shown
from ...functions.gradients import no_grad, tensor
from ...functions.normalizers import softmax
from ...nn.record import no_attention_record
from ..families.auto import from_pretrained
from ..files.folders import checked_folder, optional_json, read_json
from ..text.pairs import is_pair
from ..text.tokens import Tokenizer
from .batches import batches, chunks, most_positions, padded
from .dense import activated, activation_named
from .progress import progress_bar
from .queries import Prompts
from .sentence_entries import SETTINGS
from .sentence_files import CONFIG, parts_of, prompts_of, transformer_settings

HEAD = "ForSequenceClassification"


class CrossEncoder(Prompts):
    """A model that reads two texts together and gives them a score: a reranker, or a classifier of pairs.

    Parameters
    ----------
    model : path or model
        A folder of sentence-transformers or of Hugging Face's library, or a model with the head
        ``ForSequenceClassification``.
    tokenizer : Tokenizer, optional
        The folder's, if `model` is one.
    max_length : int, optional
        Longer pairs are cut, the longer text first; what the tokenizer and the model allow by default.
    activation_fn : callable or str, optional
        From scores ``(N, labels)`` as a Tensor to others; the folder's by default, else the sigmoid where there is one
        label, and nothing where there are more.

    Attributes
    ----------
    num_labels : int
    prompts : dict
        By name, of the folder.

    Raises
    ------
    OSError
        If a file is missing.
    TypeError, ValueError
        If the model has another head, or a file does not fit.

    References
    ----------
    Nogueira and Cho, Passage Re-ranking with BERT, 2019.

    Examples
    --------
    >>> reranker = qkv.models.CrossEncoder("ms-marco-MiniLM-L6-v2")  # doctest: +SKIP
    >>> reranker.rank("Where is the dog?", ["In the park.", "It is noon."], top_k=1)  # doctest: +SKIP
    [{'corpus_id': 0, 'score': 4.7}]
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Tokenizer | None = None,
        *,
        max_length: int | None = None,
        activation_fn: Callable[[Tensor], Any] | str | None = None,
    ) -> None:
        activation, where, lower = activation_fn, Path("activation_fn"), False
        self.prompts, self.prompt = {}, ""
        if isinstance(model, (str, os.PathLike)):
            path = checked_folder("CrossEncoder", model)
            body, top = _checked_parts(path)
            settings, _ = transformer_settings(body)
            self.prompts, self.prompt = prompts_of(path / CONFIG, top)
            named, where = _activation_of(body, top, path)
            activation = named if activation is None else activation
            max_length = settings.get("max_seq_length") if max_length is None else max_length
            lower = bool(settings.get("do_lower_case", False))
            model = from_pretrained(body)
            tokenizer = tokenizer or Tokenizer.from_pretrained(body)
        if getattr(model, "head_name", None) != HEAD or not isinstance(tokenizer, Tokenizer):
            raise TypeError(
                f"CrossEncoder: model must be a folder or a model with the head {HEAD}, and tokenizer a "
                f"qkv.models.Tokenizer; got {_described(model)} and {type(tokenizer).__name__}"
            )
        self.model = model
        self.tokenizer: Any = tokenizer
        self.num_labels = int(model.config.num_labels)
        if activation is None:
            activation = "torch.nn.modules.activation." + ("Sigmoid" if self.num_labels == 1 else "Identity")
        self.activation_fn: Any = activation
        if isinstance(activation, str):
            name = activation_named(where, "activation_fn", activation)
            self.activation_fn = lambda scores: activated(name, scores)
        self.lower_case = lower
        positions = most_positions(model)
        limits = [n for n in (positions, tokenizer.max_length) if n]
        self.max_length: int | None = min(limits, default=None)
        if max_length is not None:
            self.max_length = integer_of("CrossEncoder", "max_length", max_length)
            if not 1 <= self.max_length <= (positions or self.max_length):
                raise ValueError(
                    f"CrossEncoder: max_length must be from 1 to max_position_embeddings = {positions}; "
                    f"got {max_length}"
                )

    @classmethod
    def from_pretrained(cls, folder: str | os.PathLike[str]) -> CrossEncoder:
        """Load a folder, as the class itself does.

        Parameters
        ----------
        folder : path

        Returns
        -------
        CrossEncoder

        Examples
        --------
        >>> reranker = qkv.models.CrossEncoder.from_pretrained("ms-marco-MiniLM-L6-v2")  # doctest: +SKIP
        """
        return cls(folder)

    def __repr__(self) -> str:
        return (
            f"CrossEncoder({type(self.model).__name__}, {self.num_labels} label"
            f"{'' if self.num_labels == 1 else 's'}, max_length={self.max_length})"
        )

    def predict(
        self,
        inputs: Sequence[Sequence[str]] | Sequence[str],
        batch_size: int = 32,
        show_progress_bar: bool | None = False,
        activation_fn: Callable[[Tensor], Any] | None = None,
        apply_softmax: bool = False,
        convert_to_numpy: bool = True,
        convert_to_tensor: bool = False,
        prompt: str | None = None,
        prompt_name: str | None = None,
    ) -> Any:
        """Return the scores of pairs of texts.

        Parameters
        ----------
        inputs : sequence of pairs of str, or one pair
        batch_size : int
            Pairs computed together.
        show_progress_bar : bool, optional
            Show a bar (needs tqdm).
        activation_fn : callable, optional
            In place of the encoder's.
        apply_softmax : bool
            Divide the scores of several labels into parts of 1.
        convert_to_numpy, convert_to_tensor : bool
            Return an array, one Tensor, or a list of Tensors if neither is True.
        prompt, prompt_name : str, optional
            Is written before the first text of each pair, in place of the encoder's.

        Returns
        -------
        np.ndarray
            float32, ``(N,)`` for one label, else ``(N, labels)``; without the N for one pair.

        Raises
        ------
        TypeError, ValueError
            If `inputs` holds anything but pairs of strings, or an option does not fit.

        Examples
        --------
        >>> reranker = qkv.models.CrossEncoder("ms-marco-MiniLM-L6-v2")  # doctest: +SKIP
        >>> reranker.predict([("Where is the dog?", "In the park.")]).shape  # doctest: +SKIP
        (1,)
        """
        alone = is_pair(inputs)
        pairs: Any = [inputs] if alone else inputs
        if (
            isinstance(pairs, str)
            or not hasattr(pairs, "__iter__")
            or not all(map(is_pair, pairs := list(pairs)))
        ):
            raise TypeError(f"predict: inputs must be pairs of strings; got {shown(inputs)}")
        count_of("predict", "batch_size", batch_size, 1)
        change = self.activation_fn if activation_fn is None else activation_fn
        if not callable(change):
            raise TypeError(f"predict: activation_fn must be a function of scores; got {shown(change)}")
        before = self._prompt(prompt, prompt_name, "predict")
        prepared = [(before + first, second) for first, second in pairs]
        if self.lower_case:
            prepared = [(first.lower(), second.lower()) for first, second in prepared]
        result: Any = np.zeros((len(pairs), self.num_labels), np.float32)
        tick, close = progress_bar(len(pairs), " pairs", bool(show_progress_bar))
        try:
            with no_grad(), no_attention_record():
                for part in chunks([first + second for first, second in prepared], batch_size):
                    first, second = zip(*prepared[part], strict=True)
                    found = self.tokenizer._encodings("predict", first, second, self.max_length)
                    for places in batches([encoding.ids for encoding in found], batch_size):
                        scores = change(self._logits([found[i] for i in places]))
                        if apply_softmax and self.num_labels > 1:
                            scores = softmax(scores, axis=1)
                        result[part.start + places] = np.asarray(scores).reshape(len(places), -1)
                        tick(len(places))
        finally:
            close()
        result = result[:, 0] if self.num_labels == 1 else result
        result = result[0] if alone else result
        if convert_to_tensor:
            return tensor(result)
        return result if convert_to_numpy or alone else list(map(tensor, result))

    def rank(
        self,
        query: str,
        documents: Sequence[str],
        top_k: int | None = None,
        return_documents: bool = False,
        batch_size: int = 32,
        show_progress_bar: bool | None = False,
        activation_fn: Callable[[Tensor], Any] | None = None,
        prompt: str | None = None,
        prompt_name: str | None = None,
    ) -> list[dict[str, Any]]:
        """Return the documents in order of their scores with a query, best first.

        Parameters
        ----------
        query : str
        documents : sequence of str
        top_k : int, optional
            Return so many.
        return_documents : bool
            Return their texts, too.
        batch_size, show_progress_bar, activation_fn, prompt, prompt_name
            As in :meth:`predict`.

        Returns
        -------
        list of dict
            With ``corpus_id``, the number of the document, ``score``, and ``text`` if asked for.

        Raises
        ------
        TypeError, ValueError
            If the model has several labels, or an argument does not fit.

        Examples
        --------
        >>> reranker = qkv.models.CrossEncoder("ms-marco-MiniLM-L6-v2")  # doctest: +SKIP
        >>> best = reranker.rank("Where is the dog?", ["In the park.", "It is noon."])[0]  # doctest: +SKIP
        """
        if self.num_labels != 1:
            raise ValueError(
                f"rank: model must have one label because documents are in order of it; got {self.num_labels}; "
                "predict returns the scores of all"
            )
        if not isinstance(query, str):
            raise TypeError(f"rank: query must be a string; got {shown(query)}")
        if isinstance(documents, str):
            raise TypeError("rank: documents must be a sequence of strings; got a str")
        most = None if top_k is None else count_of("rank", "top_k", top_k, 0)
        listed = list(documents)
        scores = self.predict(
            [(query, document) for document in listed],
            batch_size=batch_size,
            show_progress_bar=show_progress_bar,
            activation_fn=activation_fn,
            prompt=prompt,
            prompt_name=prompt_name,
        )
        found: list[dict[str, Any]] = [
            {"corpus_id": i, "score": float(score), **({"text": listed[i]} if return_documents else {})}
            for i, score in enumerate(scores)
        ]
        return sorted(found, key=lambda one: -one["score"])[:most]

    def _logits(self, found: list[Any]) -> Tensor:
        ids, lens = padded(
            [encoding.ids for encoding in found], getattr(self.model.config, "pad_token_id", None) or 0
        )
        types, body = {}, self.model.architecture.bodies(self.model.config).get("body", {})
        if self.tokenizer.reads_types and (body.get("type_vocab_size") or 0) > 1:
            kinds, _ = padded([encoding.type_ids for encoding in found], 0)
            types["token_type_ids"] = kinds
        scores: Tensor = self.model(ids, valid_lens=lens, skip_padding=True, **types).logits
        return scores


def _described(model: Any) -> str:
    head = getattr(model, "head_name", None)
    return f"{type(model).__name__} with the head {head}" if head else type(model).__name__


def _checked_parts(path: Path) -> tuple[Path, dict[str, Any]]:
    """Return the folder of the model, and the settings of the whole; other parts are refused."""
    parts = parts_of(path)
    if len(parts) > 1:
        raise ValueError(f"{path / 'modules.json'}: must name a Transformer alone; got {parts[1][0]}")
    top = optional_json(path / CONFIG)
    SETTINGS.check(path / CONFIG, top)
    return parts[0][1], top


def _activation_of(body: Path, top: dict[str, Any], path: Path) -> tuple[Any, Path]:
    """Return the function of scores that a folder names, in the newest place that there is, and that place."""
    config = read_json(body / "config.json")
    own = config.get("sentence_transformers")
    if top.get("activation_fn") is not None:
        return top["activation_fn"], path / CONFIG
    if isinstance(own, dict) and "activation_fn" in own:
        return own["activation_fn"], body / "config.json"
    return config.get("sbert_ce_default_activation_function"), body / "config.json"
