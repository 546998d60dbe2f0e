"""Masks of groups of positions: prefixes, documents, blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._formulas import Formula, array_of
from .._public import explained
from ._checks import check, id_at, ids_of

MaskMod = Callable[..., Any]


@explained
def prefix(length: Any) -> MaskMod:
    """``kv_idx < length or kv_idx <= q_idx``: all see the prefix, what follows is causal.

    Parameters
    ----------
    length : int or array_like of int, (B,)
        Of the prefix, for all or for each batch entry.

    Returns
    -------
    callable
        A formula for ``mask_mod=``.

    Raises
    ------
    ValueError
        If `length` is neither a number from 0 nor (B,).

    References
    ----------
    Raffel et al., Exploring the Limits of Transfer Learning with a Unified Text-to-Text Transformer, 2020.

    Examples
    --------
    >>> mask = qkv.masks.formulas.prefix(2)
    >>> [k for k in range(6) if mask(0, 0, 3, k)], [k for k in range(6) if mask(0, 0, 0, k)]
    ([0, 1, 2, 3], [0, 1])
    """
    lengths = array_of("prefix", "length", length)
    if len(lengths.shape) > 1:
        raise ValueError(f"prefix: length must be a number or (B,); got length {tuple(lengths.shape)}")
    if not lengths.shape:
        check("prefix", 0, length=length)
    return Formula(_prefix, lengths if lengths.shape else length)


def _prefix(length: Any, b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
    return (kv_idx < (length[b] if getattr(length, "shape", ()) else length)) | (q_idx >= kv_idx)


@explained
def documents(ids: Any) -> MaskMod:
    """``ids[q_idx] == ids[kv_idx]``: several documents in one sequence do not see each other.

    Parameters
    ----------
    ids : array_like of int, (L,) or (B, L)
        The document of each position.

    Returns
    -------
    callable
        A formula for ``mask_mod=``.

    Raises
    ------
    ValueError
        If `ids` has another rank.

    References
    ----------
    Krell et al., Efficient Sequence Packing without Cross-contamination, 2021.

    Examples
    --------
    >>> mask = qkv.masks.formulas.documents([0, 0, 1, 1, 1])
    >>> [k for k in range(5) if mask(0, 0, 3, k)]
    [2, 3, 4]
    """
    return Formula(_documents, ids_of("documents", ids))


def _documents(ids: Any, b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
    return id_at(ids, b, q_idx) == id_at(ids, b, kv_idx)


@explained
def shared_prefix(prefix: int, ids: Any) -> MaskMod:
    """``kv_idx < prefix``, or the same branch and ``kv_idx <= q_idx``: answers to one prompt, side by side.

    Parameters
    ----------
    prefix : int
        Length of what all branches share, at the beginning.
    ids : array_like of int, (L,) or (B, L)
        The branch of each position.

    Returns
    -------
    callable
        A formula for ``mask_mod=``.

    Raises
    ------
    ValueError
        If `prefix` is below 0 or `ids` has another rank.

    References
    ----------
    Cai et al., Medusa: Simple LLM Inference Acceleration Framework with Multiple Decoding Heads, 2024.

    Examples
    --------
    >>> mask = qkv.masks.formulas.shared_prefix(2, [0, 0, 1, 1, 2, 2])
    >>> [k for k in range(6) if mask(0, 0, 5, k)]
    [0, 1, 4, 5]
    """
    check("shared_prefix", 0, prefix=prefix)
    return Formula(_shared_prefix, prefix, ids_of("shared_prefix", ids))


def _shared_prefix(prefix: int, ids: Any, b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
    return (kv_idx < prefix) | ((id_at(ids, b, q_idx) == id_at(ids, b, kv_idx)) & (q_idx >= kv_idx))


@explained
def block_diffusion(block: int, length: int | None = None) -> MaskMod:
    """``kv_idx // block <= q_idx // block``: blocks are denoised one after the other, each as a whole.

    Parameters
    ----------
    block : int
        Tokens of a block, which see each other in both directions.
    length : int, optional
        For training: the sequence is ``length`` noisy tokens and then the same tokens clean. A noisy block sees itself
        and the clean blocks before it; a clean block sees itself and those before it.

    Returns
    -------
    callable
        A formula for ``mask_mod=``.

    Raises
    ------
    ValueError
        If a number is below 1.

    References
    ----------
    Arriola et al., Block Diffusion: Interpolating between Autoregressive and Diffusion Language Models, 2025.

    Examples
    --------
    >>> mask = qkv.masks.formulas.block_diffusion(2)
    >>> [k for k in range(6) if mask(0, 0, 2, k)]
    [0, 1, 2, 3]
    """
    check("block_diffusion", 1, block=block)
    if length is not None:
        check("block_diffusion", 1, length=length)

    return Formula(_block_diffusion, block, length)


def _block_diffusion(block: int, length: int | None, b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
    if length is None:
        return kv_idx // block <= q_idx // block
    of_query, of_key = (q_idx % length) // block, (kv_idx % length) // block
    noisy_query, noisy_key = q_idx < length, kv_idx < length
    itself = noisy_query & noisy_key & (of_query == of_key)
    return (
        itself
        | (noisy_query & ~noisy_key & (of_key < of_query))
        | (~noisy_query & ~noisy_key & (of_key <= of_query))
    )
