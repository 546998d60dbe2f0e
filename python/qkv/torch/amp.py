"""Mixed precision, which a CPU here does not need: everything is computed in the dtype that it has."""

from __future__ import annotations

import contextlib
from typing import Any

from .._words.errors import shown
from . import _dtypes
from ._settings import constructor

__all__ = ["GradScaler", "autocast"]


class autocast(contextlib.nullcontext[None], contextlib.ContextDecorator):  # noqa: N801  # its name in PyTorch
    """Computes in float32 what PyTorch would round to ``dtype``: no result is less exact, none is faster.

    Examples
    --------
    >>> import qkv.torch as torch
    >>> with torch.amp.autocast("cpu", dtype=torch.bfloat16):
    ...     (torch.ones(2) @ torch.ones(2)).dtype
    torch.float32
    """

    def __init__(self, device_type="cpu", dtype=None, enabled=True, cache_enabled=None) -> None:
        if device_type not in ("cpu", "cuda", "mps", "xpu"):
            raise RuntimeError(f"autocast: device_type must be 'cpu'; got {shown(device_type)}")
        if dtype is not None and not isinstance(dtype, _dtypes.dtype):
            raise TypeError(f"autocast: dtype must be a dtype such as torch.bfloat16; got {dtype!r}")
        super().__init__()


class GradScaler:
    """Leaves losses and gradients as they are: numbers of float32 need no scale, as with ``enabled=False``."""

    __init__ = constructor(
        "device='cpu', init_scale=65536.0, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000, enabled=True"
    )

    def _configure(self, **unused) -> None:
        pass

    def is_enabled(self) -> bool:
        """False."""
        return False

    def get_scale(self) -> float:
        """1."""
        return 1.0

    def scale(self, outputs):
        """The losses themselves."""
        return outputs

    def unscale_(self, optimizer) -> None:
        """Nothing."""

    def step(self, optimizer, *args, **kwargs):
        """The optimizer's step."""
        return optimizer.step(*args, **kwargs)

    def update(self, new_scale=None) -> None:
        """Nothing."""

    def state_dict(self) -> dict[str, Any]:
        """Nothing to store."""
        return {}

    def load_state_dict(self, state_dict) -> None:
        """Nothing to load."""
