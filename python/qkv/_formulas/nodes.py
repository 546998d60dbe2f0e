"""The values of a formula: what they are computed from, and what they depend on."""

from __future__ import annotations

from typing import Any

from .errors import source_line

HEAD, QUERY, KEY, DIAGONAL, PAIR = range(5)


class Node:
    """A value of a formula: an operation on other nodes. ``kind`` is "b", "i" or "f"."""

    __slots__ = ("args", "attr", "form", "kind", "level", "line", "number", "op", "score")

    def __init__(
        self, op: str, args: tuple[Node, ...], attr: Any, kind: str, level: int, number: int
    ) -> None:
        self.op, self.args, self.attr, self.kind, self.level, self.number = (
            op,
            args,
            attr,
            kind,
            level,
            number,
        )
        self.score: bool = op == "score" or any(a.score for a in args)  # depends on the score
        self.form: dict[Node | None, int] | None = None  # integers: coefficients of a sum, None: of 1
        self.line = source_line()

    def __repr__(self) -> str:
        attr = "" if self.attr is None else f" {self.attr}"
        return (
            f"{self.number}: {self.op}{attr} {[a.number for a in self.args]} {self.kind}{'HQKDP'[self.level]}"
        )
