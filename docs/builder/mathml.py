"""Shows formulas as MathML, which browsers draw themselves: no script and no network."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging

from qkv.reproduce.site.math_markup import mathml

LOG = logging.getLogger(__name__)


def formula(node: nodes.Element, display: str) -> str:
    """Return a formula as MathML; one that cannot be converted is a warning."""
    text = mathml(node.astext(), display)
    if text.startswith("<code>"):
        LOG.warning("a formula could not be converted: %s", node.astext(), location=node)
    return text


def inline(translator: Any, node: nodes.Element) -> None:
    """Write a formula in a line of text."""
    translator.body.append(formula(node, "inline"))
    raise nodes.SkipNode


def block(translator: Any, node: nodes.Element) -> None:
    """Write a formula on its own."""
    translator.body.append(f'<div class="formula">{formula(node, "block")}</div>\n')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the renderer."""
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
