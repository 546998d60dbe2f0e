"""What a run has shown: the checks of every experiment, its state, and the summary."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from .._words.errors import counted
from . import arrays
from .checks import ID
from .compare import record
from .registry import Experiment, documents, experiments
from .results import Picture, Result

STATES = ("failed", "skipped", "ok")


@dataclass
class Entry:
    """One experiment with everything that was found for it."""

    experiment: Experiment
    notebooks: list[str]
    records: list[dict[str, Any]]
    pictures: list[Picture]

    @property
    def state(self) -> str:
        """The worst state among the checks: failed, then skipped, then ok."""
        return worst(record["state"] for record in self.records)

    @property
    def ok(self) -> bool:
        """Whether no check failed."""
        return self.state != "failed"


@dataclass
class Report:
    """A whole run: its entries in order, and the errors of notebooks that did not come to their end."""

    entries: list[Entry]
    errors: dict[str, str]
    seconds: float | None = None
    cells: dict[str, int | None] = field(default_factory=dict)  # where the errors were

    @property
    def records(self) -> list[dict[str, Any]]:
        return [record for entry in self.entries for record in entry.records]

    @property
    def failures(self) -> list[dict[str, Any]]:
        return [record for record in self.records if record["state"] == "failed"]

    @property
    def skipped(self) -> dict[str, str]:
        """What was not computed, by experiment, with the reason."""
        found = [record for record in self.records if record["state"] == "skipped"]
        return {f"{record['id']} {record['what']}": record["got"] for record in found}

    @property
    def ok(self) -> bool:
        return not self.errors and all(entry.ok for entry in self.entries)

    @property
    def pictures(self) -> int:
        """The number of figures of the experiments."""
        return len({picture.name for entry in self.entries for picture in entry.pictures})

    def by_document(self) -> dict[str, list[Entry]]:
        """Return the entries of each document that has some, in order."""
        groups: dict[str, list[Entry]] = {key: [] for key in documents()}
        for entry in self.entries:
            groups.setdefault(entry.experiment.document, []).append(entry)
        return {key: entries for key, entries in groups.items() if entries}

    def summary(self) -> str:
        """Say the result in one line."""
        text = f"{tally(self.entries)}, {counted(self.pictures, 'figure')}"
        if self.errors:
            text += f"; {counted(len(self.errors), 'notebook')} did not come to the end"
        return text


def worst(states: Any) -> str:
    """Return the worst of some states; ok if there are none."""
    found = set(states)
    return next((one for one in STATES if one in found), "ok")


def tally(entries: Sequence[Entry]) -> str:
    """Count experiments and checks, and those that failed or were skipped."""
    states = [record["state"] for entry in entries for record in entry.records]
    failed, made = states.count("failed"), len(states) - states.count("skipped")
    skipped = sum(entry.state == "skipped" for entry in entries)
    text = f"{counted(len(entries), 'experiment')}, {counted(made, 'check')}, "
    text += f"{failed} failed" if failed else "all ok" if made else "nothing run"
    return text + (f", {counted(skipped, 'experiment')} skipped" if skipped else "")


def build(results: Sequence[Result], wanted: Sequence[str]) -> Report:
    """Sort what the notebooks gave by experiment; one that made no check gets a failing record instead."""
    known = experiments()
    entries = []
    for id in wanted:
        records = [made for result in results for made in result.records if made["id"] == id]
        pictures = {p.name: p for result in results for p in result.pictures if id in ids_of(p)}
        names = sorted({made["notebook"] for made in records})
        got = "no notebook made one" if results else "no notebook treats it"
        missing = record(id, "there is a check", "coverage", "at least one check", got, "failed")
        records = records or [{**missing, "notebook": "", "cell": None}]
        experiment = known.get(id, Experiment(id, "", id.split("-")[0]))
        entries.append(Entry(experiment, names, records, list(pictures.values())))
    failed = [result for result in results if result.error]
    errors = {result.path.name: str(result.error) for result in failed}
    return Report(entries, errors, cells={result.path.name: result.cell for result in failed})


def ids_of(picture: Picture) -> list[str]:
    """Return the experiments that a figure belongs to."""
    spec = arrays.figures().get(picture.name)
    return ID.findall(spec["experiment"]) if spec else picture.ids
