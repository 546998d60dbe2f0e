"""Constructors whose arguments stand in one text, as PyTorch's documentation has them."""

from __future__ import annotations

import inspect
from typing import Any


def constructor(text: str) -> Any:
    """Make an ``__init__`` with the arguments of a text, which hands their values to ``self._configure`` by name.

    Examples
    --------
    >>> from qkv.torch._settings import constructor
    >>> class Steps:
    ...     __init__ = constructor("size, gamma=0.1, *, last=-1")
    ...
    ...     def _configure(self, **settings):
    ...         print(settings)
    >>> _ = Steps(3)
    {'size': 3, 'gamma': 0.1, 'last': -1}
    """
    signature = inspect.signature(
        eval(f"lambda self, /, {text}: None")
    )  # the texts are those of this package

    def initialize(self: Any, *args: Any, **kwargs: Any) -> None:
        try:
            given = signature.bind(self, *args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{type(self).__name__}: {error}") from None
        given.apply_defaults()
        values = dict(given.arguments)
        del values["self"]
        self._configure(**values)

    initialize.__signature__, initialize.__name__ = signature, "__init__"
    return initialize
