"""Measures of the weights of each head, without storing them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import _core
from .._core import Module
from .._public import explained
from .._words.errors import shown
from .recording import Recording, record

_SEPARATORS = frozenset(["[SEP]", "</s>", "<|endoftext|>", ".", ",", ";", ":", "!", "?"])


class Measures(NamedTuple):
    """Arrays ``(layers, H)``; see :func:`measures`."""

    entropy: NDArray[np.float64]
    distance: NDArray[np.float64]
    previous: NDArray[np.float64]
    self_: NDArray[np.float64]
    first: NDArray[np.float64]
    duplicate: NDArray[np.float64]
    induction: NDArray[np.float64]
    separators: NDArray[np.float64]


@explained
def measures(
    model_or_recording: Module | Recording, *inputs: Any, tokens: ArrayLike | None = None, **keywords: Any
) -> Measures:
    """Where each head attends, as means over all real queries: memory grows with the length alone.

    ==============  =========================================================================================
    ``entropy``     ``-sum_j w_j log w_j``, in nats
    ``distance``    ``sum_j w_j |i - j|``
    ``previous``    weight on the token before, without query 0
    ``self_``       weight on the query's own place
    ``first``       weight on key 0
    ``duplicate``   weight on the same token earlier, where there is one
    ``induction``   weight on the token after the last earlier same token, where there is one
    ``separators``  weight on ``[SEP] </s> <|endoftext|> . , ; : ! ?``, where there are any
    ==============  =========================================================================================

    Parameters
    ----------
    model_or_recording : Module or Recording
        A recording has to hold ``weights``.
    *inputs, **keywords
        Those of the model's call.
    tokens : array_like of str or int, optional
        ``(L,)`` or ``(B, L)``. Without them the ids that the model gets are compared; numbers say nothing of
        separators.

    Returns
    -------
    Measures
        Named arrays ``(layers, H)``. A layer is an attention module, in the order of names; NaN where no query has
        such a key, where there are no tokens, and for cross-attention all that compares places or tokens of both
        sides.

    Raises
    ------
    ValueError
        If there are no weights, or `tokens` do not fit them.

    Examples
    --------
    >>> model = qkv.models.CausalLM(vocab_size=11, d_model=8, nhead=2, num_layers=3)
    >>> found = qkv.look.measures(model, np.array([[1, 2, 3, 1, 2, 3]]))
    >>> found.induction.shape
    (3, 2)

    References
    ----------
    Clark et al., What Does BERT Look At?, 2019; Olsson et al., In-context Learning and Induction Heads, 2022.
    """
    recording = recorded("measures", model_or_recording, inputs, keywords)
    given = None if tokens is None else _checked(tokens)
    used = False
    sums = []
    real: dict[int, Any] = {}  # of queries, as the last self-attention of so many said
    for path, _, calls in recording._attentions():
        total = np.zeros((2, len(Measures._fields), calls[0].shape[1]))
        for call in calls:
            batch, _, queries, keys = call.shape
            ids, words = _tokens_of(recording, path, keys) if given is None else given
            fits = ids is not None and ids.shape[1] == keys and ids.shape[0] in (1, batch)
            if not fits:
                ids = words = None
            used |= fits
            earlier = None if ids is None else np.broadcast_to(_earlier(ids), (batch, keys))
            marks = None if words is None else np.broadcast_to(words, (batch, keys))
            counted = real.get(queries) if call.cross else call.real
            if not call.cross:
                real[queries] = counted
            total += call.measured(earlier, marks, counted)
        sums.append(total)
    if given is not None and not used:
        raise ValueError(
            "measures: tokens must be (L,) or (B, L) with as many tokens as the weights have keys; got "
            f"{given[0].shape}"
        )
    return _means(sums)


def measures_of(weights: Any, tokens: Any) -> Measures:
    """The same of weights ``(layers, H, L, L)`` that are stored."""
    ids, separators = _checked(tokens)
    inputs = _earlier(ids), separators, None, 0, False
    return _means([_core.measures_of(layer[None], *inputs) for layer in weights])


def _means(sums: list[Any]) -> Measures:
    result = np.full((len(Measures._fields), len(sums), max(s.shape[2] for s in sums)), np.nan)
    for layer, (total, count) in enumerate(sums):
        with np.errstate(invalid="ignore"):
            result[:, layer, : total.shape[1]] = total / count  # 0 / 0 is NaN
    return Measures(*result)


def recorded(operation: str, model: Any, inputs: Any, keywords: Any, **options: Any) -> Recording:
    """A recording, given or made of a call."""
    if not isinstance(model, Recording):
        return record(model, *inputs, keep=("weights",), **options, **keywords)
    if inputs or keywords:
        raise TypeError(
            f"{operation}: inputs must not be given beside a recording; got {len(inputs) + len(keywords)}"
        )
    return model


def _checked(tokens: Any) -> tuple[Any, Any]:
    """Numbers ``(B, L)`` that are equal where tokens are, and which of them are separators."""
    try:
        array = np.asarray(tokens)
    except ValueError as error:
        raise ValueError(
            "measures: tokens must be (L,) or (B, L) of one length each; got rows that differ"
        ) from error
    if array.ndim not in (1, 2) or array.dtype.kind not in "iuUOT":
        raise ValueError(
            f"measures: tokens must be (L,) or (B, L), strings or ids; got {array.dtype} {array.shape}"
            if array.ndim
            else f"measures: tokens must be (L,) or (B, L), strings or ids; got {shown(tokens)}"
        )
    array = np.atleast_2d(array)
    if array.dtype.kind in "iu":
        return array, None
    words = [[str(word) for word in row] for row in array]
    separators = np.array([[word.strip(" Ġ▁") in _SEPARATORS for word in row] for row in words], bool)
    return np.unique(np.array(words), return_inverse=True)[1].reshape(array.shape), separators.reshape(
        array.shape
    )


def _tokens_of(recording: Recording, path: str, keys: int) -> tuple[Any, Any]:
    ids = []
    for value in recording._inputs:
        try:
            array = np.asarray(value)
        except ValueError:
            continue
        if array.ndim in (1, 2) and array.dtype.kind in "iu":
            ids.append(np.atleast_2d(array))
    own = ids[1:] if "decoder" in path.split(".")[0] and len(ids) > 1 else ids
    return next((i for i in [*own[:1], *ids] if i.shape[1] == keys), None), None


def _earlier(ids: Any) -> Any:
    """The last earlier place of each token in its row, or -1."""
    order = np.argsort(ids, axis=1, kind="stable")
    ordered = np.take_along_axis(ids, order, 1)
    before = np.where(ordered[:, 1:] == ordered[:, :-1], order[:, :-1], -1)
    earlier = np.full(ids.shape, -1, np.int64)
    np.put_along_axis(earlier, order[:, 1:], before, 1)
    return earlier
