"""The package tokenizers, imported when it is needed, and its errors in words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..._words.errors import needs

OPTIONS = ("single_word", "lstrip", "rstrip", "normalized", "special")  # of added tokens


def library() -> Any:
    """Import the package when it is needed."""
    with needs("qkv.models: texts need the package tokenizers; install it: pip install 'qkv[models]'"):
        import tokenizers
    return tokenizers


@contextmanager
def errors_as(words: str) -> Iterator[None]:
    """Raise a ValueError of these words for what the package raises, panics too, which are not Exceptions."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit, GeneratorExit, ImportError, MemoryError):
        raise
    except BaseException as error:
        raise ValueError(f"{words}; {' '.join(str(error).splitlines()[:1])}") from None
