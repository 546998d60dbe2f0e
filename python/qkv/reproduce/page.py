"""The page of results: every figure beside its experiment's checks, in one file that needs nothing else."""

import base64
import datetime
import itertools
from html import escape
from pathlib import Path
from typing import Any

from .execute import Picture
from .output import GENERATOR
from .registry import documents
from .report import Entry, Report


def render(report: Report) -> str:
    """Give the page as HTML."""
    groups = {
        key: list(entries)
        for key, entries in itertools.groupby(report.entries, lambda e: e.experiment.document)
    }
    titles = documents()
    verdict_state = "ok" if report.ok else "failed"
    verdict = (
        f'<span class="{_colour(verdict_state)}">{_mark(verdict_state)}</span> {escape(report.summary())}'
    )
    errors = "".join(
        f'<p class="error bad"><b>{escape(name)}</b> {escape(text)}</p>'
        for name, text in report.errors.items()
    )
    sections = "".join(_section(key, titles.get(key, key), entries) for key, entries in groups.items())
    cards = "".join(_card(key, titles.get(key, key), entries) for key, entries in groups.items())
    style = (Path(__file__).parent / "page.css").read_text(encoding="utf-8")
    today = datetime.datetime.now().astimezone().strftime("%Y-%m-%d %H:%M")
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">{GENERATOR}'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>qkv: the documents reproduced</title>"
        f"<style>{style}</style></head>\n<body><header><h1>The attention documents, reproduced</h1>"
        f'<p class="soft">qkv {escape(_version())}, {today}</p><p class="verdict">{verdict}</p>'
        f"<nav>{cards}</nav></header>"
        f"\n<main>{errors}{sections}</main></body></html>\n"
    )


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("qkv")
    except PackageNotFoundError:
        return "from source"


def _card(key: str, title: str, entries: list[Entry]) -> str:
    good = sum(entry.ok for entry in entries)
    return (
        f'<a href="#{key}"><b>{key}</b> {escape(title)}<br><small>{good} of {len(entries)} experiments, '
        f"{sum(len(e.records) for e in entries)} checks</small>"
        f'<div class="bar"><i style="width:{100 * good / len(entries):.1f}%"></i></div></a>'
    )


def _section(key: str, title: str, entries: list[Entry]) -> str:
    articles = "".join(map(_article, entries))
    return f'<section id="{key}"><h2>{key} &middot; {escape(title)}</h2>\n{articles}</section>'


def _article(entry: Entry) -> str:
    links = ", ".join(f'<a href="notebooks/{escape(name)}">{escape(name)}</a>' for name in entry.notebooks)
    rows = "".join(map(_row, entry.records))
    return (
        f'<article id="{entry.experiment.id}" class="{"passed" if entry.ok else "failed"}">'
        f'<div class="title">'
        f'<span class="{_colour(entry.state)}">{_mark(entry.state)}</span><code>{entry.experiment.id}</code>'
        f"<h3>{escape(entry.experiment.title)}</h3><small>{links}</small></div>"
        f'<div class="body">{"".join(map(_figure, entry.pictures))}<div class="checks"><table>'
        f"<tr><th></th><th>what</th><th>how</th><th>expected</th><th>got</th></tr>{rows}"
        "</table></div></div></article>\n"
    )


def _figure(picture: Picture) -> str:
    data = base64.b64encode(picture.png).decode()
    return (
        f'<figure><img alt="{escape(picture.name)}" src="data:image/png;base64,{data}">'
        f"<figcaption>{escape(picture.name)}</figcaption></figure>"
    )


def _row(record: dict[str, Any]) -> str:
    cells = "".join(f"<td>{escape(str(record[name]))}</td>" for name in ("what", "how", "expected", "got"))
    return f'<tr><td class="{_colour(record["state"])}">{_mark(record["state"])}</td>{cells}</tr>'


def _mark(state: str) -> str:
    return {"ok": "&#10003;", "failed": "&#10007;", "skipped": "&#8211;"}[state]


def _colour(state: str) -> str:
    return {"ok": "good", "failed": "bad", "skipped": "skipped"}[state]
