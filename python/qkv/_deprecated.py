"""How a public name goes: it works and warns for two minor versions."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])


def deprecated(instead: str, removed_in: str) -> Callable[[Function], Function]:
    """Let a function warn at its caller's line whenever it is called.

    Parameters
    ----------
    instead : str
        What to write, as in ``"qkv.softmax(x, axis=...)"``.
    removed_in : str
        The version that no longer has it, two minor versions from now.
    """

    def decorate(function: Function) -> Function:
        @functools.wraps(function)
        def call(*args: Any, **options: Any) -> Any:
            text = f"{function.__qualname__}: write {instead}; this name ends with qkv {removed_in}"
            warnings.warn(text, DeprecationWarning, stacklevel=2)
            return function(*args, **options)

        return call  # type: ignore[return-value]

    return decorate
