"""How errors are put into words: values without the content of arrays, and names that do not exist."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

_LONGEST = 80
_MOST = 6
_PLAIN = (int, float, complex, bool, str, bytes, type(None), type(Ellipsis))


def shown(value: Any) -> str:
    """Numbers, strings and short tuples as they are, of anything else the type.

    Examples
    --------
    >>> from qkv._errors import shown
    >>> shown((1, "a", np.ones(3)))
    "(1, 'a', ndarray)"
    """
    if type(value) in (tuple, list):
        parts = ["..." if type(part) in (tuple, list) else shown(part) for part in value[:_MOST]]
        text = ", ".join(parts + ["..."] * (len(value) > _MOST))
        if type(value) is list:
            return f"[{text}]"
        return f"({text},)" if len(value) == 1 else f"({text})"
    if type(value) not in _PLAIN:
        return type(value).__name__
    text = repr(value)
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "..."


def closest(name: str, names: Iterable[str]) -> str | None:
    """Give that of `names` which was most likely meant, whatever its capitals."""
    import difflib  # only errors need it

    lowered: dict[str, str] = {}
    for known in sorted(names):
        lowered.setdefault(known.lower(), known)
    found = difflib.get_close_matches(name.lower(), lowered, n=1, cutoff=0.7)
    return lowered[found[0]] if found else None


def plain(name: str) -> str:
    """Give a name without what people spell in different ways."""
    return name.lower().replace("_", "")


def _hint(
    name: str,
    names: Iterable[str],
    habits: Iterable[tuple[frozenset[str], str]],
    elsewhere: Callable[[], str | None] = lambda: None,
) -> str | None:
    """Say what was meant by `name`, which is none of `names`: a habit, the same name elsewhere, or a slip."""
    known = set(names)
    for needed, text in habits:
        if needed <= known:
            return text
    same = (other for other in sorted(known) if plain(other) == plain(name))
    meant = next(same, None) or elsewhere() or closest(name, known)
    return None if meant is None else f"did you mean {meant}?"


def unknown_name(
    module: str, name: str, public: Iterable[str], elsewhere: Callable[[str], str | None]
) -> str:
    """Say that a module of qkv has no such name."""
    from ._names import NAMES

    hint = _hint(name, public, NAMES.get(name, ()), lambda: elsewhere(name))
    return f"module {module!r} has no attribute {name!r}" + ("" if hint is None else f"; {hint}")
