"""Switching the recording of gradients: ``no_grad``, ``enable_grad``, ``set_grad_enabled``, ``inference_mode``."""

from __future__ import annotations

from .. import _core
from ..functions.grad_mode import GradMode
from ._tensor import FUNCTIONS, named


class _Fixed(GradMode):
    _on = False

    def __new__(cls, f=None):
        made = object.__new__(cls)
        GradMode.__init__(made, cls._on)
        return made(f) if callable(f) else made

    def __init__(self, f=None) -> None:
        pass


class no_grad(_Fixed):
    """Within this block, or in a function that it decorates, nothing is recorded for gradients.

    Examples
    --------
    >>> import qkv.torch as torch
    >>> x = torch.ones(2, requires_grad=True)
    >>> with torch.no_grad():
    ...     x -= 0.5
    >>> x
    tensor([0.5000, 0.5000], requires_grad=True)
    """


class enable_grad(_Fixed):  # noqa: N801
    """Within this block, or in a function that it decorates, gradients are recorded."""

    _on = True


class inference_mode(GradMode):  # noqa: N801
    """As `no_grad`."""

    def __init__(self, mode: bool = True) -> None:
        super().__init__(not mode and _core.grad_enabled())


class set_grad_enabled(GradMode):  # noqa: N801
    """Switch the recording on or off, until the end of the block if it begins one."""

    def __init__(self, mode: bool) -> None:
        super().__init__(bool(mode))
        self._outside = _core.grad_enabled()
        _core.set_grad_enabled(bool(mode))

    def __enter__(self) -> None:
        self._found.positions.append(self._outside)
        _core.set_grad_enabled(self._position)


FUNCTIONS.update({kind.__name__: kind for kind in (no_grad, enable_grad, inference_mode, set_grad_enabled)})
named("torch.is_grad_enabled")(lambda: _core.grad_enabled())
