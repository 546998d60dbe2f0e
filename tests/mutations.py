"""Perturb qkv from inside and see which experiments turn red: a check that never does checks nothing.

    python tests/mutations.py                        # all perturbations, all notebooks
    python tests/mutations.py results --notebooks d0_1 d0_2 --output table.md

Each perturbation has a process of its own, in which the cells of the notebooks are executed one after the other without
Jupyter. Notebooks with long trainings run last, and only until each of their experiments has been red once.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from perturbations import PERTURBATIONS as COMPUTED
from picture_perturbations import CHANGED, PICTURES

PERTURBATIONS = {**COMPUTED, **PICTURES}

TRAININGS_FIRST = ("results", "shuffled", "steps")  # what long notebooks are tried with before all else
LONG = ("causal_lm", "bert_in_practice", "several_processes", "train_a_small_bert", "date_translation")


def run(path: Path) -> dict[str, Any]:
    """Execute a notebook's cells in this process; give the checks and the cells that raised."""
    import matplotlib.pyplot as plt

    from qkv.reproduce.checks import check
    from qkv.reproduce.registry import cells_with_ids

    namespace: dict[str, Any] = {"__name__": "__main__"}
    raised: dict[str, str] = {}
    start = len(check.records)
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    for number, (cell, ids) in enumerate(cells_with_ids(cells)):
        if cell["cell_type"] == "code":
            source = "".join(cell["source"])
            try:
                with contextlib.redirect_stdout(io.StringIO()):
                    exec(compile(source, f"{path.stem}[{number}]", "exec"), namespace)
            except Exception:
                last = traceback.format_exc(limit=-1).strip().splitlines()[-1]
                raised.update({id: f"cell {number}: {last}" for id in ids if id not in raised})
    plt.close("all")
    kept = ("id", "what", "state")
    records = [
        {**{key: r[key] for key in kept}, "changed": r.get("picture") in CHANGED}
        for r in check.records[start:]
    ]
    return {"records": records, "raised": raised}


def perturbed(name: str, paths: Iterable[Path], progress: Callable[[str], None]) -> dict[str, Any]:
    """Run notebooks under one perturbation in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "answer.json"
        command = [sys.executable, __file__, "--worker", name, str(answer), *map(str, paths)]
        start = time.perf_counter()
        subprocess.run(command, check=True, env={**os.environ, "MPLBACKEND": "agg"}, cwd=folder)
        found: dict[str, Any] = json.loads(answer.read_text(encoding="utf-8"))
    red = {r["id"] for notebook in found.values() for r in notebook["records"] if r["state"] == "failed"}
    progress(f"{name}: {len(red)} experiments red, {time.perf_counter() - start:.0f} s")
    return found


def worker(name: str, answer: str, paths: list[str]) -> None:
    import warnings

    warnings.simplefilter("ignore")
    PERTURBATIONS[name]()
    found = {Path(path).stem: run(Path(path)) for path in paths}
    Path(answer).write_text(json.dumps(found), encoding="utf-8")


class Table:
    """What each perturbation did to each experiment."""

    def __init__(self) -> None:
        self.cells: dict[str, dict[str, str]] = {}
        self.checks: dict[tuple[str, str, str], set[str]] = {}
        self.names: list[str] = []
        self.unseen: list[tuple[str, str, str]] = []
        self.changed: dict[str, set[str]] = {}

    def add(self, name: str, found: dict[str, Any]) -> None:
        if name not in self.names:
            self.names.append(name)
        for stem, notebook in found.items():
            for record in notebook["records"]:
                key = (record["id"], stem, record["what"])
                self.checks.setdefault(key, set())
                row = self.cells.setdefault(record["id"], {})
                row.setdefault(name, "green")
                if record.get("changed"):
                    self.changed.setdefault(name, set()).add(record["id"])
                    if record["state"] != "failed":
                        self.unseen.append((name, record["id"], stem))
                if record["state"] == "failed":
                    self.checks[key].add(name)
                    row[name] = "red"
            for id in notebook["raised"]:
                row = self.cells.setdefault(id, {})
                row[name] = "red" if row.get(name) == "red" else "raised"

    def red(self, id: str) -> list[str]:
        return [name for name, state in self.cells.get(id, {}).items() if state == "red" and name != "none"]

    def text(self, ids: Iterable[str], without: Iterable[str]) -> str:
        """Return the table as Markdown, the experiments that were never red, and the checks that were never."""
        ids, without = list(ids), set(without)
        never = [id for id in ids if id not in without and not self.red(id)]
        marks = {"red": "red", "raised": "raised", "green": "·"}
        lines = [
            f"{len(ids)} experiments, {len(without & set(ids))} of them without qkv; red at least once: "
            f"{sum(bool(self.red(id)) for id in ids)}; never: {', '.join(never) or 'none'}.",
            "",
            "red: a check failed; raised: a cell ended in an exception, no check failed; ·: green; empty: not run.",
            "",
            "| experiment | " + " | ".join(self.names) + " |",
            "|" + " --- |" * (len(self.names) + 1),
        ]
        for id in ids:
            row = [marks.get(self.cells.get(id, {}).get(name, ""), "") for name in self.names]
            note = " (without qkv)" if id in without else ""
            lines.append(f"| {id}{note} | " + " | ".join(row) + " |")
        quiet = [key for key, names in self.checks.items() if not names - {"none"} and key[0] in ids]
        lines += ["", f"Checks that no perturbation turned red: {len(quiet)} of {len(self.checks)}.", ""]
        lines += [f"- {id}, {stem}: {what}" for id, stem, what in quiet]
        if self.changed:
            lines += ["", "| pictures | experiments in which it is seen | not red |", "| --- | --- | --- |"]
            missed = {name: [id for other, id, _ in self.unseen if other == name] for name in self.changed}
            lines += [
                f"| {name} | {len(ids)} | {', '.join(missed[name]) or 0} |"
                for name, ids in self.changed.items()
            ]
        return "\n".join(lines) + "\n"


def mutate(
    names: Iterable[str], paths: Iterable[Path], progress: Callable[[str], None] = lambda text: None
) -> Table:
    """Run notebooks under perturbations; the long ones only until all of their experiments were red."""
    from qkv.reproduce import registry

    names, paths, table = list(names), list(paths), Table()
    for name in names:
        table.add(name, perturbed(name, [path for path in paths if path.stem not in LONG], progress))
    for path in (path for path in paths if path.stem in LONG):
        for name in sorted(names, key=lambda name: name not in TRAININGS_FIRST):
            ids = registry.ids_of(path)
            if name in PICTURES or (name != "none" and not all(table.red(id) for id in ids)):
                table.add(
                    name, perturbed(name, [path], lambda text, stem=path.stem: progress(f"{stem}, {text}"))
                )
    return table


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("perturbations", nargs="*", metavar="perturbation", help=", ".join(PERTURBATIONS))
    parser.add_argument("--notebooks", nargs="+", default=[""], help="beginnings of their names")
    parser.add_argument("--output", type=Path, help="file for the table")
    parser.add_argument("--worker", nargs="+", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        worker(arguments.worker[0], arguments.worker[1], arguments.worker[2:])
        return 0
    from qkv.reproduce import registry

    wrong = [name for name in arguments.perturbations if name not in PERTURBATIONS]
    if wrong:
        parser.error(f"perturbations must be out of {', '.join(PERTURBATIONS)}; got {', '.join(wrong)}")
    paths = sorted(registry.find_notebooks().glob("*.ipynb"))
    paths = [path for path in paths if path.stem.startswith(tuple(arguments.notebooks))]
    table = mutate(arguments.perturbations or PERTURBATIONS, paths, lambda text: print(text, flush=True))
    treated = {id for path in paths for id in registry.ids_of(path)}
    text = table.text([id for id in registry.experiments() if id in treated], registry.without_qkv())
    if arguments.output:
        arguments.output.write_text(text, encoding="utf-8")
    print(text if not arguments.output else text.splitlines()[0])
    return 0


if __name__ == "__main__":
    sys.exit(main())
