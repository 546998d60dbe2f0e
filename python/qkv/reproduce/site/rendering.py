"""The templates of the pages, filled in."""

import functools
from pathlib import Path
from typing import Any

from ..._words.errors import counted
from ..output import GENERATOR

_MARKS = {"ok": "✓", "failed": "✗", "skipped": "–"}


@functools.cache
def _environment() -> Any:
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.globals.update(
        generator=GENERATOR,
        counted=counted,
        mark=lambda state: _MARKS.get(state, "?"),
    )
    return environment


def render(name: str, **contents: Any) -> str:
    """Return the page of a template."""
    return str(_environment().get_template(name).render(**contents))
