"""Mixed precision, which a CPU here does not need: everything is computed in the dtype that it has."""

from __future__ import annotations

import contextlib
from typing import Any

from .._errors import shown
from . import _dtypes

__all__ = ["GradScaler", "autocast"]


class autocast(contextlib.ContextDecorator):  # noqa: N801  # its name in PyTorch
    """Computes in float32 what PyTorch would round to ``dtype``: no result is less exact, none is faster.

    Examples
    --------
    >>> import qkv.torch as torch
    >>> with torch.amp.autocast("cpu", dtype=torch.bfloat16):
    ...     (torch.ones(2) @ torch.ones(2)).dtype
    torch.float32
    """

    def __init__(
        self, device_type: str = "cpu", dtype: Any = None, enabled: bool = True, cache_enabled: Any = None
    ) -> None:
        if device_type not in ("cpu", "cuda", "mps", "xpu"):
            raise RuntimeError(f"autocast: device_type must be 'cpu'; got {shown(device_type)}")
        if dtype is not None and not isinstance(dtype, _dtypes.dtype):
            raise TypeError(f"autocast: dtype must be a dtype such as torch.bfloat16; got {dtype!r}")

    def __enter__(self) -> autocast:
        return self

    def __exit__(self, *error: Any) -> None:
        pass


class GradScaler:
    """Leaves losses and gradients as they are: numbers of float32 need no scale, as with ``enabled=False``."""

    def __init__(self, device: str = "cpu", **options: Any) -> None:
        known = {"init_scale", "growth_factor", "backoff_factor", "growth_interval", "enabled"}
        if wrong := sorted(options.keys() - known):
            raise TypeError(f"GradScaler: got an unexpected keyword argument {wrong[0]!r}")

    def is_enabled(self) -> bool:
        """False."""
        return False

    def get_scale(self) -> float:
        """1."""
        return 1.0

    def scale(self, outputs: Any) -> Any:
        """The losses themselves."""
        return outputs

    def unscale_(self, optimizer: Any) -> None:
        """Nothing."""

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """The optimizer's step."""
        return optimizer.step(*args, **kwargs)

    def update(self, new_scale: Any = None) -> None:
        """Nothing."""

    def state_dict(self) -> dict[str, Any]:
        """Nothing to store."""
        return {}

    def load_state_dict(self, state_dict: Any) -> None:
        """Nothing to load."""
