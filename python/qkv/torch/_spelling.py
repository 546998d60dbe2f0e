"""How functions of PyTorch's are called: by every keyword, with ``out``, and with PyTorch's classes of errors."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from typing import Any

# Keywords that PyTorch takes for one argument, beside the name that a function gives it.
_EVERYWHERE = {
    "x2": "other",
    "axis": "dim",
    "keepdims": "keepdim",
    **dict.fromkeys(("a", "x", "x1"), "input"),
}
_OF = """
mm, bmm: mat2=other | mv: vec=other | dot: tensor=other | addmm: mat1=a mat2=b | baddbmm: batch1=a batch2=b
addmv: mat=a vec=b | swapaxes: axis0=dim0 axis1=dim1 | split: split_size=split_size_or_sections tensor=input
copy_: other=src | result_type: tensor=tensor1 other=tensor2 | uniform_, random_: from=a to=b
"""


def _spellings(name: str) -> dict[str, str]:
    own = (entry.split(": ") for entry in re.split(r" \| |\n", _OF.strip()))
    words = next((words for names, words in own if name in names.split(", ")), "")
    return _EVERYWHERE | dict(word.split("=") for word in words.split())  # type: ignore[misc]


# ValueErrors there, too, or of a function given
_KEEP_ERRORS = {"tensor", "as_tensor", "from_numpy", "backward"}


def spelled(name: str, f: Callable[..., Any], finish: Callable[[Any, Any, Any], Any]):
    """Give the function for every spelling; ``finish(result, first argument, out)`` makes what it returns."""
    parameters = list(inspect.signature(f).parameters.values())
    known = {p.name for p in parameters if p.kind != p.VAR_POSITIONAL}
    first = parameters[0].name if parameters else ""
    sizes = next((p.name for p in parameters if p.kind == p.VAR_POSITIONAL), None)
    others = {new: old for new, old in _spellings(name).items() if new not in known and old in known}

    @functools.wraps(f)
    def call(*args, **options):
        out = None
        if options:
            for new in options.keys() & others.keys():
                if others[new] in options:
                    raise TypeError(f"{name}: {others[new]} must be given once; got {new}, too")
                options[others[new]] = options.pop(new)
            if not args and first in options:
                args = (options.pop(first),)
            if sizes in options:
                args = (*args, options.pop(sizes))
            out = options.pop("out", None)
        return finish(answer(name, f, *args, **options), args[0] if args else None, out)

    return call


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
