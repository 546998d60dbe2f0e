"""The named tuples that models return."""

from __future__ import annotations

from collections import namedtuple
from functools import cache
from typing import Any

from ..._numpy import without_history


@cache
def _tuple_type(name: str, fields: tuple[str, ...]) -> Any:
    make: Any = namedtuple
    kind = make(name, fields)
    kind.__reduce__ = lambda self: (
        _made,
        (name, fields, *without_history([*self])),
    )  # the class is in no module
    kind.__copy__ = lambda self: self  # loses no gradient
    return kind


def _made(name: str, fields: tuple[str, ...], *values: Any) -> Any:
    return _tuple_type(name, fields)(*values)


def output(name: str, **fields: Any) -> Any:
    """Return a named tuple of the fields that are not None; ``pooler_output`` is there even then."""
    kept = {key: value for key, value in fields.items() if value is not None or key == "pooler_output"}
    return _made(name, tuple(kept), *kept.values())
