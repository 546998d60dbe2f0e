"""Switching the recording of gradients: ``no_grad``, ``enable_grad``, ``set_grad_enabled``, ``inference_mode``."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from .. import _core
from ._tensor import FUNCTIONS, function


class _Mode:
    """Within this block, or in a function that it decorates, gradients are recorded or not."""

    def __init__(self, enabled: bool) -> None:
        self._enabled = enabled

    def __enter__(self) -> None:
        self._before = _core.grad_enabled()
        _core.set_grad_enabled(self._enabled)

    def __exit__(self, *error: Any) -> None:
        _core.set_grad_enabled(self._before)

    def __call__(self, f: Callable[..., Any]) -> Callable[..., Any]:
        enabled = self._enabled
        if inspect.isgeneratorfunction(f):
            return _stepwise(f, enabled)

        @functools.wraps(f)
        def within(*args: Any, **kwargs: Any) -> Any:
            with _Mode(enabled):
                return f(*args, **kwargs)

        return within


def _stepwise(f: Callable[..., Any], enabled: bool) -> Callable[..., Any]:
    """Run a generator in that mode from each `yield` to the next, and its caller between them in the caller's."""

    @functools.wraps(f)
    def steps(*args: Any, **kwargs: Any) -> Any:
        generator = f(*args, **kwargs)
        resume, given = generator.send, None
        while True:
            try:
                with _Mode(enabled):
                    result = resume(given)
            except StopIteration as stop:
                return stop.value
            try:
                resume, given = generator.send, (yield result)
            except GeneratorExit:
                with _Mode(enabled):
                    generator.close()
                raise
            except BaseException as error:
                resume, given = generator.throw, error

    return steps


class _Fixed(_Mode):
    _on = False

    def __new__(cls, f: Any = None) -> Any:
        made = object.__new__(cls)
        _Mode.__init__(made, cls._on)
        return made(f) if callable(f) else made

    def __init__(self, f: Any = None) -> None:
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


class inference_mode(_Mode):  # noqa: N801
    """As `no_grad`."""

    def __init__(self, mode: bool = True) -> None:
        super().__init__(not mode and _core.grad_enabled())


class set_grad_enabled(_Mode):  # noqa: N801
    """Switch the recording on or off, until the end of the block if it begins one."""

    def __init__(self, mode: bool) -> None:
        super().__init__(bool(mode))
        self._outside = _core.grad_enabled()
        _core.set_grad_enabled(bool(mode))

    def __enter__(self) -> None:
        self._before = self._outside
        _core.set_grad_enabled(self._enabled)


FUNCTIONS.update({kind.__name__: kind for kind in (no_grad, enable_grad, inference_mode, set_grad_enabled)})
function("is_grad_enabled")(lambda: _core.grad_enabled())
