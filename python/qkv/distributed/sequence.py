"""Attention to a sequence of which each rank holds a part."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .. import _core
from .._public import explained
from .._types import Numbers, Result
from .._words.errors import shown
from ..functions.attention import SplitOptions, scaled_dot_product_attention, with_options
from ..scores import alibi
from .arguments import Arguments
from .communicator import check, own
from .partial import backward, forward
from .recorded import recorded

if TYPE_CHECKING:
    from typing_extensions import Unpack


@explained
@with_options(SplitOptions)
def attention(
    query: Numbers, key: Numbers, value: Numbers, comm: Any, **options: Unpack[SplitOptions]
) -> Result:
    r"""``softmax(scale * query key^T + mask) @ value``, where each rank holds a part of queries, keys and values.

    The blocks of keys and values travel from rank to rank; each rank attends to the block that it has while the next
    one arrives, and merges the results by their sums of exponentials. No rank ever holds more than its own part and
    two blocks: ``O(L / N)`` memory for N ranks. The result and all gradients are those of
    :func:`qkv.scaled_dot_product_attention` on the whole sequence, to rounding.

    Parameters
    ----------
    query : array_like or Tensor
        ``(B, H, Lq, D)``, ``(B, Lq, D)`` or ``(Lq, D)``: this rank's queries, at the positions
        :func:`positions(Lq_whole, comm, is_causal) <positions>`, in that order.
    key, value : array_like or Tensor
        ``(B, H, Lk, D)`` and ``(B, H, Lk, Dv)``: this rank's keys and values, likewise.
    comm : MPI communicator or None
        Of the ranks that share the sequence; all of them call together. None is one rank.
    attn_mask : array_like or Tensor, optional
        Of this rank's queries and all keys of the whole sequence, in their order: broadcasts to
        ``(B, H, Lq, Lk_whole)``. The gradient of a floating one is what this rank's queries contribute.
    is_causal : bool or {"upper_left", "lower_right"}
        Also says how the sequence is laid out: see :func:`positions`.
    valid_lens : array_like of int, optional
        Numbers of keys of the whole sequence that count: ``(B,)``, or ``(B, Lq)`` for this rank's queries.
    window, q_offset
        In positions of the whole sequence. Blocks that no window reaches are not sent.
    dropout_keep : array_like of bool, optional
        Broadcasts to ``(B, H, Lq, Lk_whole)``.
    alibi_slopes, sinks : array_like or Tensor, optional
        ``(H,)``, equal on all ranks; the gradient is what this rank's queries contribute.
    **options
        As in :func:`qkv.scaled_dot_product_attention`; equal on all ranks. Dropout draws the mask that one process
        draws.
    score_mod, mask_mod : callable, optional
        As in :func:`qkv.scaled_dot_product_attention`, of positions of the whole sequence; equal on all ranks.
        Arrays that they capture are whole; the gradient of a captured Tensor is what this rank's queries contribute.
    normalizer : {"softmax", "sigmoid", "relu"}
        As in :func:`qkv.scaled_dot_product_attention`. "sparsemax" and "entmax15" need whole rows: with one rank alone.
    return_weights : bool
        Not with several ranks: no rank has whole rows.
    return_lse : bool
        Also return the logarithm of the sum of ``exp(s)`` of this rank's queries.

    Returns
    -------
    output : ndarray or Tensor
        ``(B, H, Lq, Dv)`` of this rank's queries.
    lse : ndarray or Tensor
        ``(B, H, Lq)``, if asked for.

    Raises
    ------
    ValueError
        On all ranks: if shapes do not fit on one of them, a part is not that of :func:`positions`, options differ
        between ranks, the sequence is shorter than the number of ranks, or weights are asked for.
    TypeError
        If ``comm`` is no communicator, or a mask or lengths have the wrong dtype.

    References
    ----------
    Liu, Zaharia, Abbeel, Ring Attention with Blockwise Transformers for Near-Infinite Context, 2023. Brandon et al.,
    Striped Attention, 2023, on the balance of causal work.

    Examples
    --------
    >>> q = k = v = qkv.randn(2, 5, 4)
    >>> qkv.distributed.attention(q, k, v, comm=None, is_causal=True).shape
    (2, 5, 4)
    """
    if comm is not None:
        check(comm, "attention")
    if comm is None or comm.Get_size() == 1:
        return scaled_dot_product_attention(query, key, value, **options)
    if return_weights := options.pop("return_weights"):
        raise ValueError(
            "attention: return_weights must be False because no rank has whole rows of weights; got "
            f"{shown(return_weights)}"
        )
    slopes, return_lse = options["alibi_slopes"], options["return_lse"]
    # Slopes with a gradient are captured numbers of a formula.
    if isinstance(slopes, _core.Tensor) and _core.is_differentiable(slopes):
        options |= {"alibi_slopes": None, "score_mod": _behind(alibi(slopes), options["score_mod"])}
    call = Arguments(query, key, value, own(comm, "attention"), options)
    saved = forward(call)
    results: list[Any] = [call.shaped(saved.out), *([call.shaped(saved.lse)] if return_lse else [])]
    if call.records:
        results = recorded(
            "attention",
            results,
            call.inputs,
            lambda dys: call.gradients(*backward(call, saved, *call.lifted_slopes(dys))),
        )
    elif call.any_tensor:
        results = [_core.tensor(x) for x in results]
    else:
        results[0] = call.result(results[0])
    return tuple(results) if return_lse else results[0]


def _behind(first: Callable[..., Any], second: Callable[..., Any] | None) -> Callable[..., Any]:
    if second is None:
        return first
    return lambda score, b, h, q_idx, kv_idx: second(first(score, b, h, q_idx, kv_idx), b, h, q_idx, kv_idx)
