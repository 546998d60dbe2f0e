"""What a model is called with, and what its rows are called."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .... import _core, models
from ...._words.errors import counted, shown
from ....models.generation.steps import first_id
from ....nn import Attention
from ...figures.drawing import numbers
from ...figures.labels import readable

_NAME = "explain"
_KINDS = "a row of ids, rows of numbers (L, M), words beside inputs=, or a text beside tokenizer="


class Call(NamedTuple):
    """A model's inputs, and of each that has rows the names of these and their ids."""

    inputs: tuple[Any, ...]
    names: list[list[str]]
    ids: list[list[int] | None]


def refuse_images(operation: str, model: Any) -> None:
    """Refuse a model of images."""
    if isinstance(model, models.ImageModel):
        raise ValueError(
            f"{operation}: model must read text because the page shows tokens; got a model of images "
            f"({model.config.model_type}), whose weights plot.image_view draws"
        )


def call_of(model: Any, given: Any, inputs: Any, tokenizer: Any) -> Call:
    """Return the call that tokens, ids or rows ask for."""
    refuse_images(_NAME, model)
    is_pair = isinstance(given, tuple) and len(given) == 2 and all(np.iterable(part) for part in given)
    is_pair = is_pair and not all(isinstance(part, str) for part in given)
    parts = [_part(part, inputs is not None, tokenizer) for part in (given if is_pair else (given,))]
    names, ids, arrays = map(list, zip(*parts, strict=True))
    if inputs is not None:
        arrays = list(inputs) if isinstance(inputs, tuple) else [inputs]
    elif isinstance(model, models.PretrainedEncoderDecoder) and hasattr(model, "decoder") and not is_pair:
        start = first_id(model)
        arrays.append(np.array([[start]]))
        ids.append([start])
        names.append(_named([start], tokenizer))
    elif isinstance(model, Attention):  # queries, keys and values
        arrays = [arrays[0], arrays[-1], arrays[-1]]
    return Call(tuple(arrays), names, ids)


def _part(given: Any, has_inputs: bool, tokenizer: Any) -> tuple[list[str], list[int] | None, Any]:
    """Return names, ids and the array of one input."""
    if isinstance(given, str):
        if tokenizer is None:
            raise ValueError(
                f"{_NAME}: tokens_or_ids must be {_KINDS}; got {shown(given)} without a tokenizer"
            )
        given = tokenizer.encode(given)
    if isinstance(given, (list, tuple)) and given and all(isinstance(word, str) for word in given):
        words = [readable(word) for word in given]
        if has_inputs:
            return words, None, None
        found = [None if tokenizer is None else tokenizer.tokenizer.token_to_id(word) for word in given]
        if None in found:
            reason = f"{shown(given[found.index(None)])}, which the tokenizer does not have"
            raise ValueError(
                f"{_NAME}: tokens_or_ids must be {_KINDS}, because the model reads numbers; got "
                + (f"{counted(len(words), 'word')} alone" if tokenizer is None else reason)
            )
        return words, [int(number or 0) for number in found], np.array([found])
    kept = (
        np.asarray(given)
        if isinstance(given, (list, tuple))
        else _core.as_numpy(given, _NAME, "tokens_or_ids")
    )
    array = numbers(kept) if kept.dtype.kind == "V" else kept
    if kept.dtype.kind in "iu" and kept.ndim in (1, 2) and kept.size:
        row = np.atleast_2d(kept)
        if len(row) == 1:
            ids = [int(number) for number in row[0]]
            return _named(ids, tokenizer), ids, row
    elif array.dtype.kind == "f" and array.ndim in (2, 3) and array.size:
        rows = array if array.ndim == 3 else array[None]
        if len(rows) == 1:
            return [str(place) for place in range(rows.shape[1])], None, rows
    shape = f"{array.dtype} {array.shape}" if array.dtype.kind in "biuf" else shown(given)
    raise ValueError(f"{_NAME}: tokens_or_ids must be one text: {_KINDS}; got {shape}")


def _named(ids: list[int], tokenizer: Any) -> list[str]:
    names = [str(number) for number in ids] if tokenizer is None else tokenizer.tokens(ids)
    return [readable(name) for name in names]
