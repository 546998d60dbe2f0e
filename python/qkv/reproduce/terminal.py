"""What ``qkv reproduce`` says while it runs and when it has finished."""

import sys
from typing import Any, TextIO

from .._words.errors import counted
from .display import found
from .registry import documents
from .report import Report, tally
from .results import Result

_MARKS = {"ok": "ok", "failed": "FAILED", "skipped": "skipped"}


def not_reproducible(level: str) -> None:
    """Say that results are not the bits of other CPUs."""
    why = f"the level {level} has no fused multiply-add"
    print(f"reproduce: last digits may differ from those of other CPUs because {why}", file=sys.stderr)


class Bar:
    """A bar of cells on a terminal."""

    def __init__(self, notebooks: int, cells: int) -> None:
        from tqdm import tqdm  # type: ignore[import-untyped]

        self._done, self._notebooks = 0, notebooks
        self._bar = tqdm(total=cells, unit="cell", file=sys.stderr, dynamic_ncols=True, leave=False)
        self._bar.set_description(f"0 of {counted(notebooks, 'notebook')}")

    def cell_done(self) -> None:
        """Move on by one cell."""
        self._bar.update()

    def notebook_done(self, result: Result) -> None:
        """Count the notebook."""
        self._done += 1
        self._bar.set_description(f"{self._done} of {counted(self._notebooks, 'notebook')}")

    def close(self) -> None:
        """Take the bar away."""
        self._bar.close()


class Log:
    """A line per notebook, where no terminal shows a bar."""

    def __init__(self, notebooks: int, cells: int) -> None:
        self._done, self._notebooks = 0, notebooks

    def cell_done(self) -> None:
        """Say nothing: cells are many."""

    def notebook_done(self, result: Result) -> None:
        """Write the notebook's line."""
        self._done += 1
        failed = len(result.failures)
        checks = counted(len(result.records), "check")
        verdict = result.error or (f"{failed} failed" if failed else "none failed")
        count = f"[{self._done:{len(str(self._notebooks))}}/{self._notebooks}]"
        seconds = result.made.get("seconds", 0)
        print(
            f"{count} {result.path.stem}: {seconds:.0f} s, {checks}, {_line(verdict)}",
            file=sys.stderr,
            flush=True,
        )

    def close(self) -> None:
        """There is nothing to take away."""


def writing(notebooks: int) -> None:
    """Say what still runs after the last cell."""
    print(f"writing the pages of {counted(notebooks, 'notebook')}", file=sys.stderr, flush=True)


def continues(kept: int, notebooks: int) -> None:
    """Say that the run before was interrupted and what of it is kept."""
    print(
        f"continued: {kept} of {notebooks} notebooks are kept from the run before",
        file=sys.stderr,
        flush=True,
    )


def progress(notebooks: int, cells: int, stream: TextIO | None = None) -> Bar | Log:
    """Return a bar for a terminal and lines for a log."""
    return (Bar if (stream or sys.stderr).isatty() else Log)(notebooks, cells)


def tell(report: Report, page: str, *, verbose: bool = False) -> str:
    """Return what is on the terminal in the end: a line per document, the failures, the sum.

    `verbose` adds a line for each check.
    """
    lines = []
    if verbose:
        lines += [*(_row(record) for record in report.records), ""]
    titles = documents()
    groups = report.by_document()
    width = max((len(titles.get(key, "")) for key in groups), default=0)
    for key, entries in groups.items():
        lines.append(f"{key:<3} {titles.get(key, ''):<{width}}  {tally(entries)}")
    if report.failures or report.errors:
        lines += ["", "Failures:"]
        lines += [_failure(record) for record in report.failures]
        for name, text in report.errors.items():
            cell = report.cells.get(name)
            place = f"{name}, cell {cell}" if cell else name
            lines.append(f"  {place}: {_line(text)}")
    if report.skipped:
        lines += ["", "Skipped:"]
        lines += [f"  {what}: {_line(reason)}" for what, reason in report.skipped.items()]
    lines += ["", f"{report.summary()}{_time(report.seconds)}; see {page}"]
    return "\n".join(lines)


def _row(record: dict[str, Any]) -> str:
    mark = _MARKS[record["state"]]
    return f"{mark:<7} {record['id']:<9} {record['what']}  [{record['how']}]  {_line(found(record))}"


def _failure(record: dict[str, Any]) -> str:
    place = f"{record['notebook']}, cell {record['cell']}, " if record.get("notebook") else ""
    return (
        f"  {place}{record['id']} {record['what']} [{record['how']}]\n"
        f"    expected {_line(record['expected'])}\n    got      {_line(record['got'])}"
    )


def _line(text: str) -> str:
    """Return a text in one line."""
    return " ".join(str(text).split())


def _time(seconds: float | None) -> str:
    if seconds is None:
        return ""
    minutes, rest = divmod(round(seconds), 60)
    return f" in {minutes} min {rest} s" if minutes else f" in {rest} s"
