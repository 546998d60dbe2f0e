"""Formulas as MathML, made without a network and shown by the browser itself."""

import functools
import html
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

_SPACE = "http://www.w3.org/1998/Math/MathML"
_ROWS = ("math", "mrow", "mtd", "mstyle", "msqrt", "mpadded")
_SCRIPTS = ("msub", "msup", "msubsup", "munder", "mover", "munderover")
_THIN = "0.1667em"


@functools.lru_cache(maxsize=4096)
def mathml(latex: str, display: str) -> str:
    """Return a formula as MathML, `display` "block" or "inline"; as it was written if it cannot be converted."""
    from latex2mathml.converter import convert

    try:
        root = ElementTree.fromstring(convert(" ".join(latex.split()), display=display))
    except Exception:  # where the converter fails, the reader sees the formula
        return f"<code>{html.escape(latex.strip())}</code>"
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
    for element in list(root.iter()):
        _mend(element)
    for element in list(root.iter()):
        if element.tag in _ROWS:
            _space_functions(element)
    root.set("xmlns", _SPACE)
    return ElementTree.tostring(root, encoding="unicode")


def _mend(element: Element) -> None:
    """Say what MathML Core needs: names of functions are identifiers, bars keep their size, spaces have numbers."""
    text = element.text or ""
    if element.tag == "mo" and text.isascii() and text.isalpha():
        element.tag = "mi"
        element.attrib.clear()
        if len(text) == 1:
            element.set("mathvariant", "normal")
    elif element.tag == "mo" and text in ("‖", "|") and "fence" not in element.attrib:
        element.attrib.update(stretchy="false", lspace="0", rspace="0")
    elif element.tag == "mo" and text == "∞":
        element.tag = "mi"
    elif element.tag == "mi" and text == "~":
        element.tag, element.text = "mo", "\N{TILDE OPERATOR}"  # as is distributed
    elif element.tag == "mspace" and element.get("width") == "negativethinmathspace":
        element.set("width", f"-{_THIN}")


def _space_functions(row: Element) -> None:
    """Put thin spaces between a function's name and what is beside it without an operator: 2 sin x."""
    children = list(row)
    result: list[Element] = []
    for place, child in enumerate(children):
        name = _is_name(child)
        if name and place and _is_factor(children[place - 1]) and not _is_name(children[place - 1]):
            result.append(Element("mspace", width=_THIN))
        result.append(child)
        if name and place + 1 < len(children) and _is_factor(children[place + 1]):
            result.append(Element("mspace", width=_THIN))
    row[:] = result


def _is_name(element: Element) -> bool:
    base = element[0] if element.tag in _SCRIPTS and len(element) else element
    text = base.text or ""
    return base.tag == "mi" and len(text) > 1 and text.isalpha()


def _is_factor(element: Element) -> bool:
    """Say whether an element is neither an operator, nor a space, nor in brackets."""
    if element.tag == "mrow" and len(element):
        return element[0].tag != "mo"
    base = element[0] if element.tag in _SCRIPTS and len(element) else element
    return base.tag not in ("mo", "mspace")
