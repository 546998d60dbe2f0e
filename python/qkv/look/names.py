"""The names of a model's values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from .. import _core
from .._words.errors import closest, shown

#: The words of an attention, in the order in which they are listed; any module has the first and the last.
WORDS = ("input", "queries", "keys", "values", "scores", "weights", "heads", "output")
_OF_MODULE = "input", "output"
_WITHOUT_WEIGHTS = "input", "queries", "keys", "values", "heads", "output"


def joined(path: str, name: str) -> str:
    """Return the name of what is at a path; at the root's it is the name alone."""
    return f"{path}.{name}" if path else name


class Part:
    """A module of a model, under all paths that lead to it."""

    def __init__(self, module: Any, path: str) -> None:
        self.module, self.paths = module, [path]
        found = _core.attention_heads(module)
        # A module of one's own may call a function of attention: its calls tell, and how many heads there are.
        self.open = not found and bool(getattr(module, "_may_attend", False))
        self.words: tuple[str, ...] = (
            WORDS if self.open else _OF_MODULE if not found else _WITHOUT_WEIGHTS if found == (-1,) else WORDS
        )
        self.attention = bool(found) and self.words is WORDS
        self.head_axis = self.attention and found[0] is not None  # of its weights
        self.num_heads: int = found[0] if self.head_axis else 1

    def has_heads(self, axes: int) -> bool:
        """Whether values with so many axes have one of heads."""
        return axes > 3 if self.open else self.head_axis

    @property
    def crosses(self) -> bool:
        """Whether its path says that it attends to another sequence than the queries'."""
        last = self.paths[0].rpartition(".")[2].lower()
        return last == "multihead_attn" or "cross" in last


class Names:
    """All names of a model: of each its part and its word."""

    def __init__(self, operation: str, model: Any) -> None:
        if not isinstance(model, _core.Module):
            raise TypeError(f"{operation}: model must be a module; got {shown(model)}")
        self.operation = operation
        parts: dict[int, Part] = {}
        self._of: dict[str, tuple[Part, str]] = {}
        for path, module in _core.Module.named_modules(model):
            part = parts.get(id(module))
            if part is None:
                part = parts[id(module)] = Part(module, path)
            else:
                part.paths.append(path)
            for word in part.words:
                self._of[joined(path, word)] = part, word
        self.parts = list(parts.values())

    def __iter__(self) -> Any:
        return iter(self._of)

    def __contains__(self, name: str) -> bool:
        return name in self._of

    def __getitem__(self, name: str) -> tuple[Part, str]:
        return self._of[name]

    @property
    def attentions(self) -> list[tuple[str, Part]]:
        """The attention modules and their paths."""
        return [(path, part) for path, part in self.having("weights") if part.attention]

    def having(self, word: str) -> list[tuple[str, Part]]:
        """The modules that have, or may have, a value of that word, and their paths."""
        return [(name.rpartition(".")[0], part) for name, (part, own) in self._of.items() if own == word]

    def nearest(self, name: str) -> str:
        """Say what was meant by a name that does not exist."""
        meant = closest(name, self._of)
        return f"; did you mean {meant}?" if meant else ""

    def selected(self, keep: str | Iterable[str], layers: int | Sequence[int] | None) -> list[str]:
        """Names whose last word or whole is in `keep`, in layers of these numbers."""
        patterns = self._several("keep", keep, str)
        found: set[str] = set()
        for pattern in patterns:
            if not isinstance(pattern, str):
                raise TypeError(f"{self.operation}: keep must hold words or patterns; got {shown(pattern)}")
            matches = self.matching(pattern)
            if not matches:
                hint = closest(pattern, [*WORDS, *self._of])
                rest = f"; did you mean {hint}?" if hint and hint != pattern else ""
                raise ValueError(
                    f"{self.operation}: keep must hold words ({', '.join(WORDS)}) or patterns of names that the model "
                    f"has; got {pattern!r}{rest}"
                )
            found.update(matches)
        numbers = None if layers is None else self._numbers(layers)
        return [n for n in self._of if n in found and (numbers is None or layer_of(n) in numbers)]

    def refuse_nothing(self, keep: str | Iterable[str], wanted: list[str], kept: Iterable[str]) -> None:
        """Refuse a word or pattern of `keep` that no call computed anything of."""
        found = set(kept)
        for pattern in self._several("keep", keep, str):
            asked = [name for name in self.matching(pattern) if name in wanted]
            if not asked or found.intersection(asked):
                continue
            sure = [name for name in asked if not self._of[name][0].open or self._of[name][1] in _OF_MODULE]
            reason = (
                f"the call computed no Tensor of that word in {sure[0].rpartition('.')[0] or 'the model'}"
                if sure
                else "no attention layer and no scaled_dot_product_attention of qkv.torch was called; weights that a "
                'module computes itself are outputs of a part, such as nn.Softmax: keep=("*.output",)'
            )
            raise ValueError(
                f"{self.operation}: keep must hold what the call computes; got {pattern!r}, but {reason}"
            )

    def matching(self, pattern: str) -> list[str]:
        """Names whose last word is the pattern, or that match it as a whole."""
        if pattern in WORDS:
            return [name for name, (_, word) in self._of.items() if word == pattern]
        return [name for name in self._of if fnmatchcase(name, pattern)]

    def _several(self, name: str, given: Any, one: type) -> list[Any]:
        if isinstance(given, one):
            return [given]
        if not np.iterable(given):
            raise TypeError(
                f"{self.operation}: {name} must be one or several of type {one.__name__}; got {shown(given)}"
            )
        return list(given)

    def _numbers(self, layers: int | Sequence[int]) -> set[int]:
        count = 1 + max((n for name in self._of if (n := layer_of(name)) is not None), default=-1)
        given = self._several("layers", layers, int)
        for number in given:
            if isinstance(number, bool) or not hasattr(number, "__index__"):
                raise TypeError(f"{self.operation}: layers must hold integers; got {shown(number)}")
            if not -count <= number < count:
                limits = f"from {-count} to {count - 1}" if count else "left out because no path has a number"
                raise ValueError(f"{self.operation}: layers must be {limits}; got {number}")
        return {int(number) % count for number in given}


def layer_of(name: str) -> int | None:
    """Return the first number in a path."""
    found = re.search(r"(?:^|\.)(\d+)(?=\.)", name)
    return int(found[1]) if found else None
