"""``torch.save`` and ``torch.load``: Tensors and what holds them, in a file that is written whole or not at all."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

from .. import _atomic
from ._pickler import write
from ._tensor import FUNCTIONS
from ._unpickler import read


def save(obj, f, pickle_protocol: int = 4, **options) -> None:
    """Store Tensors, state dicts or modules in a file.

    Tensors that overlap in memory do so after `load`, too: what they span together is stored once. A part of a Tensor
    that is stored alone takes no more than its own numbers.

    Examples
    --------
    >>> import io
    >>> import qkv.torch as torch
    >>> file = io.BytesIO()
    >>> torch.save({"w": torch.ones(2)}, file)
    >>> _ = file.seek(0)
    >>> torch.load(file)
    {'w': tensor([1., 1.])}
    """
    content = write(obj, pickle_protocol)
    if not isinstance(f, (str, os.PathLike)):
        f.write(content)
        return
    _atomic.write_file(f, lambda file: file.write(content))


def load(f, map_location=None, *, weights_only: bool = True, **options):
    """Read what `save` stored; files of PyTorch's own are not read: store their Tensors by safetensors or NumPy."""
    content = Path(f).read_bytes() if isinstance(f, (str, os.PathLike)) else f.read()
    if content[:2] == b"PK":
        raise ValueError(
            "load: f must be a file that qkv.torch.save wrote; got one of PyTorch's, which safetensors or "
            "numpy.savez can hand over"
        )
    return read(content) if weights_only else pickle.loads(content)


FUNCTIONS.update(save=save, load=load)
