"""Masks that are functions of positions, for ``mask_mod=``: no array of all pairs is made.

A mask takes ``(b, h, q_idx, kv_idx)``, the batch entry, query head, position of the query and key, and gives True where
the query may attend to the key. :func:`causal` is such a function itself, the others return one. They combine by
:func:`and_masks`, :func:`or_masks` and :func:`not_mask`.
"""

from .._public import publish
from ._combined import and_masks, not_mask, or_masks
from ._groups import block_diffusion, documents, prefix, shared_prefix
from ._windows import causal, dilated, global_window, neighbours, sliding_window, strided

__all__ = [
    "and_masks",
    "block_diffusion",
    "causal",
    "dilated",
    "documents",
    "global_window",
    "neighbours",
    "not_mask",
    "or_masks",
    "prefix",
    "shared_prefix",
    "sliding_window",
    "strided",
]

publish(__name__)
