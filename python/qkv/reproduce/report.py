"""What a run has shown: the records of every experiment, the table and the summary."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from . import arrays
from .checks import ID
from .execute import Picture, Result
from .registry import Experiment, experiments


@dataclass
class Entry:
    """One experiment with everything that was found for it."""

    experiment: Experiment
    notebooks: list[str]
    records: list[dict[str, Any]]
    pictures: list[Picture]

    @property
    def state(self) -> str:
        """The worst of the checks: failed, then skipped, then ok."""
        states = {record["state"] for record in self.records}
        return next(state for state in ("failed", "skipped", "ok") if state in states)

    @property
    def ok(self) -> bool:
        """Whether no check failed."""
        return self.state != "failed"


@dataclass
class Report:
    """A whole run: its entries in order, and the errors of notebooks that did not come to their end."""

    entries: list[Entry]
    errors: dict[str, str]

    @property
    def records(self) -> list[dict[str, Any]]:
        return [record for entry in self.entries for record in entry.records]

    @property
    def ok(self) -> bool:
        return not self.errors and all(entry.ok for entry in self.entries)

    def summary(self) -> str:
        """Say the result in one line."""
        failed = sum(record["state"] == "failed" for record in self.records)
        skipped = sum(entry.state == "skipped" for entry in self.entries)
        made = sum(record["state"] != "skipped" for record in self.records)
        checks = f"{made} checks, {failed} failed" if failed else f"{made} checks, all ok"
        if skipped:
            checks += f", {skipped} experiment{'s' if skipped > 1 else ''} skipped"
        pictures = len({picture.name for entry in self.entries for picture in entry.pictures})
        text = f"{len(self.entries)} experiments, {checks}, {pictures} figures"
        if self.errors:
            text += f"; {len(self.errors)} notebook{'s' if len(self.errors) > 1 else ''} raised an exception"
        return text

    def table(self, width: int = 160) -> str:
        """Give all checks as a table: id, what, expected, got, ok."""
        heads = ("id", "what", "expected", "got", "ok")
        rows = [
            heads,
            *(
                (
                    r["id"],
                    r["what"],
                    r["expected"],
                    r["got"],
                    "FAIL" if r["state"] == "failed" else r["state"],
                )
                for r in self.records
            ),
        ]
        widths = [max(len(row[column]) for row in rows) for column in range(5)]
        room = max(width - widths[0] - 4 - 8, 60)
        widths[1:4] = _share(widths[1:4], room)
        lines = [
            "  ".join(_fit(text, size) for text, size in zip(row, widths, strict=True)).rstrip()
            for row in rows
        ]
        lines.insert(1, "  ".join("-" * size for size in widths))
        return "\n".join(lines)


def build(results: Sequence[Result], wanted: Sequence[str]) -> Report:
    """Sort what the notebooks gave by experiment; one that made no check gets a failing record instead."""
    known = experiments()
    entries = []
    for id in wanted:
        records = [record for result in results for record in result.records if record["id"] == id]
        pictures = {p.name: p for result in results for p in result.pictures if id in _ids(p)}
        names = sorted({record["notebook"] for record in records})
        if not records:
            got = "no notebook made one" if results else "no notebook treats it"
            records = [
                {
                    "id": id,
                    "what": "there is a check",
                    "how": "coverage",
                    "expected": "at least one check",
                    "got": got,
                    "state": "failed",
                    "notebook": "",
                }
            ]
        entries.append(
            Entry(
                known.get(id, Experiment(id, "", id.split("-")[0])), names, records, list(pictures.values())
            )
        )
    return Report(entries, {result.path.name: result.error for result in results if result.error})


def _ids(picture: Picture) -> list[str]:
    spec = arrays.figures().get(picture.name)
    return ID.findall(spec["experiment"]) if spec else picture.ids


def _share(widths: list[int], room: int) -> list[int]:
    """Shorten the widest columns until all of them fit."""
    widths = list(widths)
    while sum(widths) > room:
        widths[widths.index(max(widths))] -= 1
    return widths


def _fit(text: str, size: int) -> str:
    return text.ljust(size) if len(text) <= size else text[: size - 3] + "..."
