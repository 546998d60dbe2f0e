"""``torch.nn.utils.rnn``: sequences of different lengths."""

from __future__ import annotations

from functools import partial

from ..._creation import full
from ..._shaping import cat, stack
from ..._tensor import Tensor, refuse_attribute


def pad_sequence(sequences, batch_first=False, padding_value=0.0, padding_side="right") -> Tensor:
    """Sequences ``(L_i, ...)`` as one Tensor ``(T, B, ...)``, or ``(B, T, ...)``, with padding after the ends.

    Examples
    --------
    >>> import qkv.torch as torch
    >>> torch.nn.utils.rnn.pad_sequence([torch.ones(2), torch.ones(1)], batch_first=True)
    tensor([[1., 1.],
            [1., 0.]])
    """
    parts = list(sequences)
    longest = max(len(part) for part in parts)
    rows = []
    for part in parts:
        filled = full((longest - len(part), *part.shape[1:]), padding_value, dtype=part.dtype)
        if longest == len(part):
            rows.append(part)
        else:
            rows.append(cat([part, filled] if padding_side == "right" else [filled, part]))
    return stack(rows, 0 if batch_first else 1)


__getattr__ = partial(refuse_attribute, "torch.nn.utils.rnn")
