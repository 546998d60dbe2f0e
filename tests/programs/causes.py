"""What is known to be wrong, by cause: a program that shows it, and which statements of others have to be left out.

A change that removes a cause removes its entry; the program then belongs to the tests of that change.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .running import Session
from .statements import Kind

BOTH = ("qkv.torch", "qkv")


@dataclass(frozen=True)
class Cause:
    dialects: tuple[str, ...]
    program: str
    concerns: Callable[[Session, Kind, str], bool]


def named(*names: str) -> Callable[[Session, Kind, str], bool]:
    return lambda session, kind, line: kind.name in names


CAUSES: dict[str, Cause] = {}


def known(dialect: str) -> Callable[[Session, Kind, str], str | None]:
    """Return the question which known cause a statement of a program falls under."""
    concerned = {name: cause.concerns for name, cause in CAUSES.items() if dialect in cause.dialects}

    def ask(session: Session, kind: Kind, line: str) -> str | None:
        return next((name for name, concerns in concerned.items() if concerns(session, kind, line)), None)

    return ask
