"""The whole of ``qkv reproduce``: choose notebooks, run them, add their results to the site, say what came out."""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from .._words.errors import counted
from . import execute, machine, output, registry, report, results, site, terminal, trainings


class Terminated(KeyboardInterrupt):
    """SIGTERM has come: everything is cleaned up as after Ctrl-C."""


def listing(patterns: Sequence[str] = (), notebooks: Path | None = None) -> str:
    """Return the experiments with title, notebook and document, one per line."""
    known = registry.experiments()
    found = registry.notebooks_by_id(notebooks or registry.find_notebooks())
    titles = registry.documents()
    rows = [("id", "title", "notebook", "document")]
    for id in registry.select(patterns, known):
        paths = found.get(id)
        rows.append((id, known[id].title, paths[0].name if paths else "-", titles[known[id].document]))
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    return "\n".join(
        "  ".join(text.ljust(size) for text, size in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def reproduce(
    patterns: Sequence[str] = (),
    folder: Path | str = "reproduced",
    notebooks: Path | None = None,
    *,
    full: bool = False,
    timeout: float | None = None,
) -> report.Report:
    """Run the notebooks of the chosen experiments, and write or update the site in `folder`.

    The notebooks run side by side, one per core. What earlier runs wrote to the folder stays, except for the notebooks
    that run now. A run that is interrupted keeps what has come to its end; the next run of all continues from there.

    Parameters
    ----------
    patterns : sequence of str
        Ids (``D0-18``), documents (``D1``) or patterns (``D3-0*``); none means all, and starts a new site.
    folder : path
        Output folder: a new one, or one that an earlier run wrote. Other files in it stay as they are.
    notebooks : path, optional
        Folder with the notebooks; by default the package's.
    full : bool
        Repeat the long trainings too, whose stored results are shown otherwise, and write the new ones to
        ``folder/trainings``.
    timeout : float, optional
        Seconds after which a cell is ended; 900 by default, six hours with `full`.

    Returns
    -------
    Report
        Of the chosen experiments.

    Raises
    ------
    UnknownExperimentError
        If a pattern matches no experiment.
    UsageError
        If the folder has no name, or the timeout is not above 0.
    OSError
        If the folder cannot be written, holds files of others under the names of ours, or is in use by another run;
        before any notebook runs.
    ImportError
        If Jupyter is not installed.
    """
    start = time.monotonic()
    if not os.fspath(folder):
        raise registry.UsageError("reproduce: output must name a folder; got ''")
    if timeout is None:
        timeout = execute.LONG_TIMEOUT if full else execute.TIMEOUT
    if not 0 < timeout < 2**31:
        raise registry.UsageError(
            f"reproduce: timeout must be above 0 seconds and below 2 ** 31; got {timeout:g}"
        )
    wanted = registry.select(patterns, registry.experiments())
    found = registry.notebooks_by_id(notebooks or registry.find_notebooks())
    paths = sorted({path for id in wanted for path in found.get(id, ())})
    execute.require()
    folder = Path(folder).absolute()
    stop: KeyboardInterrupt | None = None
    with _terminable(), output.locked(folder):
        earlier = _earlier(folder, anew=not patterns)
        output.refuse_foreign(folder, site.names(paths), output.own_files(folder, earlier))
        continues = not patterns and not full and earlier.get("unfinished", False)
        kept = results.read(folder, earlier) if patterns or continues else []
        if continues:
            kept = [one for one in kept if _is_current(one, paths)]
            paths = [path for path in paths if path.name not in {one.path.name for one in kept}]
            terminal.continues(len(kept), len(kept) + len(paths))
        with output.staged(folder, earlier) as stage:
            with trainings.anew(stage / "trainings") if full else contextlib.nullcontext():
                made, stop = _run_all(paths, timeout)
            names = {one.path.name for one in made}
            merged = sorted([*(one for one in kept if one.path.name not in names), *made], key=_name)
            results.name_pictures(merged)
            result = report.build(merged if continues else made, wanted)
            result.seconds = time.monotonic() - start
            about = {"machine": machine.about(), "seconds": round(result.seconds, 1)}
            if stop is not None or (patterns and earlier.get("unfinished")):
                about["unfinished"] = True
            with output.writing(folder):
                site.write(stage, merged, about)
                mine = [name for name in output.own_files(folder, earlier) if name.startswith(output.KEPT)]
                files = {*output.files(stage), *mine, results.NAME}
                results.write(stage, merged, {**about, "files": sorted(files)})
    if stop is not None:
        told = f"{len(made)} of {counted(len(paths), 'notebook')} are kept in {folder.name}; run it again to continue"
        raise type(stop)(told) from stop
    return result


def _is_current(result: results.Result, paths: Sequence[Path]) -> bool:
    """Say whether a notebook of the run before is whole, and the same as it is now with this version of qkv."""
    path = next((path for path in paths if path.name == result.path.name), None)
    if path is None or result.error or result.made.get("qkv") != execute.version():
        return False
    return [cell.source for cell in execute.read(path).cells] == [
        cell.source for cell in result.notebook.cells
    ]


def _earlier(folder: Path, *, anew: bool) -> dict[str, Any]:
    try:
        return results.about(folder)
    except results.ResultsError:
        if anew and output.is_ours(folder):
            return {}
        raise


def _name(result: results.Result) -> str:
    return result.path.name


class _Done:
    """Passes on what the display of progress hears, and keeps the notebooks that have come to their end."""

    def __init__(self, shown: execute.Progress) -> None:
        self.cell_done, self._shown = shown.cell_done, shown
        self.results: list[results.Result] = []

    def notebook_done(self, result: results.Result) -> None:
        self.results.append(result)
        self._shown.notebook_done(result)


def _run_all(paths: Sequence[Path], timeout: float) -> tuple[list[results.Result], KeyboardInterrupt | None]:
    """Return what came of the notebooks, and what ended the run before the last of them."""
    from ..functions.settings import config

    if not config()["fused_multiply_add"]:
        terminal.not_reproducible(config()["instruction_set"])
    notebooks = [(path, execute.read(path)) for path in paths]
    cells = sum(cell.cell_type == "code" for _, notebook in notebooks for cell in notebook.cells)
    progress = terminal.progress(len(paths), cells)
    done, stop = _Done(progress), None
    try:
        made = execute.run(notebooks, config()["threads"], done, timeout)
    except KeyboardInterrupt as interrupt:
        if not done.results:
            raise
        made, stop = done.results, interrupt
    finally:
        progress.close()
    terminal.writing(len(made))
    return made, stop


@contextlib.contextmanager
def _terminable() -> Iterator[None]:
    """Let SIGTERM end the block like Ctrl-C, where this thread may say so."""

    def end(number: int, frame: object) -> None:
        raise Terminated

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
