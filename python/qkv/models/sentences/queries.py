"""Embeddings of queries and of documents, and how similar they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..._words.errors import shown
from .pooling import compared

DOCUMENTS = ("document", "passage", "corpus")  # names of the prompt before documents


class Prompts:
    """What is written before texts, by names."""

    prompt: str
    prompts: dict[str, str]

    def _prompt(self, prompt: str | None, name: str | None, operation: str = "encode") -> str:
        if prompt is not None and not isinstance(prompt, str):
            raise TypeError(f"{operation}: prompt must be a string; got {shown(prompt)}")
        if prompt is not None or name is None:
            return self.prompt if prompt is None else prompt
        if name not in self.prompts:
            raise ValueError(
                f"{operation}: prompt_name must be one of {', '.join(self.prompts) or 'none'}; got {name!r}"
            )
        return self.prompts[name]


class Queries(Prompts):
    """What encoders can do with prompts by their names."""

    similarity_fn_name: str
    encode: Any

    def encode_query(self, texts: str | Sequence[str], **options: Any) -> Any:
        """Return the embeddings of queries: with the prompt "query", unless another is asked for.

        Parameters
        ----------
        texts : str or sequence of str
        **options
            As in :meth:`encode`.

        Returns
        -------
        np.ndarray

        Examples
        --------
        >>> encoder = qkv.models.SentenceEncoder.from_pretrained("Qwen3-Embedding-0.6B")  # doctest: +SKIP
        >>> queries = encoder.encode_query(["Where is the dog?"])  # doctest: +SKIP
        """
        return self.encode(texts, **self._task("query", ("query",), options))

    def encode_document(self, texts: str | Sequence[str], **options: Any) -> Any:
        """Return the embeddings of documents: with the prompt "document", "passage" or "corpus", if there is one.

        Parameters
        ----------
        texts : str or sequence of str
        **options
            As in :meth:`encode`.

        Returns
        -------
        np.ndarray

        Examples
        --------
        >>> encoder = qkv.models.SentenceEncoder.from_pretrained("Qwen3-Embedding-0.6B")  # doctest: +SKIP
        >>> documents = encoder.encode_document(["The dog is in the park."])  # doctest: +SKIP
        """
        return self.encode(texts, **self._task("document", DOCUMENTS, options))

    def _task(self, task: str, names: Sequence[str], options: dict[str, Any]) -> dict[str, Any]:
        found = [name for name in names if name in self.prompts]
        if options.get("prompt") is None and options.get("prompt_name") is None:
            options["prompt"] = self.prompts[found[0]] if found else ""
        return {"task": task, **options}

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
