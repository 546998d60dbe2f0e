"""What is on the index: documents, their notebooks and experiments, what failed, and how it was made."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ..registry import (
    ALL,
    Experiment,
    documents,
    experiments,
    levels,
    main_document,
    named_in_headings,
    sources,
    where_to_begin,
)
from ..report import Entry, build, ids_of, tally
from ..results import Result
from .pages import is_check


def contents(found: Sequence[Result], about: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the template of the index needs; ``groups`` are the documents, ``order`` the notebooks."""
    ids = {record["id"] for result in found for record in result.records}
    headings = {result.path.name: named_in_headings(result.notebook.cells) for result in found}
    ids.update(id for named in headings.values() for id in named)
    known = experiments()
    wanted = [id for id in known if id in ids] + sorted(ids - set(known))
    report = build(found, wanted)
    entries = {entry.experiment.id: entry for entry in report.entries}
    books = [_book(result, headings, entries) for result in found]
    titles = {**documents(), "": ALL}
    groups = [_group(key, title, books) for key, title in titles.items()]
    drawn = {picture.name for result in found for picture in result.pictures}
    states = Counter(entry.state for entry in report.entries)
    return {
        "groups": [group for group in groups if group["notebooks"]],
        "order": [book for key in titles for book in books if book["document"] == key],
        "entries": entries,
        "report": report,
        "states": {one: states.get(one, 0) for one in ("ok", "failed", "skipped")},
        "checks": Counter(record["state"] for record in report.records),
        "sources": Counter(
            record.get("source", "own") for record in report.records if record["state"] != "skipped"
        ),
        "documents": sources(),
        "begin": [
            {"book": book, **about, "shown": about["picture"] in drawn}
            for name, about in where_to_begin().items()
            for book in books
            if book["stem"] == name
        ],
        "figures": report.pictures,
        "errors": [book for book in books if book["result"].error],
        "missing": [experiment for id, experiment in known.items() if id not in ids],
        "machine": about["machine"],
        "seconds": about["seconds"],
        "dates": _dates(found),
    }


def _book(result: Result, headings: Mapping[str, list[str]], entries: Mapping[str, Entry]) -> dict[str, Any]:
    name = result.path.name
    first = {id: book for book, named in reversed(list(headings.items())) for id in named}
    shown = [id for id in headings[name] if first[id] == name]
    shown += [id for id, entry in entries.items() if id not in first and entry.notebooks[:1] == [name]]
    shown.sort(key=list(entries).index)
    return {
        "result": result,
        "stem": result.path.stem,
        "title": _title(result),
        "document": main_document(headings[name]),
        "rows": [_row(entries[id], result, f"#{id}" if id in headings[name] else "") for id in shown],
        "level": levels().get(result.path.stem, ""),
        "minutes": _minutes(result),
        "seconds": result.made.get("seconds"),
    }


def _row(entry: Entry, result: Result, anchor: str) -> dict[str, Any]:
    experiment: Experiment = entry.experiment
    words = [experiment.id, experiment.title, _title(result), *(r["what"] for r in entry.records)]
    own = [picture for picture in result.pictures if experiment.id in ids_of(picture)]
    return {
        "id": experiment.id,
        "anchor": anchor,  # on the page, where a heading names the experiment
        "title": experiment.title or experiment.id,
        "entry": entry,
        "thumbnail": f"figures/{own[0].name}.png" if own else None,
        "search": " ".join(words).lower(),
    }


def _minutes(result: Result) -> int:
    """Return how long a person reads: 180 words or 15 lines of code a minute, without the code that checks."""
    minutes = 0.0
    for cell in result.notebook.cells:
        if cell.cell_type == "markdown":
            minutes += len(cell.source.split()) / 180
        elif cell.cell_type == "code" and not is_check(cell):
            minutes += len(cell.source.splitlines()) / 15
    return max(1, round(minutes))


def _title(result: Result) -> str:
    for cell in result.notebook.cells:
        for line in cell.source.splitlines() if cell.cell_type == "markdown" else ():
            if line.startswith("# "):
                return str(line[2:].strip())
    return result.path.stem


def _group(key: str, title: str, books: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return a document with its notebooks, and those of others that treat some of its experiments."""
    own, others = [], []
    for book in books:
        rows = [row for row in book["rows"] if row["entry"].experiment.document == key]
        if book["document"] == key:
            own.append({**book, "rows": rows, "whole": True})
        elif rows:
            others.append({**book, "rows": rows, "whole": False})
    inside = [row["entry"] for book in own + others for row in book["rows"]]
    return {"key": key, "title": title, "notebooks": own + others, "tally": tally(inside), "all": len(inside)}


def _dates(found: Sequence[Result]) -> str:
    """Return the date of the notebooks' runs, or the first and the last."""
    dates = sorted({str(result.made["date"]) for result in found if result.made.get("date")})
    days = sorted({date[:10] for date in dates})
    if not dates:
        return ""
    return dates[-1] if len(days) == 1 else f"{days[0]} to {days[-1]}"
