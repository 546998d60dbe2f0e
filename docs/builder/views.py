"""Runs the lines of code in docs/views.md and puts the view that each leaves in the name ``view`` after them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[1] / "views.md"
BLOCK = re.compile(r"^```python\n(?P<code>[^`]*?)^```\n(?P<shown>\n<!-- view -->\n)?", re.M | re.S)


def page() -> str:
    """Return the page with its views."""
    names: dict[str, Any] = {}

    def run(block: re.Match[str]) -> str:
        exec(compile(block["code"], "views", "exec"), names)
        if not block["shown"]:
            return block[0]
        html = names["view"]._repr_html_()
        return f"```python\n{block['code']}```\n\n````{{raw}} html\n{html}\n````\n"

    return BLOCK.sub(run, PAGE.read_text(encoding="utf8"))
