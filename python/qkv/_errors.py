"""How a value is shown in the text of an error: never the content of an array."""

from __future__ import annotations

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
