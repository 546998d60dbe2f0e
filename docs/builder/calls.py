"""Shows how layers, functions and methods of the core are called."""

from __future__ import annotations

import inspect
import textwrap
from typing import Any

import sphinx.util.inspect
from sphinx.application import Sphinx

import qkv
from qkv.nn import Module

FUNCTION = type(qkv.Tensor.all)


def add_call(app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Put the signature of a layer's call after the first paragraph of its docstring."""
    if what != "class" or not issubclass(thing, Module) or "forward" not in dir(thing):
        return
    parameters = list(inspect.signature(thing.forward).parameters.values())[1:]
    arguments = str(inspect.Signature(parameters)).removeprefix("(")
    call = textwrap.wrap(f"layer({arguments}", 78, subsequent_indent=" " * len("layer("))
    end = lines.index("") if "" in lines else len(lines)
    lines[end:end] = ["", "Called as::", "", *(f"    {line}" for line in call), ""]


def take_functions_for_methods() -> None:
    """Let Sphinx take functions of the core in a class for methods: it knows the kinds of functions by their types."""
    is_attribute = sphinx.util.inspect.isattributedescriptor
    sphinx.util.inspect.isattributedescriptor = lambda thing: (
        not isinstance(thing, FUNCTION) and is_attribute(thing)
    )


def setup(app: Sphinx) -> dict[str, bool]:
    """Run before numpydoc, which orders the sections."""
    take_functions_for_methods()
    app.connect("autodoc-process-docstring", add_call, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
