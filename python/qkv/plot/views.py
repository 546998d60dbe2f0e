"""A drawing with a script that changes it: a part of a notebook, and a web page of its own."""

from __future__ import annotations

import hashlib
import html
import json
import os
from pathlib import Path
from typing import Any

from .._atomic import write_file

_FOLDER = Path(__file__).parent
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"


class View:
    """What a notebook shows and `save` writes; subclasses name the script, and say what it gets and what is drawn."""

    script = ""
    title: str | None = None

    def _data(self) -> dict[str, Any]:
        """Give what the script reads, as JSON has it."""
        raise NotImplementedError

    def _drawing(self) -> str:
        """Give the picture that the script changes, as SVG."""
        raise NotImplementedError

    def _repr_html_(self) -> str:
        """Give the part of a page that shows it, with style and script."""
        text = json.dumps(self._data(), separators=(",", ":"))
        name = "qkv-" + hashlib.sha256((text + str(self.title)).encode()).hexdigest()[:12]
        style = (_FOLDER / "view.css").read_text(encoding="utf-8").replace("#ID", f"#{name}")
        code = (_FOLDER / f"{self.script}.js").read_text(encoding="utf-8")
        heading = "" if self.title is None else f"<h3>{html.escape(self.title)}</h3>"
        return (
            f'<div id="{name}" class="qkv-heads"><style>{style}</style>{heading}<div class="controls"></div>'
            f'{self._drawing()}<script type="application/json">{_for_script(text)}</script>'
            f"<script>(function(root){{{code}}})(document.getElementById({json.dumps(name)}));</script></div>"
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a whole page, script included, that needs neither Python nor a network.

        Parameters
        ----------
        path : path

        Raises
        ------
        OSError
            If the file cannot be written.
        """
        page = (
            '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
            f"<title>{html.escape(self.title or type(self).__name__)}</title>"
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
            '<meta name="viewport" content="width=device-width"></head>\n'
            f"<body>{self._repr_html_()}</body></html>\n"
        )
        write_file(path, lambda file: file.write(page.encode("utf-8")))


def _for_script(text: str) -> str:
    """Keep JSON from ending the element that it stands in."""
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
