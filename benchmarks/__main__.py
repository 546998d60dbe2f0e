"""Measure qkv beside its peers: ``python benchmarks [--quick] [--only PATTERN] [--threads N ...]``.

Needs qkv, matplotlib and threadpoolctl; compares with those of PyTorch, ONNX Runtime, CTranslate2, JAX and
sentence-transformers that are installed. Writes this CPU's table, its numbers and pictures into a folder, beside those
of other CPUs, and the folder's index.
"""

from __future__ import annotations

import argparse
import datetime
import json
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import machine
import pictures
import report
from measure import Measured, judge, measure, roofline
from quiet import Pace
from registry import ROWS, Row
from rows import SUBJECTS


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python benchmarks", description=__doc__)
    made.add_argument("--quick", action="store_true", help="a few rows with few turns, in under a minute")
    made.add_argument("--full", action="store_true", help="also the rows that take long")
    made.add_argument(
        "--only", metavar="PATTERN", help="rows whose subject and name, 'subject: name', match this"
    )
    made.add_argument("--threads", type=int, nargs="+", metavar="N", help="default: 1 and all cores")
    made.add_argument(
        "--repeats", type=int, metavar="N", help="quiet turns of each row (default 11, quick 5)"
    )
    made.add_argument(
        "--seconds",
        type=float,
        default=8.0,
        help="of a row's turns, after which three quiet ones are enough; none after three times as long",
    )
    made.add_argument("--output", type=Path, metavar="DIR", default=Path(__file__).parent / "results")
    made.add_argument(
        "--keep", action="store_true", help="keep what else is in DIR: measure a table piece by piece"
    )
    made.add_argument("--list", action="store_true", help="print the rows and end")
    return made


def in_order() -> list[Row]:
    """Return all rows, subject by subject."""
    return sorted(ROWS, key=lambda row: SUBJECTS.index(row.subject))


def chosen(options: argparse.Namespace) -> list[Row]:
    """Return the rows that the options ask for."""
    rows = in_order()
    if options.only:
        pattern = re.compile(
            options.only if _is_pattern(options.only) else re.escape(options.only), re.IGNORECASE
        )
        return [row for row in rows if pattern.search(f"{row.subject}: {row.name}")]
    if options.quick:
        return [row for row in rows if row.quick]
    return [row for row in rows if options.full or not row.full]


def _is_pattern(text: str) -> bool:
    """Names hold brackets, so a text that a name contains literally is not read as a pattern."""
    return not any(text.lower() in f"{row.subject}: {row.name}".lower() for row in ROWS)


def thread_counts(row: Row, asked: list[int]) -> list[int]:
    """Return the numbers of threads that a row is measured with."""
    return {"one": asked[:1], "two": [2] if asked[-1] > 1 else []}.get(row.threads, asked)


def progress(jobs: list[tuple[Row, int]]) -> Iterator[tuple[Row, int]]:
    """Return the jobs one by one, with a bar on a terminal."""
    if sys.stderr.isatty():
        try:
            from tqdm import tqdm
        except ImportError:
            pass
        else:
            bar = tqdm(jobs, dynamic_ncols=True)
            for job in bar:
                bar.set_description(f"{job[0].name}, {job[1]} threads")
                yield job
            return
    yield from jobs


def main() -> int:
    options = parser().parse_args()
    rows = chosen(options)
    if options.list:
        for row in rows:
            goals = "; ".join(f"{goal.sign()} {goal.label}" for goal in row.goals if goal.target is not None)
            print(f"{row.subject}: {row.name}" + (f"  [{goals}]" if goals else ""))
        return 0
    if not rows:
        print(f"no row matches {options.only}; --list shows all", file=sys.stderr)
        return 2
    asked = sorted(set(options.threads or ([1] if options.quick else [1, machine.cores()])))
    repeats = options.repeats or (5 if options.quick else 11)
    options.output.mkdir(parents=True, exist_ok=True)
    run: dict[str, Any] = {
        "command": shlex.join(sys.argv[1:]),
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "repeats": repeats,
        "head": machine.head(asked),
        "limits": {},
        "rows": [],
    }
    jobs = [(row, threads) for row in rows for threads in thread_counts(row, asked)]
    if options.keep:
        keep(run, options.output, {(row.name, threads) for row, threads in jobs})
    update_limits(run, asked)
    paces: dict[int, Pace] = {}
    done: list[tuple[Measured, Pace]] = []
    for row, threads in progress(jobs):
        pace = paces.setdefault(threads, Pace(machine.sgemm(), machine.settle))
        try:
            done.append((measure(row, threads, repeats, options.seconds, pace), pace))
        except Exception as error:  # a row that fails must not cost the others
            text = " ".join(str(error).split())[:300]
            run["rows"].append({
                "name": row.name, "subject": row.subject, "threads": threads, "axis": None, "times": {},
                "figures": [], "failed": f"{type(error).__name__}: {text}",
            })  # fmt: skip
        save(run, done, options.output)
    update_limits(run, asked)
    run["rows"] += [judge(measured, pace) for measured, pace in done]
    run["pictures"] = pictures.draw(run, options.output, machine.slug())
    text = save(run, [], options.output)
    (options.output / "README.md").write_text(report.index(options.output), encoding="utf8")
    print(text)
    return 1 if any(result.get("failed") for result in run["rows"]) or report.faults(run["rows"]) else 0


def update_limits(run: dict[str, Any], asked: list[int]) -> None:
    """Measure what the machine can do, at the beginning and at the end: the better one counts."""
    for threads in asked:
        machine.set_threads(threads)
        known = run["limits"].setdefault(str(threads), {})
        for name, rate in machine.limits(threads, min(run["repeats"], 9)).items():
            known[name] = max(rate, known.get(name, 0.0))


def keep(run: dict[str, Any], folder: Path, replaced: set[tuple[str, int]]) -> None:
    """Take over from an earlier run what is not measured now."""
    path = folder / f"{machine.slug()}.json"
    if path.is_file():
        earlier = json.loads(path.read_text(encoding="utf8"))
        run["limits"] = earlier["limits"]
        run["earlier"] = [*earlier.get("earlier", ()), {key: earlier[key] for key in ("command", "date")}]
        run["rows"] = [r for r in earlier["rows"] if (r["name"], r["threads"]) not in replaced]


def save(run: dict[str, Any], done: list[tuple[Measured, Pace]], folder: Path) -> str:
    """Judge all rows by what is known of the machine's pace by now, and write table and numbers."""
    order = {row.name: i for i, row in enumerate(in_order())}
    written = run | {"rows": [*run["rows"], *(judge(measured, pace) for measured, pace in done)]}
    written["rows"].sort(key=lambda result: (order.get(result["name"], len(order)), result["threads"]))
    for result in written["rows"]:
        result["roofline"] = roofline(result, run["limits"].get(str(result["threads"])))
    text = report.markdown(written)
    (folder / f"{machine.slug()}.json").write_text(json.dumps(written, indent=1) + "\n", encoding="utf8")
    (folder / f"{machine.slug()}.md").write_text(text, encoding="utf8")
    return text


if __name__ == "__main__":
    sys.exit(main())
