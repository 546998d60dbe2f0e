"""The page that ``qkv explain`` writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..._atomic import write_file
from ..views.explanation.walk import explain
from ..views.view import page
from .look import generator, page_file, read_text


def explain_model(folder: str, text: str, *, target: str | None, output: str | None, **chosen: Any) -> Path:
    """Write the page of one pass of a model over a text; return its path.

    A decoder after an encoder reads `target`, or what the model makes of the text; `side` says which is shown.
    """
    name = Path(folder).resolve().stem
    path = page_file("explain", output, f"{name}-explained")
    model, tokenizer, rows = read_text("explain", folder, text, target)
    title = f"one pass of {name}"
    view = explain(
        model, tuple(rows) if len(rows) == 2 else rows[0], tokenizer=tokenizer, title=title, **chosen
    )
    whole = page(title, view._repr_html_(), head=generator("explain"))
    write_file(path, lambda file: file.write(whole.encode("utf-8", "replace")))
    return path
