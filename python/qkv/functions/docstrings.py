"""What docstrings of operations leave out: the formula of the row, and parameters that are the same everywhere."""

from __future__ import annotations

import inspect
import re
import sys
from types import FunctionType

from .._operations import OPERATIONS

_SECTIONS = ("Parameters", "Returns", "Raises", "Examples", "References")
_SECTION = re.compile(r"^([A-Z]\w+)\n-{3,}\n", re.MULTILINE)

# Parameters that mean the same everywhere: their type, and what they are.
_PARAMETERS = {
    "x": "array_like or Tensor\n    Any shape.",
    "a": "array_like or Tensor\n    Any shape that broadcasts to that of the result.",
    "b": "array_like or Tensor\n    Likewise.",
    "axis": "int\n    Along which axis.",
    "keepdims": "bool\n    Keep the reduced axes with size 1.",
    "descending": "bool\n    The largest first.",
    "temperature": "float\n    Above 0. Small ones sharpen the distribution, large ones flatten it.",
}
# The errors that they raise.
_RAISES = {
    "b": "the shapes do not broadcast",
    "axis": "there is no such axis",
    "temperature": "``temperature`` is not above 0",
}


def complete(module: str) -> None:
    """Complete the docstrings of a module's functions; what they tell themselves, a parameter or a section, stays."""
    for name, thing in vars(sys.modules[module]).items():
        own = isinstance(thing, FunctionType) and thing.__module__ == module and name[0] != "_"
        if own and thing.__doc__:  # which python -OO leaves out
            thing.__doc__ = inspect.unwrap(thing).__doc__ = _completed(thing)


def _completed(function: FunctionType) -> str:
    head, *rest = _SECTION.split(inspect.cleandoc(function.__doc__ or ""))
    given = {name: text.strip("\n") for name, text in zip(rest[::2], rest[1::2], strict=True)}
    summary, arrow, example = head.partition(">>> ")
    if arrow:
        given["Examples"] = (arrow + example).strip("\n")
    names = [name for name in function.__annotations__ if name != "return"]
    told = dict(re.findall(r"^(\w+) : (.*(?:\n .*)*)", given.get("Parameters", ""), re.MULTILINE))
    given["Parameters"] = "\n".join(f"{name} : {told.get(name) or _PARAMETERS[name]}" for name in names)
    shape = "In the shape of ``x``; differentiable" if "x" in names else "Differentiable"
    given.setdefault("Returns", f"ndarray or Tensor\n    {shape}.")
    if raised := [_RAISES[name] for name in names if name in _RAISES]:
        given.setdefault("Raises", f"ValueError\n    If {', or '.join(raised)}.")
    written = [f"{name}\n{'-' * len(name)}\n{given[name]}" for name in _SECTIONS if name in given]
    summary = summary.strip() or f"{OPERATIONS[function.__name__].formula}."
    return "\n\n".join([summary, *written]) + "\n"
