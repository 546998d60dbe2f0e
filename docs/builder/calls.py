"""Adds to the page of a layer how the layer is called."""

from __future__ import annotations

import inspect
import textwrap
from typing import Any

from sphinx.application import Sphinx

from qkv.nn import Module


def add_call(app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Put the signature of a layer's call behind the first paragraph of its docstring."""
    if what != "class" or not issubclass(thing, Module) or "forward" not in dir(thing):
        return
    parameters = list(inspect.signature(thing.forward).parameters.values())[1:]
    arguments = str(inspect.Signature(parameters)).removeprefix("(")
    call = textwrap.wrap(f"layer({arguments}", 78, subsequent_indent=" " * len("layer("))
    end = lines.index("") if "" in lines else len(lines)
    lines[end:end] = ["", "Called as::", "", *(f"    {line}" for line in call), ""]


def setup(app: Sphinx) -> dict[str, bool]:
    """Run before numpydoc, which orders the sections."""
    app.connect("autodoc-process-docstring", add_call, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
