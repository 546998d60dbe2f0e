"""PyTorch's threads, which do qkv's work inside its calls: two pools awake at once would share the CPUs."""

from __future__ import annotations

from pathlib import Path

import torch

from .. import _core


def borrow() -> bool:
    """Have PyTorch's threads do the work of calls that come from it; whether its OpenMP library can."""
    folder = Path(torch.__file__).parent
    found = [*folder.glob("lib/libgomp*"), *folder.parent.glob("torch.libs/libgomp*")]
    return any(_core.borrow_threads(str(library)) for library in found)
