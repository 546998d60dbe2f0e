"""Notebooks for tests of ``qkv reproduce``, its command line, and a substitute for kernels that takes no time."""

import pytest

from qkv import cli
from qkv.reproduce import execute, figures, registry, results
from qkv.reproduce.checks import Check
from qkv.reproduce.display import MIME

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="  # 1 x 1


@pytest.fixture
def command(tmp_path, monkeypatch, capsys):
    """Call ``qkv`` with the test's notebooks; gives status, standard output and standard error."""
    for name in ("nbclient", "nbformat", "matplotlib", "jinja2", "mistune", "pygments", "latex2mathml"):
        pytest.importorskip(name)
    monkeypatch.setattr(registry, "find_notebooks", lambda: tmp_path / "notebooks")
    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        try:
            status = cli.main(arguments)
        except SystemExit as stop:
            status = stop.code
        return status, *capsys.readouterr()

    return call


@pytest.fixture
def no_kernels(monkeypatch, capsys):
    """Compute cells in this process: `check` makes outputs as in a notebook, and `figure(caption)` shows one dot."""
    nbformat = pytest.importorskip("nbformat")

    def run(notebooks, cores, progress, timeout=0):
        found = []
        for path, notebook in notebooks:
            result = results.Result(path, notebook)
            result.made = {"date": "2026-01-02 03:04", "seconds": 1.5, "qkv": "0.1"}
            check, count, shown = Check(), 0, []

            def figure(caption, shown=shown):
                shown.append({"image/png": PNG, figures.MIME: {"png": PNG, "caption": caption}})

            for cell in (cell for cell in notebook.cells if cell.cell_type == "code"):
                cell.execution_count = count = count + 1
                done = len(check.records)
                shown.clear()
                exec(cell.source, {"check": check, "figure": figure})
                data = [*shown, *({MIME: record, "text/plain": "-"} for record in check.records[done:])]
                cell.outputs = [nbformat.v4.new_output("display_data", one) for one in data]
            results.take_pictures(result)
            results.read_records(result)
            progress.notebook_done(result)
            found.append(result)
        capsys.readouterr()  # the lines of the checks
        return found

    monkeypatch.setattr(execute, "run", run)
