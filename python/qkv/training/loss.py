"""Losses as a sum and the number of things that it is over, which is what batches of unequal size need."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .. import _core, losses, masks
from .._public import explained
from .._types import Numbers


@explained
def token_loss(
    logits: Numbers,
    targets: ArrayLike,
    *,
    valid_lens: ArrayLike | None = None,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> tuple[Any, int]:
    """Cross-entropy summed over the real tokens, and their number.

    The mean of a padded batch is the first divided by the second. :class:`Trainer` divides once per update, also
    over several accumulated batches, so that every real token weighs the same and padding weighs nothing.

    Parameters
    ----------
    logits : array_like or Tensor, (B, T, V)
    targets : array_like of int, (B, T)
    valid_lens : array_like of int, (B,), optional
        Number of real tokens per sentence; the targets after them do not count.
    ignore_index : int
        Targets of this number do not count either; give the number of the padding token here.
    label_smoothing : float
        Share of each target that is spread over all classes, ``0..1``.

    Returns
    -------
    total : ndarray or Tensor, ()
    count : int

    Raises
    ------
    ValueError
        If the shapes do not fit, or a target is no class.
    TypeError
        If ``targets`` are not integers.

    Examples
    --------
    >>> total, count = qkv.training.token_loss(np.zeros((1, 3, 2)), [[1, 0, 0]], valid_lens=[2])
    >>> round(float(total), 4), count
    (1.3863, 2)
    """
    wanted = _core.as_numpy(targets, "token_loss", "targets")
    if valid_lens is not None:
        if wanted.ndim != 2:
            raise ValueError(
                f"token_loss: targets must be (B, T) because valid_lens counts tokens; got {wanted.shape}"
            )
        wanted = np.where(masks.lengths(valid_lens, wanted.shape[1]), wanted, ignore_index)
    total = losses.cross_entropy(
        logits, wanted, ignore_index=ignore_index, label_smoothing=label_smoothing, reduction="sum"
    )
    return total, int(np.count_nonzero(wanted != ignore_index))
