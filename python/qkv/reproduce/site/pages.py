"""What is on the page of a notebook: prose, code and outputs in order, checks and figures side by side."""

import functools
import re
import struct
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from ..arrays import DATA, stored
from ..display import MIME
from ..registry import cells_with_ids
from ..report import Entry, ids_of, worst
from ..results import Picture, Result, is_figure
from .prose import Headings, reader, with_formulas

_SCALE = 0.65  # of a figure's dots on the page, where there is room; screens with more dots show all of them
_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_LIMITS = (("rtol", "relative"), ("atol", "absolute"))
_SOURCES = {
    "document": "the document prints",
    "pytorch": "PyTorch computes (stored)",
    "hand": "counted by hand",
}


def contents(
    result: Result, entries: Mapping[str, Entry], pages: Collection[str] | None = None
) -> dict[str, Any]:
    """Return what the template of a notebook's page needs; `pages` are the notebooks that have one."""
    headings = Headings({id: entry.state for id, entry in entries.items()})
    to_html = reader(headings, pages)
    pictures, numbers = iter(result.pictures), iter(range(10**6))
    blocks: list[dict[str, Any]] = []
    rows: list[dict[str, Any]] = []
    for cell, named in cells_with_ids(result.notebook.cells):
        if cell.cell_type == "markdown":
            blocks.append({"kind": "prose", "html": to_html(cell.source)})
        elif cell.cell_type == "code":
            checks = is_check(cell)
            if not checks or not blocks or blocks[-1]["kind"] != "code" or blocks[-1]["check"]:
                blocks.append(
                    {"kind": "code", "number": cell.execution_count, "html": "", "check": "", "outputs": []}
                )
            block = blocks[-1]
            block["check" if checks else "html"] = highlighted(cell.source)
            for row in _add_outputs(block["outputs"], cell, pictures, numbers, entries):
                row["own"] = named == [row["id"]]
                rows.append(row)
    sections = [{**section, "state": _state(section["ids"], entries)} for section in headings.sections]
    apart = {state: [row for row in rows if row["state"] == state] for state in ("failed", "skipped")}
    return {"blocks": blocks, "sections": sections, "failures": apart["failed"], "skipped": apart["skipped"]}


def _state(ids: Iterable[str], entries: Mapping[str, Entry]) -> str:
    states = {entries[id].state for id in ids if id in entries}
    return worst(states) if states else ""


def is_check(cell: Any) -> bool:
    """Say whether a cell holds nothing but checks; its code is folded."""
    return "check" in cell.metadata.get("tags", ())


def _add_outputs(
    groups: list[dict[str, Any]], cell: Any, pictures: Any, numbers: Any, entries: Mapping[str, Entry]
) -> list[dict[str, Any]]:
    """Add a cell's outputs in order and return its checks; neighbours of figures and checks are in one group."""
    rows: list[dict[str, Any]] = []
    for output in cell.get("outputs", ()):
        data = output.get("data", {})
        if MIME in data or is_figure(output):
            if not groups or groups[-1]["kind"] != "results":
                groups.append({"kind": "results", "figures": [], "checks": []})
            group = groups[-1]
            if MIME in data:
                row = check_row({**data[MIME], "cell": cell.execution_count}, next(numbers))
                rows.append(row)
                if data[MIME]["how"] != "picture" or row["state"] != "ok":  # else the caption has a tick
                    group["checks"].append(row)
            else:
                group["figures"].append(figure(next(pictures), entries))
        elif "text/html" in data:
            groups.append({"kind": "html", "text": data["text/html"]})
        else:
            text = output.get("text") or data.get("text/plain", "")
            if output.output_type == "error":
                text = "\n".join(output.get("traceback", ()))
            text = _ANSI.sub("", text).strip("\n")
            if text:
                groups.append({"kind": output.output_type, "text": text})
    pictures_hold = (
        "failed" if any(row["how"] == "picture" and row["state"] == "failed" for row in rows) else "ok"
    )
    for group in groups:
        for one in group.get("figures", ()):
            one.setdefault("state", pictures_hold)
        sources = {row["source"] for row in group.get("checks", ()) if row["state"] != "skipped"}
        group["source"] = sources.pop() if len(sources) == 1 else "expected"
    return rows


def check_row(record: Mapping[str, Any], number: int) -> dict[str, Any]:
    """Return one check as the page shows it: both sides in numbers, and how far they are apart."""
    sides = record.get("values") or {}
    row = {
        "number": number,
        "id": record["id"],
        "what": record["what"],
        "source": _SOURCES.get(record.get("source", ""), "expected"),
        "state": record["state"],
        "how": record["how"],
        "cell": record.get("cell"),
        "comparison": comparison(record),
        "reason": "",
    }
    for side in ("expected", "got"):
        shown = sides.get(side)
        basic = {"text": str(record[side]), "form": "", "part": "", "numbers": bool(shown)}
        row[side] = {**basic, **(shown or {})}
    if row["state"] == "failed" and sides:
        row["reason"] = f"expected {record['expected']}, got {record['got']}"
    return row


def _short(number: float) -> str:
    """Write 1e-09 as 1e-9."""
    return f"{number:.2g}".replace("e-0", "e-")


def comparison(record: Mapping[str, Any]) -> list[str]:
    """Say how a check compared, and with which result, in parts that have a line each or one together."""
    difference = record.get("difference")
    if record["how"] == "tolerance" and difference:
        limits = [f"{_short(difference[kind])} {word}" for kind, word in _LIMITS if difference[kind]]
        signs = ["allowed", *["+"] * len(limits)]
        allowed = [f"{sign} {limit}" for sign, limit in zip(signs, limits or ["none"], strict=False)]
        return [f"largest difference {_short(difference['largest'])},", *allowed]
    words = {
        "exact": "every entry the same" if "difference" in record else "the same",
        "printed": "the same digits",
        "shape": "the same shape",
        "property": "a property",
        "raises": "an error",
        "picture": "read back from the figure",
        "skipped": "not computed here",
    }
    plain = {"exact": "exactly equal?", "printed": "the same digits?", "shape": "the same shape?"}
    ok = record["state"] == "ok"
    return [(words if ok else {**words, **plain}).get(record["how"], str(record["how"]))]


def figure(picture: Picture, entries: Mapping[str, Entry]) -> dict[str, Any]:
    """Return a figure with its size on the page and the words below it."""
    width, height = struct.unpack(">II", picture.png[16:24])
    ids = ids_of(picture)
    named = picture.name.startswith("F-")  # of several experiments together it has no title
    title = entries[ids[0]].experiment.title if ids and ids[0] in entries and not (named and ids[1:]) else ""
    label = picture.name if named else ids[0] if ids else ""
    return {
        "file": f"figures/{picture.name}.png",
        "width": round(width * _SCALE),
        "height": round(height * _SCALE),
        "wide": width > 1400,
        "label": label,
        "title": title,
        "caption": with_formulas(captions().get(picture.name, "")),
        "alt": ". ".join(part.rstrip(".") for part in [title, picture.caption] if part) or picture.name,
        "photo": "T-VIT" in ids,
    }


@functools.cache
def captions() -> dict[str, str]:
    """Return a sentence for each picture, by name, that says what to see."""
    return dict(stored(DATA / "captions.json"))


@functools.lru_cache(maxsize=2048)
def highlighted(source: str) -> str:
    """Return Python as HTML with classes for its tokens."""
    import pygments  # type: ignore[import-untyped]
    from pygments.formatters import HtmlFormatter  # type: ignore[import-untyped]
    from pygments.lexers import PythonLexer  # type: ignore[import-untyped]

    formatter: Any = HtmlFormatter(nowrap=True)
    return str(pygments.highlight(source, PythonLexer(stripnl=True), formatter)).rstrip("\n")
