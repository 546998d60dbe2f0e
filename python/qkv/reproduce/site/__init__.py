"""The site of results: an index, a page for each notebook, its figures and files; nothing of it asks a network."""

import base64
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .. import output, results
from . import index, pages
from .rendering import render

ASSETS = Path(__file__).parent / "assets"
FONT = Path(__file__).parent / "math.woff"


def names(notebooks: Sequence[Path]) -> list[str]:
    """List the files that a run of these notebooks writes, except for figures."""
    assets = ["assets/math.css", *(f"assets/{path.name}" for path in sorted(ASSETS.iterdir()))]
    of_notebooks = [f"notebooks/{path.stem}{ending}" for path in notebooks for ending in (".ipynb", ".html")]
    return [output.INDEX, results.NAME, *assets, *of_notebooks]


def write(folder: Path, found: Sequence[results.Result], about: Mapping[str, Any]) -> None:
    """Write the whole site of these results to an empty folder, the notebooks themselves among it."""
    import nbformat

    jupyter: Any = nbformat
    for name in ("notebooks", "figures"):
        (folder / name).mkdir()
    shutil.copytree(ASSETS, folder / "assets")
    (folder / "assets" / "math.css").write_text(font_style(), encoding="utf-8")
    contents = index.contents(found, about)
    order = contents["order"]
    for place, book in enumerate(order):
        result: results.Result = book["result"]
        jupyter.write(result.notebook, folder / "notebooks" / result.path.name)
        for picture in result.pictures:
            (folder / "figures" / f"{picture.name}.png").write_bytes(picture.png)
        before, after = (
            order[place - 1] if place else None,
            order[place + 1] if place + 1 < len(order) else None,
        )
        page = pages.contents(result, contents["entries"], {one["stem"] for one in order})
        text = render("notebook.html", root="../", book=book, before=before, after=after, **page)
        (folder / "notebooks" / f"{result.path.stem}.html").write_text(
            text, encoding="utf-8", errors="backslashreplace"
        )
    (folder / output.INDEX).write_text(render("index.html", root="", **contents), encoding="utf-8")


def font_style() -> str:
    """Return the font of formulas as a style sheet: browsers refuse a font that is a local file of another folder."""
    data = base64.b64encode(FONT.read_bytes()).decode()
    return (
        "/* Licence: math-font-license.txt */\n"
        f'@font-face {{ font-family: "QKV Math"; src: url("data:font/woff;base64,{data}") format("woff"); }}\n'
    )
