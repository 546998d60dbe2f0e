"""Who looks at which values on this thread, for modules that are written in Python."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from .. import _core

_OF_THREAD = threading.local()


class Watcher:
    """An observer of the core that also says what it asks of a module."""

    def __init__(self, keep_graph: bool = False) -> None:
        self._observer, self._keep_graph = _core.Observer(keep_graph), keep_graph
        self._asked: dict[
            tuple[int, str], bool
        ] = {}  # of modules that the caller keeps: whether the value moves

    def record(self, key: int, module: Any, word: str) -> None:
        """Keep a value of a module; `key` is how it is found again."""
        self._observer.record(key, module, word)
        self._ask(module, word, self._keep_graph)

    def record_steps(self, candidates: int) -> None:
        """Keep what each step of a model that writes chose, too, and so many of its likeliest tokens."""
        self._observer.record_steps(candidates)

    def change(self, module: Any, word: str, function: Callable[[Any], Any]) -> None:
        """Replace a value of a module."""
        self._observer.change(module, word, function)
        self._ask(module, word, True)

    def _ask(self, module: Any, word: str, moves: bool) -> None:
        asked = id(module), word
        self._asked[asked] = self._asked.get(asked, False) or moves

    def enter(self) -> None:
        """Look at the calls of this thread, inside of those that look already."""
        self._observer.enter()
        _OF_THREAD.watchers = (*_watchers(), self)

    def leave(self) -> None:
        """Look no more."""
        self._observer.leave()
        _OF_THREAD.watchers = tuple(other for other in _watchers() if other is not self)

    def seen(self) -> list[tuple[int, str, Any]]:
        """What was kept: key, word and value."""
        found: list[tuple[int, str, Any]] = self._observer.seen(self._keep_graph)
        return found


def wanted(module: Any, *words: str) -> bool:
    """Whether this thread records or changes one of these values of a module."""
    return any((id(module), word) in one._asked for one in _watchers() for word in words)


def moved(module: Any, *words: str) -> bool:
    """Whether the output has to be computed from one of these values: it is changed, or recorded with its history."""
    return any(one._asked.get((id(module), word), False) for one in _watchers() for word in words)


def _watchers() -> tuple[Watcher, ...]:
    found: tuple[Watcher, ...] = getattr(_OF_THREAD, "watchers", ())
    return found
