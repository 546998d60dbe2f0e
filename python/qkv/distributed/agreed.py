"""Errors that all ranks raise together, so that none of them waits for another."""

from __future__ import annotations

from typing import TypeVar

E = TypeVar("E", bound=BaseException)


def agreed(error: E) -> E:
    """Mark an error as one that every rank raises."""
    error._qkv_on_all_ranks = True  # type: ignore[attr-defined]
    return error


def is_agreed(error: BaseException) -> bool:
    """Say whether an error is marked."""
    return bool(getattr(error, "_qkv_on_all_ranks", False))
