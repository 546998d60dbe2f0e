"""How errors are put into words: values without the content of arrays, and names that do not exist."""

from __future__ import annotations

import functools
import operator
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np

_LONGEST = 80
_MOST = 6
_PLAIN = (int, float, complex, bool, str, bytes, type(None), type(Ellipsis))


@contextmanager
def needs(words: str) -> Iterator[None]:
    """Say in these words how to have what an import inside lacks."""
    try:
        yield
    except ImportError as error:
        raise ImportError(words) from error


def real(value: Any) -> Any:
    """Return numbers as they are; complex ones are refused."""
    if np.iscomplexobj(value):
        raise TypeError(f"expected real numbers because qkv computes in no others; got {shown(value)}")
    return value


def integer_of(operation: str, name: str, value: Any) -> int:
    """Return an argument that is a whole number of 64 bits."""
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, bool):
        raise TypeError(
            f"{operation}: {name} must be an integer because it counts or bounds integers; got {shown(value)}"
        )
    if not -(2**63) <= number < 2**63:
        raise ValueError(f"{operation}: {name} must be in [-2^63, 2^63) because it is an int64; got {number}")
    return number


def count_of(operation: str, name: str, value: Any, least: int = 0) -> int:
    """Return an argument that is a whole number, at least `least`."""
    number = integer_of(operation, name, value)
    if number < least:
        raise ValueError(f"{operation}: {name} must be at least {least}; got {number}")
    return number


def shown(value: Any) -> str:
    """Numbers, strings and short tuples as they are, of anything else the type.

    Examples
    --------
    >>> from qkv._words.errors import shown
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


def no_dtype(operation: str, value: Any) -> str:
    """Say that a value names no dtype, and what was meant by a device or by one of PyTorch's dtypes."""
    name = value if isinstance(value, str) else str(value) if type(value).__module__ == "torch" else ""
    hint = ""
    if name.partition(":")[0] in ("cpu", "cuda", "mps", "xpu"):
        hint = ", a device; everything is computed on the CPU, leave it out"
    elif name.startswith("torch."):
        hint = f'; write "{name[6:]}"'
    return f"{operation}: dtype must be a NumPy dtype or its name; got {shown(name or value)}{hint}"


def counted(number: int, what: str) -> str:
    """Return a number and what it counts: "1 head", "2 heads"."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def closest(name: str, names: Iterable[str]) -> str | None:
    """Return that of `names` which was most likely meant, in capitals or not."""
    import difflib  # only errors need it

    lowered: dict[str, str] = {}
    for known in sorted(names):
        lowered.setdefault(known.lower(), known)
    found = difflib.get_close_matches(name.lower(), lowered, n=1, cutoff=0.7)
    return lowered[found[0]] if found else None


def plain(name: str) -> str:
    """Return a name without what people spell in different ways."""
    return name.lower().replace("_", "")


def _hint(
    name: str,
    names: Iterable[str],
    idioms: Iterable[tuple[frozenset[str], str]],
    elsewhere: Callable[[], str | None] = lambda: None,
) -> str | None:
    """Say what was meant by `name`, which is none of `names`: an idiom, the same name elsewhere, or a slip."""
    known = set(names)
    for needed, text in idioms:
        if needed <= known:
            return text
    same = (other for other in sorted(known) if plain(other) == plain(name))
    meant = next(same, None) or elsewhere() or closest(name, known)
    return None if meant is None else f"did you mean {meant}?"


def keyword_hint(name: str, known: Iterable[str], table: str = "KEYWORDS") -> str | None:
    """Say what was meant by a keyword that is none of those known."""
    from . import idioms as _idioms  # only errors need the tables

    return _hint(name, known, getattr(_idioms, table).get(name, ()))


def misfit(
    operation: str,
    parameters: Sequence[tuple[str, bool]],
    most: int | None,
    any_keyword: bool,
    given: int,
    names: Sequence[str],
) -> str | None:
    """Say why arguments do not fit a signature, or None if their number and names do.

    `parameters` are names, in order, and whether each must be given; the first `most` of them (None: any number) may
    be given by position, and `given` were; `names` are the keywords.
    """
    known = [name for name, _ in parameters]
    takes = f"it takes {', '.join(known)}" if known else "it takes no arguments by name"
    for name in names:
        if name not in known and not any_keyword:
            hint = keyword_hint(name, known)
            rest = f"; {takes}" if hint is None else f"; {hint}; {takes}".replace("?; it", "? It")
            return f"{operation}: got an unexpected argument {name}{rest}"
        if name in known[: min(given, len(known) if most is None else most)]:
            return f"{operation}: got the argument {name} twice, by position and by name"
    if most is not None and given > most:
        end = f"; {takes}" if known else ""
        return f"{operation}: takes at most {most} arguments by position; got {given}{end}"
    by_position = set(known[: given if most is None else min(given, most)])
    for name, required in parameters:
        if required and name not in by_position and name not in names:
            return f"{operation}: {name} must be given; {takes}"
    return None


def refusal(
    function: Any, positional: tuple[Any, ...], names: tuple[str, ...], operation: str | None = None
) -> str | None:
    """Say why a function does not take these arguments; `operation` is what one of the core is called."""
    import inspect

    found = list(inspect.signature(function).parameters.values())
    owner, dot, name = function.__qualname__.rpartition(".")
    named_after, given = function.__name__, len(positional)
    if dot and not owner.endswith("<locals>") and found and found[0].name in ("self", "cls"):
        if positional:
            cls = positional[0] if isinstance(positional[0], type) else type(positional[0])
            owner = cls.__name__
        named_after = owner if name in ("__init__", "__call__", "forward") else f"{owner}.{name}"
        found, given = found[1:], max(given - 1, 0)
    kinds = inspect.Parameter
    by_position = (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)
    variable = [p.kind for p in found]
    named = [p for p in found if p.kind not in (kinds.VAR_POSITIONAL, kinds.VAR_KEYWORD)]
    most = sum(p.kind in by_position for p in named)
    if kinds.VAR_POSITIONAL in variable:  # which takes the others
        given = min(given, most)
    words = misfit(
        operation or named_after,
        [(p.name, p.default is kinds.empty) for p in named],
        most,
        kinds.VAR_KEYWORD in variable,
        given,
        names,
    )
    folder = positional[1] if name == "__init__" and len(positional) == 2 else None
    if words and isinstance(folder, str) and hasattr(positional[0], "from_pretrained"):
        return f"{words}; write {owner}.from_pretrained({folder!r}) for what lies in a folder"
    return words


_KINDS = {"int": "an integer of 64 bits", "float": "a number", "bool": "True or False", "str": "a string"}
_KINDS |= {"type": "a class", "list": "a list", "Sequence": "a list", "Callable": "a function"}
_KINDS |= {"object": "an object", "Mapping": "a dict", "NDArray": "an array"}


def wrong_type(operation: str, name: str, kind: str, value: Any) -> str:
    """Say that an argument of a function of the core is not of its type, which `kind` is as stubs write it."""
    kind = kind.partition("[")[0].partition(" ")[0]
    got = "an integer of more bits" if kind == "int" and isinstance(value, int) else type(value).__name__
    wanted = _KINDS.get(kind, f"a {kind}")
    return f"{operation}: {name} must be {wanted}; got {'None' if value is None else got}"


class UnknownNameError(AttributeError):
    """A name that does not exist; what was meant by it is looked for when the error is read.

    `hasattr` and tools that ask for what may be there pay for no words. Neither name nor object are Python's, which
    would add a suggestion of its own.
    """

    def __init__(self, words: Callable[[], str]) -> None:
        super().__init__(name="", obj=None)
        self._words = words

    def __str__(self) -> str:
        return self._words()

    def __reduce__(self) -> tuple[type, tuple[str]]:
        return AttributeError, (str(self),)


# Tracebacks show the class by its name.
UnknownNameError.__module__, UnknownNameError.__qualname__, UnknownNameError.__name__ = (
    "builtins",
    *["AttributeError"] * 2,
)


@functools.lru_cache(maxsize=256)  # libraries ask objects again and again for what they may have
def _attribute_hint(cls: type, parts: frozenset[str], name: str) -> str | None:
    from .idioms import ATTRIBUTES

    functions = sys.modules["qkv"].__all__
    kinds = [kind.__name__ for kind in cls.__mro__]
    idioms = [idiom for kind in kinds for idiom in ATTRIBUTES.get(kind, {}).get(name, ())]
    names = {known for known in dir(cls) if not known.startswith("_")} | parts
    is_function = "Tensor" in kinds and name in functions
    return _hint(name, names, idioms, lambda: f"the function qkv.{name}(t)" if is_function else None)


def unknown_attribute(value: Any, name: str) -> UnknownNameError:
    """Say that an object of qkv has no such attribute."""
    name = str(name)  # __getattr__ may be called with anything

    def words() -> str:
        cls = type(value)
        parts = frozenset(dir(value)) if hasattr(cls, "_children") else frozenset()  # a module's own names
        hint = _attribute_hint(cls, parts, name)  # type: ignore[arg-type]  # mypy takes no class for hashable
        return f"{cls.__name__!r} object has no attribute {name!r}" + ("" if hint is None else f"; {hint}")

    return UnknownNameError(words)


def unknown_name(
    module: str, name: str, public: Iterable[str], elsewhere: Callable[[str], str | None]
) -> UnknownNameError:
    """Say that a module of qkv has no such name."""

    def words() -> str:
        from .idioms import NAMES

        hint = _hint(name, public, NAMES.get(name, ()), lambda: elsewhere(name))
        if hint is None and module == "qkv" and not isinstance(getattr(np, name, np), ModuleType):
            hint = f"NumPy has it, and takes Tensors: np.{name}"
        return f"module {module!r} has no attribute {name!r}" + ("" if hint is None else f"; {hint}")

    return UnknownNameError(words)
