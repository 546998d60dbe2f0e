"""Masks made of others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._formulas import Formula
from .._public import explained
from ._checks import check_functions

MaskMod = Callable[..., Any]


@explained
def and_masks(*masks: MaskMod) -> MaskMod:
    """Allow what all masks allow.

    Parameters
    ----------
    *masks : callable
        Formulas for ``mask_mod=``; of none at all everything is allowed.

    Returns
    -------
    callable
        A formula for ``mask_mod=``.

    Raises
    ------
    TypeError
        If one is no function.

    Examples
    --------
    >>> formulas = qkv.masks.formulas
    >>> mask = formulas.and_masks(formulas.causal, formulas.documents([0, 0, 1, 1]))
    >>> [k for k in range(4) if mask(0, 0, 2, k)]
    [2]
    """
    check_functions("and_masks", masks)

    return Formula(_and_masks, masks)


def _and_masks(masks: tuple[MaskMod, ...], b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
    allowed: Any = True
    for mask in masks:
        allowed = mask(b, h, q_idx, kv_idx) & allowed
    return allowed


@explained
def or_masks(*masks: MaskMod) -> MaskMod:
    """Allow what one of the masks allows.

    Parameters
    ----------
    *masks : callable
        Formulas for ``mask_mod=``; of none at all nothing is allowed.

    Returns
    -------
    callable
        A formula for ``mask_mod=``.

    Raises
    ------
    TypeError
        If one is no function.

    Examples
    --------
    >>> formulas = qkv.masks.formulas
    >>> mask = formulas.or_masks(formulas.causal, formulas.prefix(3))
    >>> [k for k in range(6) if mask(0, 0, 1, k)]
    [0, 1, 2]
    """
    check_functions("or_masks", masks)

    return Formula(_or_masks, masks)


def _or_masks(masks: tuple[MaskMod, ...], b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
    allowed: Any = False
    for mask in masks:
        allowed = mask(b, h, q_idx, kv_idx) | allowed
    return allowed


@explained
def not_mask(mask: MaskMod) -> MaskMod:
    """Allow what a mask does not.

    Parameters
    ----------
    mask : callable
        A formula for ``mask_mod=``.

    Returns
    -------
    callable
        A formula for ``mask_mod=``.

    Raises
    ------
    TypeError
        If it is no function.

    Examples
    --------
    >>> mask = qkv.masks.formulas.not_mask(qkv.masks.formulas.causal)
    >>> [k for k in range(5) if mask(0, 0, 2, k)]
    [3, 4]
    """
    check_functions("not_mask", (mask,))

    return Formula(_not_mask, mask)


def _not_mask(mask: MaskMod, b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
    return mask(b, h, q_idx, kv_idx) ^ True
