"""HTML made of elements, so that all text in it is escaped, and how a module shows itself in a notebook."""

from __future__ import annotations

import sys
from typing import Any
from xml.etree.ElementTree import Element, tostring

from .format import shown_config

STYLE = (
    ".qkv-module{font:13px ui-monospace,monospace;line-height:1.5}.qkv-module details,.qkv-module .leaf"
    "{margin-left:1.2em}.qkv-module summary{cursor:pointer;margin-left:-1.2em}"
    ".qkv-module .count{opacity:.65}.qkv-module .weights{margin-left:1.2em;opacity:.8}"
)


def in_notebook() -> bool:
    """Say whether outputs go to a Jupyter front end."""
    ipython = sys.modules.get("IPython")  # which many libraries import outside of notebooks, too
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None


def element(tag: str, *content: str | Element, **attributes: str) -> Element:
    """Return an element with text and other elements; ``class_`` stands for ``class``, ``_`` in names for ``-``."""
    made = Element(tag, {name.rstrip("_").replace("_", "-"): value for name, value in attributes.items()})
    for part in content:
        if isinstance(part, Element):
            made.append(part)
        elif len(made):
            made[-1].tail = (made[-1].tail or "") + part
        else:
            made.text = (made.text or "") + part
    return made


def page_of(root: Element) -> str:
    """Return an element as HTML; what is in ``style`` and ``script`` is written as it is."""
    return tostring(root, encoding="unicode", method="html")


def module_html(module: Any) -> str:
    """Return the tree of a module's parts: arguments, shapes of parameters, their number."""
    return page_of(element("div", element("style", STYLE), _branch("", module, True), class_="qkv-module"))


def _branch(name: str, module: Any, is_open: bool) -> Element:
    children = module._children()
    config = shown_config(module)
    head: list[str | Element] = [f"{name}: "] if name else []
    head += [element("b", type(module).__name__), f"({config})"]
    try:
        own = [(key, parameter) for key, parameter in module.named_parameters() if "." not in key]
        count = module.num_parameters()
    except RuntimeError:  # parameters that appear at the first call
        own, text = [], "parameters appear at the first call"
    else:
        text = f"{count:,} parameter{'' if count == 1 else 's'}" if count else ""
    if text:
        head += [" ", element("span", text, class_="count")]
    weights = [
        element("div", f"{key} {tuple(parameter.shape)} {parameter.dtype}", class_="weights")
        for key, parameter in own
    ]
    parts = [_branch(child, part, False) for child, part in children]
    if not weights and not parts:
        return element("div", *head, class_="leaf")
    opened = {"open": "open"} if is_open else {}
    return element("details", element("summary", *head), *weights, *parts, **opened)
