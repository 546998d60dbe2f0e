"""Constructors whose arguments are one table of names and defaults, as PyTorch's signature has them."""

from __future__ import annotations

from inspect import Parameter, Signature
from typing import Any

REQUIRED: Any = Parameter.empty


def constructor(_by_keyword: dict[str, Any] | None = None, /, **settings: Any) -> Any:
    """Make an ``__init__`` with these arguments and defaults, which hands their values to ``self._configure``.

    Examples
    --------
    >>> from qkv.torch._settings import REQUIRED, constructor
    >>> class Steps:
    ...     __init__ = constructor(size=REQUIRED, gamma=0.1)
    ...
    ...     def _configure(self, **settings):
    ...         print(settings)
    >>> _ = Steps(3)
    {'size': 3, 'gamma': 0.1}
    """
    known = [Parameter("self", Parameter.POSITIONAL_ONLY)]
    for kind, table in ((Parameter.POSITIONAL_OR_KEYWORD, settings), (Parameter.KEYWORD_ONLY, _by_keyword)):
        known += [Parameter(name, kind, default=default) for name, default in (table or {}).items()]
    signature = Signature(known)

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
