"""Models of many architectures: bodies of one block, and heads."""

from __future__ import annotations

import os
from contextlib import nullcontext
from typing import Any

import numpy as np

from ..._core import Embedding, Module, SkipInit, Tensor, TransformerBody
from ..architectures.configuration import Configuration
from ..architectures.table import Architecture, HeadTable, Names, architecture_of
from ..files.folders import write_model
from ..files.loading import Stored, joined
from .deberta_parts import OWN_PARTS, replace_parts
from .heads import Head
from .outputs import output


class PretrainedModel(Module):
    """What the models of all architectures share.

    Parameters
    ----------
    config : Configuration
        Whose ``model_type`` names the table.
    head : str, optional
        The key of its head.
    values : bool
        False leaves the parameters undefined, for callers that load them.
    pooler : bool
        False makes none even if the architecture has one; ``pooler_output`` is then None.
    """

    def __init__(
        self,
        config: Configuration,
        head: str | None = None,
        *,
        values: bool = True,
        pooler: bool = True,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        if not isinstance(config, Configuration):
            raise TypeError(
                f"{name}: config must be a Configuration, which from_config makes; got {type(config).__name__}"
            )
        table = architecture_of(config.model_type)
        if head is not None and head not in (*table.heads, table.encoder_only):
            raise ValueError(f"{name}: head must be one of the architecture's heads; got {head!r}")
        self.config, self.head_name = config, head
        architecture = self.architecture
        self.given_generation: dict[str, Any] | None = None
        self.lacking: str | None = None  # the matrix of a head that the file does not have
        self._make_bodies(architecture.made(config, head), values)
        with nullcontext() if values else SkipInit():
            self._make_head(pooler)

    @classmethod
    def _made(
        cls, config: Configuration, head: str | None = None, *, values: bool = True, pooler: bool = True
    ) -> Any:
        """Return a model of a class with any parameters."""
        return cls(config, head, values=values, pooler=pooler)

    def _make_bodies(self, options: dict[str, Any], values: bool) -> None:
        for name, chosen in options.items():
            layers = [dict(layer) for layer in chosen["layers"]]
            own = [{part: layer.pop(part) for part in OWN_PARTS if part in layer} for layer in layers]
            setattr(self, name, TransformerBody(**{**chosen, "layers": layers}, values=values))
            if any(own):
                replace_parts(getattr(self, name), layers, own, values)

    def _make_head(self, pooler: bool) -> None:
        config, table = self.config, self.architecture.heads.get(self.head_name or "")
        above = self.architecture.pooler if pooler and (table is None or table.pooler) else None
        self.pooler = None if above is None else Head(config.hidden_size, **above.options(config))
        self.head = None if table is None else Head(config.hidden_size, **table.options(config))

    @property
    def attention_weights(self) -> list[Tensor | None]:
        """The weights of each layer, of the last call; None before the first."""
        return list(self.body.attention_weights)

    @property
    def architecture(self) -> Architecture:
        """The table of the model type."""
        return architecture_of(self.config.model_type)

    def _names(self) -> Names | None:
        """The file's names of the parameters; None where they are the model's own."""
        return self.architecture.all_names(self.config, self.head_name)

    def _stored(self) -> Stored:
        shapes = {name: tuple(p.shape) for name, p in self.named_parameters()}
        return Stored(self.architecture, self._names(), self.head_name, shapes)

    @property
    def generation(self) -> dict[str, Any]:
        """The entries of generation_config.json, or what old files have of it in config.json."""
        return self.config.to_dict() if self.given_generation is None else self.given_generation

    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        """Write config.json and model.safetensors, which Hugging Face's libraries and :func:`from_pretrained` load.

        Parameters
        ----------
        folder : path
            Is made if it does not exist. Both files are written whole under other names first.

        Raises
        ------
        OSError
            If the folder cannot be written.

        Examples
        --------
        >>> qkv.models.from_pretrained("gpt2").save_pretrained("copy")  # doctest: +SKIP
        """
        parameters = {name: p.numpy() for name, p in self.state_dict().items()}
        name, kind = self.architecture.classes + (self.head_name or "Model"), self.architecture.model_type
        entries = {**self.config.to_dict(), "architectures": [name], "model_type": kind}
        write_model(folder, entries, joined(self._stored(), self.config, parameters), self.given_generation)

    def __repr__(self) -> str:
        c = self.config
        return (
            f"{type(self).__name__}({self.architecture.classes}{self.head_name or 'Model'}, "
            f"{c.num_hidden_layers} layers, {c.hidden_size} wide, {c.num_attention_heads} heads, "
            f"{self.num_parameters():,} parameters)"
        )

    def _finished(self, hidden: Tensor, states: list[Tensor] | None, keep: Any = None) -> Any:
        """Return the named tuple of a body's output."""
        pooled = None if self.pooler is None else self.pooler(hidden)
        if self.head is None:
            return output("ModelOutput", last_hidden_state=hidden, pooler_output=pooled, hidden_states=states)
        table = self._head_table
        logits = self._logits(
            pooled if pooled is not None and table is not None and table.pooler else hidden, keep
        )
        return self._scored(logits, hidden_states=states)

    def _scored(self, logits: Tensor, **states: Any) -> Any:
        """Return the named tuple of a head's scores."""
        if self._head_table is None or not self._head_table.answers:
            return output("LogitsOutput", logits=logits, **states)
        starts, ends = logits[..., 0], logits[..., 1]
        return output("AnswersOutput", start_logits=starts, end_logits=ends, **states)

    @property
    def _head_table(self) -> HeadTable | None:
        return self.architecture.heads.get(self.head_name or "")

    @property
    def writes(self) -> bool:
        """Whether the scores are those of the next word."""
        return self._head_table is not None and self._head_table.words

    def _logits(self, hidden: Tensor, keep: Any = None) -> Tensor:
        head: Any = self.head
        words = self._words() if head.tied else None
        scores: Tensor = head(hidden, words, keep)
        return scores

    def _words(self) -> Embedding:
        words: Embedding = self.body.embedding
        return words


def split_states(hidden: Any, final: bool) -> tuple[Tensor, list[Tensor] | None]:
    """Return the last rows, and those of all layers, which end with the finished ones as in Hugging Face's."""
    if isinstance(hidden, Tensor):
        return hidden, None
    last, states = hidden
    return last, [*states[:-1], last] if final else list(states)


class PretrainedEncoder(PretrainedModel):
    """An encoder of any architecture, with or without a head; :func:`from_pretrained` makes it.

    Called ``(input_ids, *, attention_mask=None, valid_lens=None, token_type_ids=None, skip_padding=False,
    output_hidden_states=False)``, it returns a named tuple: ``last_hidden_state`` ``(B, L, M)`` and ``pooler_output``
    ``(B, M)`` or None; with a head ``logits``; ``hidden_states`` of all layers if asked for, the embeddings first.

    Attributes
    ----------
    config : Configuration
    attention_weights : list of Tensor
        ``(B, H, L, L)`` of each layer, of the last call, before dropout.

    Examples
    --------
    >>> sizes = dict(hidden_size=24, num_hidden_layers=1, num_attention_heads=3, intermediate_size=40, vocab_size=30)
    >>> model = qkv.models.from_config({"model_type": "roberta", "max_position_embeddings": 20, **sizes}).eval()
    >>> model([[0, 5, 6, 2]]).last_hidden_state.shape
    (1, 4, 24)
    """

    def forward(
        self,
        input_ids: Any,
        *,
        attention_mask: Any = None,
        valid_lens: Any = None,
        token_type_ids: Any = None,
        skip_padding: bool = False,
        output_hidden_states: bool = False,
    ) -> Any:
        """Compute the hidden states, or what the head makes of them."""
        hidden = self._rows(
            input_ids,
            attention_mask=attention_mask,
            valid_lens=valid_lens,
            token_type_ids=token_type_ids,
            skip_padding=skip_padding,
            output_hidden_states=output_hidden_states,
        )
        last, states = split_states(hidden, True)
        keep = None
        if self.head is not None and self.head.pooling == "mean":
            keep = kept_rows(attention_mask, valid_lens, last.shape[:2], str(last.dtype))
        return self._finished(last, states, keep)

    def _rows(self, input_ids: Any, **options: Any) -> Any:
        return self.body(input_ids, **options)

    @property
    def positions(self) -> int:
        """How many ids a text may have."""
        options = self.architecture.bodies(self.config)["body"]
        return int(options.get("max_positions") or self.config.max_position_embeddings) - int(
            options.get("position_offset", 0)
        )


def kept_rows(attention_mask: Any, valid_lens: Any, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Return ones where a row counts, (B, L)."""
    keep = np.ones(shape, dtype)
    if attention_mask is not None:
        keep *= np.asarray(attention_mask).astype(dtype)
    if valid_lens is not None:
        keep *= np.arange(shape[1]) < np.asarray(valid_lens)[:, None]
    return keep
