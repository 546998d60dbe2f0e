"""The whole of ``qkv reproduce``: choose notebooks, run them, write the results, say what came out."""

import contextlib
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from . import execute, output, page, registry, report, trainings


def listing(patterns: Sequence[str] = (), notebooks: Path | None = None) -> str:
    """Give the experiments with title, notebook and document, one per line."""
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
) -> report.Report:
    """Run the notebooks of the chosen experiments and write notebooks, figures and a page to `folder`.

    Parameters
    ----------
    patterns : sequence of str
        Ids (``D0-18``), documents (``D1``) or patterns (``D3-0*``); none means all.
    folder : path
        Output folder; what an earlier run wrote there is replaced.
    notebooks : path, optional
        Folder with the notebooks; by default the package's.
    full : bool
        Repeat the long trainings too, whose stored results are shown otherwise, and write the new ones to
        ``folder/trainings``.

    Raises
    ------
    UnknownExperimentError
        If a pattern matches no experiment.
    OSError
        If the folder cannot be written; before any notebook runs.
    ImportError
        If Jupyter is not installed.
    """
    wanted = registry.select(patterns, registry.experiments())
    found = registry.notebooks_by_id(notebooks or registry.find_notebooks())
    paths = sorted({path for id in wanted for path in found.get(id, ())})
    execute.require()
    folder = Path(folder).absolute()
    with output.staged(folder) as stage:
        with trainings.anew(stage / "trainings") if full else contextlib.nullcontext():
            results = _run_all(paths)
        result = report.build(results, wanted)
        _write(stage, results, result)
    return result


def _run_all(paths: Sequence[Path]) -> list[execute.Result]:
    from tqdm import tqdm  # type: ignore[import-untyped]

    notebooks = [execute.read(path) for path in paths]
    cells = [sum(cell.cell_type == "code" for cell in notebook.cells) for notebook in notebooks]
    results: list[execute.Result] = []
    names: set[str] = set()
    with tqdm(total=sum(cells), unit="cell", file=sys.stderr, disable=None, dynamic_ncols=True) as bar:
        done = 0
        for path, notebook, count in zip(paths, notebooks, cells, strict=True):
            bar.set_description(path.stem)
            results.append(execute.run(path, notebook, bar.update, names))
            done += count
            bar.update(done - bar.n)
    return results


def _write(stage: Path, results: Sequence[execute.Result], result: report.Report) -> None:
    import nbformat

    jupyter: Any = nbformat
    for name in ("notebooks", "figures"):
        (stage / name).mkdir()
    for one in results:
        jupyter.write(one.notebook, stage / "notebooks" / one.path.name)
        for picture in one.pictures:
            (stage / "figures" / f"{picture.name}.png").write_bytes(picture.png)
    (stage / "index.html").write_text(page.render(result), encoding="utf-8")


def terminal_width() -> int:
    """Give the width of the table: the terminal's, or a roomy one for files and pipes."""
    return shutil.get_terminal_size((160, 24)).columns if sys.stdout.isatty() else 200
