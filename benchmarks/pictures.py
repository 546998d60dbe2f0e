"""Pictures: the roofline with our rows as points, and curves of time against size and threads."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

Result = dict[str, Any]
COLORS = {
    "qkv": "#c0392b",
    "PyTorch": "#2c6fbb",
    "JAX": "#7a4fa3",
    "ONNX Runtime": "#2e8b57",
    "CTranslate2": "#b8860b",
}


def draw(run: Result, folder: Path, stem: str) -> dict[str, str]:
    """Draw what the rows allow, into files that begin with `stem`; give their names with what they show."""
    import matplotlib

    matplotlib.use("Agg")
    made = {}
    for threads, limits in run["limits"].items():
        rows = [r for r in run["rows"] if str(r["threads"]) == str(threads) and _placed(r)]
        if rows:
            name = f"{stem}-roofline-{threads}.png"
            roofline(rows, limits, folder / name, threads)
            made[name] = f"Roofline, threads: {threads}"
    curves: dict[str, list[Result]] = defaultdict(list)
    for result in run["rows"]:
        if result.get("axis") and result["times"]:
            curves[result["axis"][0]].append(result)
    for axis, rows in curves.items():
        name = f"{stem}-scaling-{axis.split()[0]}.png"
        scaling(rows, axis, folder / name)
        made[name] = f"Time against {axis}"
    name = f"{stem}-scaling-threads.png"
    if against_threads(run["rows"], folder / name):
        made[name] = "Speed against threads"
    return made


def _placed(result: Result) -> bool:
    """Say whether a row is a point under the roof: its work is counted, and no other row lies beneath it."""
    crowd = result["subject"] == "scaling" or (
        result["subject"] == "options" and "backward" in result["name"]
    )
    return bool(result.get("flops") and result.get("bytes") and "qkv" in result["times"]) and not crowd


def roofline(rows: list[Result], limits: dict[str, float], path: Path, threads: str) -> None:
    """Operations per second against operations per byte, under the limits measured in the same run."""
    from matplotlib import pyplot as plt

    fig, ax = plt.subplots(figsize=(10, 6.5))
    x = np.array([r["flops"] / r["bytes"] for r in rows])
    y = np.array([r["flops"] / r["times"]["qkv"]["median"] / 1e9 for r in rows])
    peak, slope = limits["sgemm"] / 1e9, limits["copy"] / 1e9
    span = np.geomspace(min(x.min() / 2, peak / slope / 4), max(x.max() * 60, peak / slope * 4), 200)
    ax.loglog(span, np.minimum(peak, span * slope), color="black", linewidth=1.5)
    ax.annotate(
        f"sgemm {peak:.0f} GFLOP/s", (span[-1], peak), (-4, 4), textcoords="offset points", ha="right"
    )
    subjects = list(dict.fromkeys(r["subject"] for r in rows))
    for i, subject in enumerate(subjects):
        own = [j for j, r in enumerate(rows) if r["subject"] == subject]
        ax.scatter(x[own], y[own], s=28, color=f"C{i % 10}", label=subject, zorder=3)
    ax.set_ylim(bottom=y.min() / 2, top=max(peak, y.max()) * 1.8)
    height = (y.min() / 2 * peak) ** 0.5
    ax.annotate(
        f"copy {slope:.1f} GB/s", (height / slope, height), (-6, 0), textcoords="offset points", ha="right"
    )
    ax.set_xlabel("operations per byte that must move")
    ax.set_ylabel("GFLOP/s")
    ax.set_title(f"qkv under the limits of this machine, threads: {threads}")
    ax.legend(loc="lower right", fontsize=8)
    ax.grid(True, which="major", alpha=0.25)
    fig.canvas.draw()
    _label(ax, x, y, [r["name"] for r in rows])
    fig.savefig(path, dpi=130, bbox_inches="tight")
    plt.close(fig)


def _label(ax: Any, x: np.ndarray, y: np.ndarray, names: list[str]) -> None:
    """Write names beside points where they cover neither each other nor a point; a number in a list where none fits."""
    fig = ax.figure
    renderer = fig.canvas.get_renderer()
    inside = ax.get_window_extent(renderer)
    points = ax.transData.transform(np.stack([x, y], axis=1))
    taken = [(px - 4, py - 4, px + 4, py + 4) for px, py in points]
    if ax.get_legend() is not None:
        taken.append(ax.get_legend().get_window_extent(renderer).extents)
    taken += [text.get_window_extent(renderer).extents for text in ax.texts]
    roof = ax.transData.transform(np.stack(ax.lines[0].get_data(), axis=1))
    taken += [(px - 2, py - 2, px + 2, py + 2) for px, py in roof]
    left = []
    for place, name in sorted(enumerate(names), key=lambda item: -points[item[0]][1]):
        for text in (name, None):
            number = len(left) + 1
            if _write(ax, points[place], text or str(number), taken, inside, renderer):
                if text is None:
                    left.append(f"{number}  {name}")
                break
    if left:
        listing = "\n".join(left)
        ax.text(1.02, 1.0, listing, transform=ax.transAxes, va="top", fontsize=6.5)


def _write(ax: Any, point: np.ndarray, text: str, taken: list[Any], inside: Any, renderer: Any) -> bool:
    note = ax.annotate(text, (0, 0), xycoords="figure pixels", fontsize=6.5)
    box = note.get_window_extent(renderer)
    wide, high = box.width, box.height
    for dx, dy in (
        (7, -high / 2),
        (-wide - 7, -high / 2),
        (-wide / 2, 7),
        (-wide / 2, -high - 7),
        (7, 6),
        (7, -high - 6),
    ):
        a, b = point[0] + dx, point[1] + dy
        new = (a, b, a + wide, b + high)
        within = new[0] > inside.x0 and new[2] < inside.x1 and new[1] > inside.y0 and new[3] < inside.y1
        if within and not any(_overlap(new, old) for old in taken):
            note.remove()
            place = ax.transData.inverted().transform((a, b))
            ax.annotate(text, place, fontsize=6.5)
            taken.append(new)
            return True
    note.remove()
    return False


def _overlap(a: Any, b: Any) -> bool:
    return bool(a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3])


def scaling(rows: list[Result], axis: str, path: Path) -> None:
    """Time against a size, a line for each side and number of threads."""
    from matplotlib import pyplot as plt

    fig, ax = plt.subplots(figsize=(6, 4.2))
    lines: dict[tuple[str, int], list[tuple[float, float]]] = defaultdict(list)
    for result in rows:
        for side in ("qkv", *result["peers"]):
            if side in result["times"]:
                point = (result["axis"][1], 1e3 * result["times"][side]["median"])
                lines[side, result["threads"]].append(point)
    for (side, threads), values in sorted(lines.items(), key=lambda item: item[0][1]):
        x, y = zip(*sorted(values), strict=True)
        style = "-" if threads == 1 else "--"
        ax.loglog(
            x,
            y,
            style,
            marker="o",
            markersize=4,
            color=COLORS.get(side, "gray"),
            label=f"{side}, threads: {threads}",
        )
    ax.set_xlabel(axis)
    ax.set_ylabel("ms")
    ax.grid(True, which="major", alpha=0.25)
    ax.legend(fontsize=8)
    fig.savefig(path, dpi=130, bbox_inches="tight")
    plt.close(fig)


def against_threads(results: list[Result], path: Path) -> bool:
    """Speed-up over one thread of the rows that were measured with more, for qkv and PyTorch."""
    from matplotlib import pyplot as plt

    medians: dict[tuple[str, str], dict[int, float]] = defaultdict(dict)
    for result in results:
        for side in ("qkv", "PyTorch"):
            if side in result["times"] and result["subject"] in (
                "attention",
                "minilm",
                "additive",
                "training",
            ):
                medians[result["name"], side][result["threads"]] = result["times"][side]["median"]
    several = {key: value for key, value in medians.items() if 1 in value and len(value) > 1}
    if not several:
        return False
    names = list(dict.fromkeys(name for name, _ in several))
    fig, ax = plt.subplots(figsize=(7, 0.32 * len(names) + 1.2))
    most = max(max(value) for value in several.values())
    for place, name in enumerate(names):
        for offset, side in ((-0.18, "qkv"), (0.18, "PyTorch")):
            if value := several.get((name, side)):
                speed = value[1] / value[max(value)]
                label = side if not ax.get_legend_handles_labels()[1].count(side) else None
                ax.barh(place + offset, speed, 0.34, color=COLORS[side], label=label)
    ax.set_yticks(range(len(names)), names, fontsize=7)
    ax.invert_yaxis()
    ax.axvline(most, color="black", linewidth=0.8)
    ax.set_xlabel(f"times as fast with {most} threads as with one (medians of different turns)")
    ax.legend(fontsize=8, loc="lower right", bbox_to_anchor=(1, 1), ncols=2)
    fig.savefig(path, dpi=130, bbox_inches="tight")
    plt.close(fig)
    return True
