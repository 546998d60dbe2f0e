"""PyTorch's threads, which do qkv's work inside its calls: two pools awake at once would share the CPUs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from .. import _core


def borrow() -> bool:
    """Have PyTorch's threads do the work of calls that come from it; whether its OpenMP library can."""
    folder = Path(torch.__file__).parent
    found = [*folder.glob("lib/libgomp*"), *folder.parent.glob("torch.libs/libgomp*")]
    return any(_core.borrow_threads(str(library)) for library in found)


def limited(f: Callable[..., Any], *args: Any) -> Any:
    """Return f(*args), whose work takes no more threads than PyTorch's."""
    before = _core.limit_threads(torch.get_num_threads())
    try:
        return f(*args)
    finally:
        _core.limit_threads(before)
