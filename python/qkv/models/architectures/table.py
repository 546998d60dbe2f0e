"""What a table of an architecture says: options of the bodies, and where a file keeps each parameter."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal

import numpy as np

from .configuration import Configuration

_TYPES = """
bert roberta xlm-roberta camembert distilbert electra mpnet modernbert deberta-v2 gpt2 gpt_neox llama mistral qwen2
qwen3 gemma gemma2 phi3 smollm3 bloom t5 mt5 bart marian deit vit
"""
MODEL_TYPES = tuple(_TYPES.split())
Options = dict[str, Any]


@dataclass(frozen=True)
class Piece:
    """A module, or a parameter, of a file that holds several of the body's, or holds them otherwise.

    Parameters
    ----------
    name : str
        The file's name; ``{}`` is the number of the layer.
    number, count : int
        Which of so many equal parts of the rows.
    parts : tuple of int
        Rows of each part, where they are not equal.
    by_heads : bool
        The rows are ``(heads, count, head_dim)`` and not ``(count, heads, head_dim)``.
    transposed : bool
        Matrices are ``(in, out)``.
    added : float
        Is added to what the file holds.
    row : bool
        The file has an axis of length 1 before the body's.
    optional : bool
        The file may lack it; the parameter then keeps its zeros.
    """

    name: str
    number: int = 0
    count: int = 1
    parts: tuple[int, ...] = ()
    by_heads: bool = False
    transposed: bool = False
    added: float = 0.0
    row: bool = False
    optional: bool = False

    def held(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the file's shape of a parameter of this shape."""
        whole = (sum(self.parts) or self.count * shape[0], *shape[1:])
        return whole[::-1] if self.transposed else (1, *whole) if self.row else whole

    def take(self, array: np.ndarray, shape: tuple[int, ...], heads: int) -> np.ndarray:
        """Return the body's parameter of what the file holds."""
        array = array.T if self.transposed else array
        if self.parts:
            begin = sum(self.parts[: self.number])
            array = array[begin : begin + self.parts[self.number]]
        elif self.count > 1:
            split = (heads, self.count, -1) if self.by_heads else (1, self.count, -1)
            array = array.reshape(*split, *array.shape[1:])[:, self.number]
        array = array.reshape(shape)
        return np.ascontiguousarray(array + self.added if self.added else array)

    def join(self, arrays: Sequence[np.ndarray], heads: int) -> np.ndarray:
        """Return what the file holds of all the parts, in order."""
        if self.parts:
            return np.concatenate(arrays)
        groups = heads if self.by_heads else 1
        parts = [a.reshape(groups, -1, *a.shape[1:]) for a in arrays[: self.count]]
        whole = np.concatenate(parts, axis=1).reshape(-1, *arrays[0].shape[1:]) - self.added
        whole = whole.T if self.transposed else whole[None] if self.row else whole
        return np.ascontiguousarray(whole, arrays[0].dtype)


Names = Mapping[str, str | Piece]


def packed(theirs: str, **how: Any) -> dict[str, Piece]:
    """Return the names of queries, keys and values that a file keeps in one matrix."""
    return {f"layers.{{}}.self_attn.{x}_proj": Piece(theirs, i, 3, **how) for i, x in enumerate("qkv")}


def projections(own: str, theirs: str, ends: Sequence[str]) -> dict[str, str]:
    """Return the names of an attention's projections of queries, keys, values and results."""
    return {f"{own}.{x}_proj": theirs + end for x, end in zip(("q", "k", "v", "out"), ends, strict=True)}


def biases(attention: bool, feed_forward: bool) -> Options:
    """Return which matrices of a block have a bias."""
    return {"qkv_bias": attention, "out_bias": attention, "bias": feed_forward}


def only_body(c: Configuration, layers: list[Options], **options: Any) -> dict[str, Options]:
    """Return the options of the only body of a model."""
    return {"body": {"layers": layers, "d_model": c.hidden_size, "vocab_size": c.vocab_size, **options}}


@dataclass(frozen=True)
class HeadTable:
    """What is on top of a body.

    Parameters
    ----------
    options : callable
        From a configuration to the options of :class:`Head`.
    names, untied : mapping
        As those of the architecture; those that are others where the words are not the embeddings.
    others : callable, optional
        Names that take the place of those where a configuration says so.
    copies : mapping
        What Hugging Face's models have a second time then, without reading it: that name to the one that is read.
    pooler : bool
        The body has its pooler.
    words : bool
        The scores are those of the next word.
    answers : bool
        The two columns are scores of where an answer begins and ends.
    encoder_only : bool
        There is no decoder below.
    prefix : str, optional
        Of the body's parameters in files with this head, where it is not the architecture's.
    """

    options: Callable[[Configuration], Options]
    names: Names = field(default_factory=dict)
    untied: Names = field(default_factory=dict)
    others: Callable[[Configuration], Names] | None = None
    copies: Mapping[str, str] = field(default_factory=dict)
    pooler: bool = False
    words: bool = False
    answers: bool = False
    encoder_only: bool = False
    prefix: str | None = None

    def names_of(self, config: Configuration) -> Names:
        """Return the file's names of its parameters."""
        untied = {} if self.options(config).get("tied") else self.untied
        return {**self.names, **untied, **({} if self.others is None else self.others(config))}


def head_names(
    output: str, dense: str | None = None, norm: str | None = None, bias: str | None = None
) -> Names:
    """Return the names of a head's parts; its bias is that of the last matrix, or is alone where that is tied."""
    parts = {
        "output": output,
        "dense": dense,
        "norm": norm,
        "bias": bias or output + ".bias",
        "output.bias": bias,
    }
    return {f"head.{own}": theirs for own, theirs in parts.items() if theirs is not None}


def language_head(
    theirs: str = "lm_head", names: Names | None = None, **options: Callable[[Configuration], Any]
) -> HeadTable:
    """Return the scores of words, whose matrix may be that of the embeddings."""
    return HeadTable(
        lambda c: {
            "outputs": c.vocab_size,
            "tied": c.tie_word_embeddings,
            "bias": False,
            **{name: value(c) for name, value in options.items()},
        },
        {"head.output": theirs, **(names or {})},
        words=True,
    )


def answers(prefix: str | None = None, dropout: str | None = None) -> HeadTable:
    """Return the scores of rows where an answer begins and ends."""
    return HeadTable(
        lambda c: {"outputs": 2, "dropout": c.get(dropout) if dropout else 0.0},
        {"head.output": "qa_outputs"},
        answers=True,
        prefix=prefix,
    )


def decoder_heads(rows: str = "score", questions: str | None = None) -> dict[str, HeadTable]:
    """Return what is on top of decoders but words: classes of the last id but padding, of each row, and answers."""

    def row_options(c: Configuration) -> Options:
        p = c.get("classifier_dropout", c.get("hidden_dropout", 0.1))
        return {"outputs": c.num_labels, "dropout": p, "bias": c.get("token_classification_bias", True)}

    return {
        "ForSequenceClassification": HeadTable(
            lambda c: {"outputs": c.num_labels, "bias": False, "pooling": "last"}, {"head.output": "score"}
        ),
        "ForTokenClassification": HeadTable(row_options, {"head.output": rows}),
        **({} if questions is None else {"ForQuestionAnswering": answers(questions)}),
    }


@dataclass(frozen=True)
class Architecture:
    """The table of a model type.

    Parameters
    ----------
    model_type : str
    kind : str
        Which class computes it.
    classes : str
        What Hugging Face's classes begin with.
    prefix : str
        Of the body's parameters in files of models with a head.
    defaults, allowed, nulls, aliases : mapping
        As in :class:`Configuration`.
    bodies : callable
        From a configuration to the options of the C++ body, by its name in the model.
    names : mapping
        From parameters of the model to those of the file; modules, where both have the same parameters. The embeddings
        are first. A function of the configuration, where options change them.
    heads : mapping
        From the end of Hugging Face's class names to heads.
    pooler : HeadTable, optional
        What makes ``pooler_output``.
    buffers : callable, optional
        From a configuration to arrays that Hugging Face's bare model keeps beside its parameters.
    encoder_only : str, optional
        The end of the name of the class that is an encoder-decoder's encoder alone.
    configure : callable, optional
        Checks the entries of a config.json in the place of :class:`Configuration`.
    copies : callable, optional
        From a configuration to names of tensors that Hugging Face's models have a second time, without reading them.
    beside : str, optional
        A pattern of the tensors that a file may hold beside the model's; others are refused. Without it they are
        ignored, except for those of layers.
    """

    model_type: str
    kind: Literal["encoder", "causal", "encoder-decoder", "image"]
    classes: str
    prefix: str
    defaults: Mapping[str, Any]
    bodies: Callable[[Configuration], dict[str, Any]]
    names: Names | Callable[[Configuration], Names]
    heads: Mapping[str, HeadTable]
    allowed: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    nulls: Mapping[str, Any] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)
    pooler: HeadTable | None = None
    buffers: Callable[[Configuration], dict[str, np.ndarray]] | None = None
    encoder_only: str | None = None
    configure: Callable[[Mapping[str, Any]], Configuration] | None = None
    copies: Callable[[Configuration], Mapping[str, str]] | None = None
    beside: str | None = None

    def configuration(self, entries: Mapping[str, Any]) -> Configuration:
        """Check the entries of a config.json."""
        if self.configure is not None:
            return self.configure(entries)
        return Configuration(entries, self.defaults, self.allowed, self.nulls, self.aliases)

    def head_named(self, name: str | None) -> str | None:
        """Return the key of the head of a class of Hugging Face's, None for the bare body."""
        if name is None or name == self.classes + "Model":
            return None
        key = name.removeprefix(self.classes)
        if name.startswith(self.classes) and (key in self.heads or key == self.encoder_only):
            return key
        known = ["Model", *self.heads, *([self.encoder_only] if self.encoder_only else [])]
        raise ValueError(
            f"architectures must name one of {', '.join(self.classes + end for end in known)}; got {name[:100]}"
        )

    def prefix_of(self, head: str | None) -> str:
        """Return what is before the body's names in files of models with this head."""
        own = self.heads[head].prefix if head is not None and head in self.heads else None
        return self.prefix if own is None else own

    def made(self, config: Configuration, head: str | None) -> dict[str, Any]:
        """Return the options of the bodies of a model with this head."""
        bodies = self.bodies(config)
        if head is not None and (head == self.encoder_only or self.heads[head].encoder_only):
            bodies.pop("decoder")
        return bodies

    def all_names(self, config: Configuration, head: str | None) -> Names:
        """Return the file's names of a model's parameters with this head; those of the head begin with ``head.``."""
        names = dict(self.names(config) if callable(self.names) else self.names)
        chosen = self.heads.get(head) if head is not None else None
        if self.pooler is not None and (chosen is None or chosen.pooler):
            names |= self.pooler.names
        if chosen is not None:
            names |= chosen.names_of(config)
        return names


def stored(own: str, names: Names) -> tuple[Piece, str]:
    """Return how and under which name a file holds a parameter of the model."""
    number = re.search(r"\.(\d+)\.", own)
    pattern = own if number is None else own.replace(f".{number[1]}.", ".{}.", 1)
    module, _, last = pattern.rpartition(".")
    found, end = names.get(pattern), ""
    if found is None:
        found, end = names[module], f".{last}"
    piece = Piece(found) if isinstance(found, str) else found
    return piece, piece.name.replace("{}", number[1] if number else "") + end


@cache
def architecture_of(model_type: str) -> Architecture:
    """Return the table of a model type."""
    module = importlib.import_module(f".{model_type.replace('-', '_')}", __package__)
    table: Architecture = module.ARCHITECTURE
    return table
