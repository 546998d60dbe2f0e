"""The report: what was measured, as Markdown, and the index of the reports of all CPUs."""

from __future__ import annotations

import json
from itertools import groupby
from pathlib import Path
from typing import Any

from registry import SGEMM

Result = dict[str, Any]
TITLES = {
    "attention": "Scaled dot-product attention",
    "options": "What the options of attention cost",
    "tiny": "Tiny calls",
    "small operations": "Small operations and the memory of a graph",
    "additive": "Additive attention",
    "pooling": "Nadaraya-Watson pooling",
    "memory bound": "Operations bound by memory",
    "linear": "Linear layers",
    "minilm": "MiniLM",
    "encode": "Sentences to embeddings",
    "training": "Training",
    "recurrent": "GRU",
    "threads": "Several threads",
    "scaling": "Scaling",
    "startup": "Start and size",
}


def markdown(run: Result) -> str:
    """Set a whole run."""
    parts = ["# Results", head(run), summary(run["rows"])]
    notes = explanations()
    for subject, results in groupby(run["rows"], key=lambda result: result["subject"]):
        rows = list(results)
        parts.append(f"## {TITLES.get(subject, subject.capitalize())}")
        parts.append(table(rows))
        names = {result["name"]: None for result in rows}
        lines = [f"- {result['name']}: {result['note']}" for result in rows if result.get("note")]
        lines += [f"- {missed(result)}" for result in rows if is_missed(result) and result.get("roofline")]
        lines += [f"- **{name}**: {notes[name]}" for name in names if name in notes]
        if lines:
            parts.append("\n".join(dict.fromkeys(lines)))
    if run.get("pictures"):
        parts.append("## Pictures")
        parts.append("\n\n".join(f"![{text}]({name})" for name, text in run["pictures"].items()))
    return "\n\n".join(parts) + "\n"


def head(run: Result) -> str:
    facts = run["head"]
    core = facts["qkv"]
    settings = ", ".join(f"{name}={value}" for name, value in facts["settings"].items())
    runs = [*run.get("earlier", ()), run]
    commands = [f"`{' '.join(['python benchmarks', r['command']]).strip()}`, {r['date']}" for r in runs]
    lines = [
        f"- command: {'; then, for some rows, '.join(commands)}",
        f"- CPU: {facts['cpu']}, {facts['cores']} cores; {facts['system']}",
        f"- qkv {core['version']}, kernels {core['instruction_set']}, {core['blas']} core {core['blas_core']}, "
        f"built with {core['compiler']}{', reproducible' if core.get('reproducible') else ''}",
        "- " + ", ".join(f"{name} {version}" for name, version in facts["versions"].items()),
        f"- settings: {settings or 'none'}",
    ]
    for threads, rates in run["limits"].items():
        plural = "s" if int(threads) > 1 else ""
        lines.append(
            f"- limits with {threads} thread{plural}: sgemm {rates['sgemm'] / 1e9:.0f} GFLOP/s, "
            f"copy {rates['copy'] / 1e9:.1f} GB/s (read and written bytes together)"
        )
        beside = [
            2.0 * SGEMM**3 / result["times"]["sgemm"]["median"] / 1e9
            for result in run["rows"]
            if str(result["threads"]) == threads and "sgemm" in result["times"]
        ]
        if beside:
            lines.append(
                f"- the same sgemm beside the rows: {min(beside):.0f} to {max(beside):.0f} GFLOP/s; far below the "
                "limit the machine was shared with others, and ratios count, not times"
            )
    lines += [
        f"- not installed: {name}, its columns are blank: `{how}`" for name, how in facts["missing"].items()
    ]
    lines += [f"- {note}" for note in facts["notes"]]
    lines += [f"- **warning**: {warning}" for warning in facts["warnings"]]
    lines.append(
        f"- float32 unless said; up to {run['repeats']} turns in which each side comes once, warmed up; median "
        "(quartiles); a ratio is the median of the turns' ratios, above 1 where qkv is faster"
    )
    lines.append(
        "- a turn counts if the sgemm right before it and the one right after it are within 10 % of the best quarter "
        "of all of them; CPU is the time that the calling thread was running, with one thread"
    )
    return "\n".join(lines)


def summary(results: list[Result]) -> str:
    """Count the goals and list those that were missed."""
    judged = [(r, f) for r in results for f in r["figures"] if f.get("met") is not None]
    missing = [(r, f) for r, f in judged if not f["met"]]
    lines = [f"Goals met: {len(judged) - len(missing)} of {len(judged)}."]
    if wild := faults(results):
        lines += ["", "Impossible, so faults of the benchmark:", "", *(f"- {text}" for text in wild)]
    if noisy := [f"- {r['name']}, threads {r['threads']}" for r in results if r.get("no_quiet_turn")]:
        lines += ["", "Without a quiet turn, so not judged:", "", *noisy]
    if missing:
        lines += ["", "Missed:", ""]
        lines += [
            f"- {r['name']}, threads {r['threads']}: {f['text']} {f['label']}, goal {f['goal']}"
            for r, f in missing
        ]
    failed = [f"- {r['name']}, threads {r['threads']}: {r['failed']}" for r in results if r.get("failed")]
    if failed:
        lines += ["", "Failed:", "", *failed]
    return "\n".join(lines)


def faults(results: list[Result]) -> list[str]:
    """List figures that no machine reaches, such as a share of sgemm above 105 %."""
    return [
        f"{r['name']}, threads {r['threads']}: {f['text']} {f['label']}"
        for r in results
        for f in r["figures"]
        if f.get("fault")
    ]


def index(folder: Path) -> str:
    """Set the index: one line for each CPU whose numbers are in the folder."""
    lines = [
        "# Results by CPU",
        "",
        "| CPU | kernels | date | goals met | rows without a quiet turn |",
        "| --- " * 5 + "|",
    ]
    for path in sorted(folder.glob("*.json")):
        run = json.loads(path.read_text(encoding="utf8"))
        judged = [f["met"] for r in run["rows"] for f in r["figures"] if f.get("met") is not None]
        noisy = sum(bool(r.get("no_quiet_turn")) for r in run["rows"])
        lines.append(
            f"| [{run['head']['cpu']}]({path.stem}.md) | {run['head']['qkv']['instruction_set']} | {run['date'][:10]} "
            f"| {sum(judged)} of {len(judged)} | {noisy} |"
        )
    lines += [
        "",
        "`python benchmarks` adds the CPU that it runs on. Compare ratios, not times: machines differ.",
    ]
    return "\n".join(lines) + "\n"


def table(results: list[Result]) -> str:
    """Set the rows of one subject; a column for each peer that it may have."""
    peers = list(dict.fromkeys(name for result in results for name in result.get("peers", ())))
    header = [
        "work",
        "threads",
        "qkv, ms",
        "CPU, ms",
        *(f"{name}, ms (ratio)" for name in peers),
        "rate",
        "peak memory",
    ]
    lines = [[*header, "figure", "goal", ""]]
    for result in results:
        cells = [result["name"], str(result["threads"]), _time(result["times"].get("qkv"))]
        cells.append(_time(result.get("cpu")).split(" ")[0])
        cells += [_peer(result, name) for name in peers]
        cells += [_rate(result), _size(result.get("peak_memory"))]
        if reason := _why_empty(result):
            lines.append([*cells, reason, "", ""])
            continue
        for i, figure in enumerate(result["figures"] or [None]):
            begin = cells if i == 0 else [""] * len(cells)
            lines.append([*begin, *_figure(figure)])
    return "\n".join(
        "| " + " | ".join(line) + " |" for line in [lines[0], ["---"] * len(lines[0]), *lines[1:]]
    )


def _why_empty(result: Result) -> str:
    if result.get("skipped"):
        return str(result["skipped"])
    return "failed" if result.get("failed") else "no quiet turn" if result.get("no_quiet_turn") else ""


def _figure(figure: Result | None) -> list[str]:
    if figure is None:
        return ["", "", ""]
    if figure["median"] is None:
        return ["", f"{figure['goal']} {figure['label']}".strip(), "not measured"]
    verdict = {True: "met", False: "**not met**", None: ""}[figure["met"]]
    if figure.get("fault"):
        verdict = "**impossible**"
    return [f"{figure['text']} {figure['label']}", figure["goal"], verdict]


def _time(timing: dict[str, float] | None) -> str:
    if timing is None:
        return ""
    median, low, high = (1e3 * timing[key] for key in ("median", "low", "high"))
    digits = 1 if median >= 100 else 2 if median >= 1 else 4 if median >= 0.01 else 5
    return f"{median:.{digits}f} ({low:.{digits}f}-{high:.{digits}f})"


def _peer(result: Result, name: str) -> str:
    timing = result["times"].get(name)
    if timing is None:
        return ""
    return f"{_time(timing).split(' ')[0]} ({result['ratios'][name]['median']:.2f})"


def _rate(result: Result) -> str:
    timing = result["times"].get("qkv")
    if timing is None:
        return ""
    if result.get("flops"):
        return f"{result['flops'] / timing['median'] / 1e9:.1f} GFLOP/s"
    return f"{result['bytes'] / timing['median'] / 1e9:.1f} GB/s" if result.get("bytes") else ""


def _size(count: float | None) -> str:
    if count is None:
        return ""
    return f"{count / 2**20:.1f} MB" if count >= 2**20 else f"{count / 2**10:.0f} KB"


def is_missed(result: Result) -> bool:
    return any(figure.get("met") is False for figure in result["figures"])


def missed(result: Result) -> str:
    """Say what this machine allows where a goal is missed."""
    roof, timing = result["roofline"], result["times"]["qkv"]
    flops, moved = result.get("flops") or 0.0, result.get("bytes") or 0.0
    bound = "arithmetic" if roof["arithmetic"] >= roof["memory"] else "memory"
    return (
        f"{result['name']}, threads {result['threads']}: {flops / 1e9:.3g} GFLOP and {moved / 1e6:.3g} MB; at the "
        f"rates of this run's sgemm and copy {1e3 * roof['arithmetic']:.3g} ms and {1e3 * roof['memory']:.3g} ms, "
        f"so {bound} is the limit; it takes {1e3 * timing['median']:.3g} ms, {roof['share']:.0%} of the limit's rate"
    )


def explanations() -> dict[str, str]:
    """Read explanations.md: a heading per row, under it the text."""
    path = Path(__file__).with_name("explanations.md")
    notes: dict[str, str] = {}
    name = None
    for line in path.read_text(encoding="utf8").splitlines() if path.is_file() else ():
        if line.startswith("## "):
            name = line.removeprefix("## ").strip()
        elif name is not None and line.strip():
            notes[name] = f"{notes.get(name, '')} {line.strip()}".strip()
    return notes
