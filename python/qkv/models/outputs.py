"""The named tuples that models give."""

from __future__ import annotations

from collections import namedtuple
from functools import cache
from typing import Any


@cache
def _tuple_type(name: str, fields: tuple[str, ...]) -> Any:
    return namedtuple(name, fields)


def output(name: str, **fields: Any) -> Any:
    """Give a named tuple of the fields that are not None; ``pooler_output`` stands even then."""
    kept = {key: value for key, value in fields.items() if value is not None or key == "pooler_output"}
    return _tuple_type(name, tuple(kept))(**kept)
