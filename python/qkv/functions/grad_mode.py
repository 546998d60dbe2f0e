"""Whether operations are recorded for gradients, within a block or a decorated function."""

from __future__ import annotations

import functools
from _thread import _local  # threading.local, which is not imported with qkv
from collections.abc import Callable
from typing import Any, TypeVar

from .. import _core

F = TypeVar("F", bound=Callable[..., Any])


def refuse_gradients(operation: str, advice: str = "detach() it", /, **values: Any) -> None:
    """Refuse Tensors that record in place of numbers through which no gradient flows."""
    for name, value in values.items():
        if isinstance(value, _core.Tensor) and value.requires_grad and _core.grad_enabled():
            what = "a number" if value.ndim == 0 else "numbers"
            raise TypeError(
                f"{operation}: {name} must be {what} because it takes no gradient; "
                f"got a Tensor that requires one, {advice}"
            )


class _Found(_local):
    def __init__(self) -> None:
        self.positions: list[bool] = []  # of each block that is entered, before it


class Switch:
    """Within this block a switch of the core has another position. It may be entered again, in any thread."""

    def __init__(self, get: Callable[[], bool], put: Callable[[bool], None], position: bool) -> None:
        self._get, self._put, self._position = get, put, position
        self._found = _Found()

    def __enter__(self) -> None:
        self._found.positions.append(self._get())
        self._put(self._position)

    def __exit__(self, *error: object) -> None:
        self._put(self._found.positions.pop())


class GradMode(Switch):
    """Within this block, or in a function that it decorates, operations are recorded or not."""

    def __init__(self, enabled: bool) -> None:
        super().__init__(_core.grad_enabled, _core.set_grad_enabled, enabled)

    def __call__(self, f: F) -> F:
        import inspect  # takes milliseconds where NumPy has not imported it

        enabled = self._position
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
