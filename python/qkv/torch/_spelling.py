"""How functions of PyTorch's are called: by every keyword, with ``out``, and with PyTorch's classes of errors."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from typing import Any

from .. import _core
from .._words.errors import shown
from ._arguments import checked

# Keywords that PyTorch takes for one argument, beside the name that a function gives it.
_EVERYWHERE = {
    "x2": "other",
    "axis": "dim",
    "keepdims": "keepdim",
    **dict.fromkeys(("a", "x", "x1"), "input"),
}
_OF = """
mm, bmm: mat2=other | mv: vec=other | dot: tensor=other | swapaxes: axis0=dim0 axis1=dim1
split: split_size=split_size_or_sections tensor=input | copy_: other=src | uniform_: from=a to=b
"""


def _spellings(name: str) -> dict[str, str]:
    own = (entry.split(": ") for entry in re.split(r" \| |\n", _OF.strip()))
    words = next((words for names, words in own if name in names.split(", ")), "")
    return _EVERYWHERE | dict(word.split("=") for word in words.split())  # type: ignore[misc]


_TENSORS = {"input", "t"}  # names of what is always a Tensor
# ValueErrors there, too, or of a function given
_KEEP_ERRORS = {"tensor", "as_tensor", "from_numpy", "backward"}


def told(
    name: str, f: Callable[..., Any], write: Callable[..., Any], finish: Any = None
) -> Callable[..., Any]:
    """Return the function with its arguments checked, and ``finish(result, first argument)`` of its result.

    What its arguments mean in other spellings, and the classes that errors have in PyTorch, are found when a call
    fails.
    """
    f = checked(name, f)

    @functools.wraps(f)
    def call(*args, **options):
        try:
            return f(*args, **options)
        except (TypeError, ValueError, AttributeError) as error:
            failed = error
        return _otherwise(name, f, args, options, failed, write)

    @functools.wraps(f)
    def call_and_finish(*args, **options):
        try:
            return finish(f(*args, **options), args[0])
        except (TypeError, ValueError, IndexError, AttributeError) as error:
            failed = error
        return _otherwise(name, f, args, options, failed, write, finish)

    return call if finish is None else call_and_finish


def _otherwise(
    name: str, f: Any, args: Any, options: dict[str, Any], error: Any, write: Any, finish: Any = None
):
    """Call again with the names that the function has, unless the error is of its own."""
    if isinstance(error, ValueError):
        raise _in_torch(name, error) from None
    signature = inspect.signature(f)
    try:
        given = signature.bind(*args, **options).arguments
        if args:
            raise _no_tensor(name, given, error) or error
    except TypeError as found:
        if found is error or not isinstance(error, TypeError) or "must be a Tensor" in str(found):
            raise found from None
    parameters = signature.parameters
    known, first = [*parameters], next(iter(parameters), "")
    sizes = next((p.name for p in parameters.values() if p.kind == p.VAR_POSITIONAL), None)
    others = {new: old for new, old in _spellings(name).items() if new not in known and old in known}
    given = {}
    for word, value in options.items():
        meant = others.get(word, word)
        if meant in given or (meant != word and meant in options):
            raise TypeError(f"{name}: {meant} must be given once; got {word}, too")
        if word != "out":
            given[meant] = value
    if not args and first in given and first != sizes:
        args = (given.pop(first),)
    if sizes in given:
        args = (*args, given.pop(sizes))
    result = answer(name, f, *args, **given)
    result = result if finish is None else finish(result, args[0])
    out = options.get("out")
    return result if out is None else write(name, out, result)


def _no_tensor(name: str, given: dict[str, Any], error: Exception) -> TypeError | None:
    """Words for an argument that is no Tensor, where the function failed by that."""
    if "must be" in str(error):  # said already
        return None
    lacking = getattr(error, "obj", None)
    for word, value in given.items():
        wrong = word in _TENSORS if isinstance(error, TypeError) else value is lacking
        if wrong and not isinstance(value, _core.Tensor):
            return TypeError(f"{name}: {word} must be a Tensor; got {shown(value)}")
    return None


def answer(name: str, f: Callable[..., Any], *args, **options):
    """Call a function; errors of the core's get the class that PyTorch's have, and the function's name."""
    try:
        return f(*args, **options)
    except ValueError as error:
        raise _in_torch(name, error) from None


def _in_torch(name: str, error: ValueError) -> Exception:
    if type(error) is not ValueError or name in _KEEP_ERRORS:
        return error
    text = re.sub(r"\bax(is|es)(?=\d| must)", lambda m: "dim" if m[1] == "is" else "dims", str(error))
    text = f"{name}: {re.sub(r'^[.a-z_]+: ', '', text)}"
    return (IndexError if re.search("dim must be from|must be in 0", text) else RuntimeError)(text)
