"""Whether operations are recorded for gradients, within a block or a decorated function."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from . import _core

F = TypeVar("F", bound=Callable[..., Any])


class GradMode:
    """Within this block, or in a function that it decorates, operations are recorded or not."""

    def __init__(self, enabled: bool) -> None:
        self._enabled = enabled

    def __enter__(self) -> None:
        self._before = _core.grad_enabled()
        _core.set_grad_enabled(self._enabled)

    def __exit__(self, *error: object) -> None:
        _core.set_grad_enabled(self._before)

    def __call__(self, f: F) -> F:
        import inspect  # takes milliseconds where NumPy has not imported it

        enabled = self._enabled
        if inspect.isgeneratorfunction(f):
            return _stepwise(f, enabled)  # type: ignore[return-value]

        @functools.wraps(f)
        def within(*args: Any, **kwargs: Any) -> Any:
            with GradMode(enabled):
                return f(*args, **kwargs)

        return within  # type: ignore[return-value]


def _stepwise(f: Callable[..., Any], enabled: bool) -> Callable[..., Any]:
    """Run a generator in that mode from each `yield` to the next, and its caller between them in the caller's."""

    @functools.wraps(f)
    def steps(*args: Any, **kwargs: Any) -> Any:
        generator = f(*args, **kwargs)
        resume, given = generator.send, None
        while True:
            try:
                with GradMode(enabled):
                    result = resume(given)
            except StopIteration as stop:
                return stop.value
            try:
                resume, given = generator.send, (yield result)
            except GeneratorExit:
                with GradMode(enabled):
                    generator.close()
                raise
            except BaseException as error:
                resume, given = generator.throw, error

    return steps
