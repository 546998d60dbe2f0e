"""Points of the curves of time against a size."""

from __future__ import annotations

from functools import partial

from registry import row

from . import attention

for _length in (64, 128, 256, 512, 1024, 2048, 4096):
    row(
        f"scaling: attention (1, 8, {_length}, 64)",
        peers=["PyTorch"],
        subject="scaling",
        axis=("L of (1, 8, L, 64)", _length),
    )(partial(attention.forward, (1, 8, _length, 64), False))
for _batch in (1, 2, 4, 8, 16, 32):
    row(
        f"scaling: attention ({_batch}, 12, 128, 64)",
        peers=["PyTorch"],
        subject="scaling",
        axis=("B of (B, 12, 128, 64)", _batch),
    )(partial(attention.forward, (_batch, 12, 128, 64), False))
