"""A prediction as a table, in words, and as a picture."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any

from ..._errors import needs
from .job import Job, Step
from .networks import Network, network
from .rates import Rates

COLUMNS = ("ranks", "time", "compute", "repeated", "messages", "waiting", "efficiency", "memory")


def duration(seconds: float) -> str:
    """Give a time with three digits.

    Examples
    --------
    >>> from qkv.distributed.plan.report import duration
    >>> duration(0.0123), duration(4000)
    ('12.3 ms', '1.11 h')
    """
    for unit, size in (("h", 3600.0), ("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size or unit == "us":
            return f"{seconds / size:.3g} {unit}"
    raise AssertionError


def size(count: float) -> str:
    """Give a number of bytes with three digits."""
    for unit, each in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if count >= each:
            return f"{count / each:.3g} {unit}"
    return f"{count / 1e3:.3g} kB"


def table(steps: Sequence[Step], one: Step) -> str:
    """Give a line per number of ranks: the time, where it goes, and the memory of a rank."""
    lines: list[tuple[str, ...]] = [COLUMNS]
    for step in steps:
        parts = (step.compute, step.repeated, step.communication, step.waiting)
        shares = [f"{100 * part / step.seconds:.0f} %" for part in parts]
        efficiency = f"{100 * step.efficiency(one):.0f} %"
        lines.append((str(step.ranks), duration(step.seconds), *shares, efficiency, size(step.memory)))
    widths = [max(len(line[i]) for line in lines) for i in range(len(COLUMNS))]
    return "\n".join(
        "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in lines
    )


def heading(job: Job, rates: Rates, between: str | Network, per_machine: int | None) -> str:
    """Say what is predicted, of which machine."""
    sizes = ", ".join(f"{f.name} {getattr(job, f.name)}" for f in dataclasses.fields(job))
    machine = rates.machine
    found = network(between, rates)
    each = per_machine or rates.cores
    where = (
        f"all ranks on one machine with {machine['cores']} cores"
        if found is None
        else f"{each} rank{'s' * (each > 1)} per machine, {found.name}: {8 * found.bandwidth / 1e9:.3g} Gbit/s, "
        f"{found.latency * 1e6:.3g} us"
    )
    return (
        f"{job.name}: {job.step_is}, {sizes}\n"
        f"rates: {machine['cpu']}, {machine['threads']} thread{'s' * (machine['threads'] > 1)} a rank, measured "
        f"{machine['date']}; {where}"
    )


def verdict(job: Job, rates: Rates, between: str | Network, per_machine: int | None) -> str:
    """Say where the job stops scaling, and why."""
    ranks, reason = job.limit(rates, between, per_machine)
    if reason == "most":
        return f"It scales to {ranks} ranks and more: the efficiency stays above one half."
    return (
        f"It scales to {ranks} rank{'s' * (ranks > 1)}. On {2 * ranks} more than half of the time is lost, most of it "
        f"to {'messages' if reason == 'communication' else reason}: {job.reasons[reason]}."
    )


def draw(path: str | os.PathLike[str], title: str, curves: Mapping[str, Sequence[Step]]) -> None:
    """Draw time, its parts and efficiency over the ranks, a curve for each network, into a file."""
    figure, _ = picture({title: curves})
    figure.savefig(path, dpi=110)


def picture(jobs: Mapping[str, Mapping[str, Sequence[Step]]]) -> tuple[Any, Any]:
    """Give a figure with a row of time, memory and efficiency for each job, a curve for each network."""
    with needs('plan: matplotlib must be installed to draw curves; pip install "qkv[plot]"'):
        from matplotlib.figure import Figure
    figure = Figure(figsize=(12, 3.2 * len(jobs)), layout="constrained")
    axes = figure.subplots(len(jobs), 3, squeeze=False)
    for (title, curves), (time, lost, efficiency) in zip(jobs.items(), axes, strict=True):
        for number, (label, steps) in enumerate(curves.items()):
            colour = f"C{number}"
            ranks, one = [step.ranks for step in steps], steps[0]
            time.loglog(ranks, [step.seconds for step in steps], color=colour, label=label)
            efficiency.semilogx(
                ranks, [100 * step.efficiency(one) for step in steps], color=colour, label=label
            )
            for (name, style), values in zip(
                (("messages", "-"), ("waiting", ":"), ("repeated", "--")),
                zip(*((s.communication, s.waiting, s.repeated) for s in steps), strict=True),
                strict=True,
            ):
                share = [100 * value / step.seconds for value, step in zip(values, steps, strict=True)]
                lost.semilogx(ranks, share, style, color=colour, label=f"{name}, {label}")
        first = next(iter(curves.values()))
        ideal = [first[0].seconds * first[0].ranks / step.ranks for step in first]
        time.loglog([step.ranks for step in first], ideal, color="grey", linewidth=0.8, label="ideal")
        time.set(xlabel="ranks", ylabel="seconds")
        time.set_title(title, loc="left")
        lost.set(xlabel="ranks", ylabel="% of the time", ylim=(-3, 103))
        efficiency.set(xlabel="ranks", ylabel="efficiency, %", ylim=(0, 108))
        efficiency.axhline(50, color="grey", linewidth=0.8)
        for one_axes in (time, lost, efficiency):
            one_axes.set_xscale("log", base=2)
            one_axes.legend(fontsize="x-small")
    return figure, axes
