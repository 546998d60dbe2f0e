"""The runner, on small notebooks with real kernels: results, files, exit status."""

import base64
import os
import re

import pytest

from qkv import cli
from qkv.reproduce import execute, output, registry, run

pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")
pytest.importorskip("matplotlib")

GOOD = """
import matplotlib.pyplot as plt
import numpy as np
from qkv.reproduce import check, golden
check.equal("D0-01", "a number", 3, 3)
fig, ax = plt.subplots(figsize=(2.5, 2.5))
fig.colorbar(ax.imshow(np.eye(10), cmap="Reds"), ax=ax, shrink=0.6)
ax.set(xlabel="Keys", ylabel="Queries")
check.figure("F-D0-03", fig)
"""


def write(folder, name, *cells):
    folder.mkdir(exist_ok=True)
    make = {"markdown": nbformat.v4.new_markdown_cell, "code": nbformat.v4.new_code_cell}
    nbformat.write(nbformat.v4.new_notebook(cells=[make[kind](text) for kind, text in cells]), folder / name)


@pytest.fixture
def command(tmp_path, monkeypatch, capsys):
    """Call ``qkv`` with the test's notebooks; gives status, standard output and standard error."""
    monkeypatch.setattr(registry, "find_notebooks", lambda: tmp_path / "notebooks")
    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        try:
            status = cli.main(arguments)
        except SystemExit as stop:
            status = stop.code
        return status, *capsys.readouterr()

    return call


def test_a_good_run(command, tmp_path):
    write(
        tmp_path / "notebooks",
        "d0_1.ipynb",
        ("markdown", "# T\n## D0-01 and D0-03"),
        ("code", GOOD),
        ("markdown", "## D0-02"),
        ("code", "check.that('D0-02', 'sums', True)\nplt.plot([1, 2]);\nplt.figure(); plt.plot([2, 1]);"),
    )
    status, out, err = command("reproduce", "D0-01", "D0-02", "D0-03")
    assert (status, err) == (0, "")
    assert re.search(r"^D0-01 +a number +3 +3 +ok$", out, re.MULTILINE)
    assert "3 experiments, 3 checks, all ok, 3 figures; see reproduced/index.html" in out
    folder = tmp_path / "reproduced"
    assert sorted(os.listdir(folder)) == ["figures", "index.html", "notebooks"]
    assert sorted(os.listdir(folder / "figures")) == ["D0-02-2.png", "D0-02.png", "F-D0-03.png"]
    page = (folder / "index.html").read_text()
    for picture in (folder / "figures").iterdir():
        data = picture.read_bytes()
        assert data.startswith(b"\x89PNG")
        assert base64.b64encode(data).decode() in page
    assert "http" not in re.sub(r"<style>.*</style>", "", page, flags=re.DOTALL)
    notebook = nbformat.read(folder / "notebooks" / "d0_1.ipynb", as_version=4)
    nbformat.validate(notebook)
    assert notebook.metadata.kernelspec.name == "python3"
    assert "execution" not in notebook.cells[1].metadata
    assert notebook.cells[1].outputs
    assert os.listdir(tmp_path) == sorted(os.listdir(tmp_path), key=["notebooks", "reproduced"].index)


def test_failures_give_status_1(command, tmp_path):
    write(
        tmp_path / "notebooks",
        "d0_1.ipynb",
        ("markdown", "## D0-01"),
        ("code", "from qkv.reproduce import check\ncheck.equal('D0-01', 'a number', 3, 4)\nprint('<b>')"),
        ("markdown", "## D0-02"),
        ("code", "1 / 0"),
        ("code", "check.that('D0-02', 'never reached', True)"),
    )
    status, out, _ = command("reproduce", "D0-01", "D0-02", "D0-03", "--output", "results")
    assert status == 1
    assert re.search(r"^D0-01 +a number +4 +3 +FAIL$", out, re.MULTILINE)
    assert re.search(
        r"^D0-02 +there is a check +at least one check +no notebook made one +FAIL$", out, re.MULTILINE
    )
    assert "d0_1.ipynb raised ZeroDivisionError: division by zero" in out
    assert "3 checks, 3 failed" in out
    assert "1 notebook raised an exception" in out
    page = (tmp_path / "results" / "index.html").read_text()
    assert "ZeroDivisionError" in page
    assert page.count('class="failed"') == 3
    assert (tmp_path / "results" / "notebooks" / "d0_1.ipynb").exists()


def test_what_is_skipped_is_counted_apart(command, tmp_path):
    write(
        tmp_path / "notebooks",
        "d0_1.ipynb",
        ("markdown", "## D0-01 and D0-02"),
        ("code", "from qkv.reproduce import check\ncheck.equal('D0-01', 'a number', 3, 3)"),
        ("code", "check.skipped('D0-02', 'everything', 'no weights')"),
    )
    status, out, _ = command("reproduce", "D0-01", "D0-02")
    assert status == 0
    assert re.search(r"^D0-02 +everything +no weights +skipped$", out, re.MULTILINE)
    assert "2 experiments, 1 checks, all ok, 1 experiment skipped" in out
    assert 'class="skipped"' in (tmp_path / "reproduced" / "index.html").read_text()


def test_no_notebook_is_a_failure(command, tmp_path):
    status, out, _ = command("reproduce", "D0-03")
    assert status == 1
    assert "no notebook treats it" in out


def test_list(command, tmp_path):
    write(tmp_path / "notebooks", "d0_1.ipynb", ("markdown", "## D0-18"))
    status, out, _ = command("reproduce", "--list", "D0-18", "D4-11")
    assert status == 0
    lines = [re.split("  +", line) for line in out.splitlines()]
    assert lines[0] == ["id", "title", "notebook", "document"]
    assert lines[1][0] == "D0-18"
    assert lines[1][2] == "d0_1.ipynb"
    assert lines[1][3].startswith("Attention notes")
    assert lines[2][0] == "D4-11"
    assert lines[2][2] == "-"
    assert len(lines) == 3
    assert not (tmp_path / "reproduced").exists()


def test_info(command):
    status, out, _ = command("info")
    assert status == 0
    assert "BLAS" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["reproduce", "D0-99"], "ids must be experiments.*got 'D0-99'"),
        (["reproduce", "--list", "D0-99"], "ids must be experiments.*got 'D0-99'"),
        (["reproduce", "--nothing"], "unrecognized arguments"),
        (["nothing"], "invalid choice"),
        ([], "required"),
    ],
)
def test_bad_usage_gives_status_2(command, arguments, words):
    status, out, err = command(*arguments)
    assert status == 2
    assert out == ""
    assert re.search(words, err)


def test_an_output_that_cannot_be_written(command, tmp_path, monkeypatch):
    monkeypatch.setattr(execute, "run", lambda *a: pytest.fail("a notebook ran"))
    write(tmp_path / "notebooks", "d0_1.ipynb", ("markdown", "## D0-03"))
    (tmp_path / "file").write_text("")
    status, _, err = command("reproduce", "D0-03", "--output", "file")
    assert status == 2
    assert "output must be a folder; got the file" in err
    status, _, err = command("reproduce", "D0-03", "--output", "file/below")
    assert status == 2
    assert "output must be a folder that can be written; got" in err
    status, _, err = command("reproduce", "D0-03", "--output", ".")
    assert status == 2
    assert "holds its own notebooks" in err
    assert sorted(os.listdir(tmp_path)) == ["file", "notebooks"]


def test_nothing_is_half_written(command, tmp_path, monkeypatch):
    write(tmp_path / "notebooks", "d0_1.ipynb", ("markdown", "## D0-03"))

    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(execute, "run", interrupted)
    status, _, err = command("reproduce", "D0-03")
    assert status == 130
    assert err == "qkv: interrupted; nothing was written\n"
    assert os.listdir(tmp_path) == ["notebooks"]


def test_an_earlier_result_is_replaced_and_the_rest_is_kept(tmp_path):
    folder = tmp_path / "new" / "results"
    for text in ("one", "two"):
        with output.staged(folder) as stage:
            (stage / "notebooks").mkdir()
            (stage / "figures").mkdir()
            (stage / "figures" / f"{text}.png").write_text(text)
            (stage / "index.html").write_text(output.GENERATOR + text)
        (folder / "mine.txt").write_text("kept")
    assert sorted(os.listdir(folder)) == ["figures", "index.html", "mine.txt", "notebooks"]
    assert os.listdir(folder / "figures") == ["two.png"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_an_interrupted_replacement_keeps_the_earlier_result(tmp_path, monkeypatch, error):
    folder, replace, calls = tmp_path / "out", os.replace, []

    def write(text):
        with output.staged(folder) as stage:
            for part in ("notebooks", "figures"):
                (stage / part).mkdir()
            (stage / "index.html").write_text(output.GENERATOR + text)

    def interrupted(source, target):
        calls.append(target)
        if len(calls) == 6:  # the old page is away, the new one not there
            raise error
        replace(source, target)

    write("old")
    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(error):
        write("new")
    assert (folder / "index.html").read_text().endswith("old")
    assert sorted(os.listdir(folder)) == ["figures", "index.html", "notebooks"]


def test_jupyter_that_is_missing(command, tmp_path, monkeypatch):
    monkeypatch.setattr(execute, "NEEDED", ("nbformat", "no_such_client"))
    status, _, err = command("reproduce", "D0-03")
    assert status == 2
    assert 'needs no_such_client, which is not installed; pip install "qkv[notebooks]"' in err


def test_run_reports_a_kernel_that_dies(tmp_path):
    write(tmp_path, "dies.ipynb", ("code", "import os; os._exit(3)"), ("code", "1"))
    result = execute.run(tmp_path / "dies.ipynb", execute.read(tmp_path / "dies.ipynb"))
    assert "DeadKernelError" in result.error
    assert run.report.build([result], ["D0-03"]).ok is False
