"""Markdown cells as HTML: headings with the experiments that they name, tables, and formulas as MathML."""

import html
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..checks import ID
from .math_markup import mathml

_LEADING = re.compile(rf"(?:(?:{ID.pattern})(?:, | and |: | )?)+")
_NOTEBOOK = re.compile(r"([\w-]+)\.ipynb(#.*)?")
_DISPLAY = r"\$\$(?P<{}>[\s\S]+?)\$\$"
_CLOSED = re.compile(r'(<math display="inline"(?:(?!</math>).)*</math>)([,.;:)?]+)', re.DOTALL)
_together = r'<span class="nobreak">\1\2</span>'  # no line begins with the comma after a formula
_INLINE = r"\$(?!\s)(?P<inline_math_text>[^$]+?)(?<!\s)\$"


@dataclass
class Headings:
    """The headings of a page: their anchors, and for the list of sections title, anchor and experiments."""

    states: Mapping[str, str]  # of the experiments
    sections: list[dict[str, Any]] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)

    def add(self, text: str, level: int) -> str:
        """Return a heading as HTML; `text` is what is in it, as HTML."""
        ids = list(dict.fromkeys(ID.findall(text)))
        title = _LEADING.sub("", text, count=1) if _LEADING.match(text) else text
        title = title[:1].upper() + title[1:] or text
        anchor = self._anchor(ids[0] if ids else re.sub(r"\W+", "-", _plain(title).lower()).strip("-"))
        others = "".join(f'<span id="{self._anchor(id)}"></span>' for id in ids[1:])
        if level == 1:
            return f"<h1>{title}</h1>\n"
        labels = "".join(
            f'<span class="label {self.states.get(id, "ok")}">{html.escape(id)}</span>' for id in ids
        )
        self.sections.append({"anchor": anchor, "title": _plain(title), "ids": ids, "level": level})
        return f'<h{level} id="{anchor}">{others}{labels}<a class="anchor" href="#{anchor}">{title}</a></h{level}>\n'

    def _anchor(self, wanted: str) -> str:
        anchor, number = wanted, 1
        while anchor in self.anchors:
            number += 1
            anchor = f"{wanted}-{number}"
        self.anchors.add(anchor)
        return anchor


def reader(headings: Headings, pages: Collection[str] | None = None) -> Callable[[str], str]:
    """Return the function that turns the Markdown of one notebook into HTML.

    Links to notebooks that are not among the site's `pages` become text.
    """
    import mistune

    base: Any = mistune.HTMLRenderer

    class Renderer(base):  # type: ignore[misc]
        """HTML with the page's own headings, links and formulas."""

        def text(self, text: str) -> str:
            return ID.sub(r'<span class="nobreak">\g<0></span>', html.escape(text, quote=False))

        def heading(self, text: str, level: int, **attributes: Any) -> str:
            return headings.add(re.sub(r'<span class="nobreak">(.*?)</span>', r"\1", text), level)

        def link(self, text: str, url: str, title: str | None = None) -> str:
            notebook = _NOTEBOOK.fullmatch(url)
            if notebook:
                if pages is not None and notebook[1] not in pages:
                    return text
                place = notebook[2] or (f"#{_plain(text)}" if ID.fullmatch(_plain(text)) else "")
                url = f"{notebook[1]}.html{place}"
            return f'<a href="{html.escape(url)}">{text}</a>'

        def table(self, text: str) -> str:
            return f'<div class="wide"><table>{text}</table></div>\n'

        def display_math(self, text: str) -> str:
            return f'<span class="formula">{mathml(text, "block")}</span>'

        def block_math(self, text: str) -> str:
            return f'<div class="formula">{mathml(text, "block")}</div>\n'

        def inline_math(self, text: str) -> str:
            return mathml(text, "inline")

        def paragraph(self, text: str) -> str:
            return f"<p>{_CLOSED.sub(_together, text)}</p>\n"

    plugins: Any = ["table", "strikethrough", _math]
    markdown: Any = mistune.create_markdown(renderer=Renderer(escape=True), plugins=plugins)
    return lambda source: str(markdown(source))


def _math(markdown: Any) -> None:
    """Teach a Markdown parser ``$...$`` and ``$$...$$``."""

    def inline(kind: str) -> Callable[[Any, Any, Any], int]:
        def parse(parser: Any, match: Any, state: Any) -> int:
            state.append_token({"type": kind, "raw": match.group(f"{kind}_text")})
            return int(match.end())

        return parse

    def block(parser: Any, match: Any, state: Any) -> int:
        state.append_token({"type": "block_math", "raw": match.group("block_math_text")})
        return int(match.end())

    markdown.block.register(
        "block_math", r"^ {0,3}" + _DISPLAY.format("block_math_text"), block, before="list"
    )
    markdown.inline.register(
        "display_math", _DISPLAY.format("display_math_text"), inline("display_math"), before="link"
    )
    markdown.inline.register("inline_math", _INLINE, inline("inline_math"), before="link")


def with_formulas(text: str) -> str:
    """Return plain text with ``$formulas$`` in it as HTML."""
    parts = text.split("$")
    if len(parts) % 2 == 0:  # a lone sign is not a formula's
        return html.escape(text)
    return "".join(
        mathml(part, "inline") if place % 2 else html.escape(part) for place, part in enumerate(parts)
    )


def _plain(text: str) -> str:
    """Return the text of a piece of HTML."""
    return html.unescape(re.sub(r"<[^>]+>", "", text))
