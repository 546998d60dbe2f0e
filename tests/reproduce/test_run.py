"""The runner, on small notebooks with real kernels: results, files, exit status; what hangs, dies or is ended."""

import os
import re
import signal
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from qkv.reproduce import execute, terminal

from .small_notebooks import write

pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")
pytest.importorskip("matplotlib")

GOOD = """
import matplotlib.pyplot as plt
import numpy as np
from qkv.reproduce import check, golden, panels
fig, ax = plt.subplots(figsize=(2.5, 2.5))
fig.colorbar(ax.imshow(np.eye(10), cmap="Reds"), ax=ax, shrink=0.6)
ax.set(xlabel="Keys", ylabel="Queries")
check.figure("F-D0-03", fig)
check.equal("D0-01", "a number", 3, 3);
"""
PLOTS = """
plt.plot([1, 2])
plt.title("up");
check.picture("D0-02", plt.gcf(), panels.lines([0, 1], [1, 2], title="up"))
plt.figure()
plt.plot([2, 1])
check.picture("D0-02", plt.gcf(), panels.lines([0, 1], [2, 1]))
check.that('D0-02', 'sums', True, 2);
"""


@pytest.fixture
def kernels(tmp_path, monkeypatch):
    """List the kernels of this test that still run."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def running():
        found = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True).stdout
        return [line for line in found.splitlines() if "ipykernel_launcher" in line and str(tmp_path) in line]

    return running


def test_a_good_run(command, tmp_path):
    write(
        tmp_path / "notebooks",
        "d0_1.ipynb",
        ("markdown", "# T\n## D0-01 and D0-03"),
        ("code", GOOD),
        ("markdown", "## D0-02"),
        ("code", PLOTS),
    )
    status, out, err = command("reproduce", "D0-01", "D0-02", "D0-03")
    assert status == 0, out + err
    assert re.fullmatch(r"\[1/1\] d0_1: \d+ s, 5 checks, none failed\nwriting the pages of 1 notebook\n", err)
    assert re.search(r"^D0  Attention notes .*  3 experiments, 5 checks, all ok$", out, re.MULTILINE)
    last = out.splitlines()[-1]
    assert re.fullmatch(
        r"3 experiments, 5 checks, all ok, 3 figures in \d+ s; see reproduced/index.html", last
    )
    assert "a number" not in out
    folder = tmp_path / "reproduced"
    assert sorted(os.listdir(folder)) == ["assets", "figures", "index.html", "notebooks", "results.json"]
    assert sorted(os.listdir(folder / "figures")) == ["D0-02-2.png", "D0-02.png", "F-D0-03.png"]
    width, height = struct.unpack(">II", (folder / "figures" / "F-D0-03.png").read_bytes()[16:24])
    assert min(width, height) > 300  # 2.5 inches at 200 dots per inch, less the margins
    page = (folder / "notebooks" / "d0_1.html").read_text()
    assert "One heatmap; horizontally Keys; vertically Queries; colours from 0 to 1&#34;" in page.replace(
        '"', "&#34;"
    )
    assert 'One line plot: up"' in page
    notebook = nbformat.read(folder / "notebooks" / "d0_1.ipynb", as_version=4)
    nbformat.validate(notebook)
    assert notebook.metadata.kernelspec.name == "python3"
    assert "execution" not in notebook.cells[1].metadata
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    assert {output.output_type for output in outputs} == {"display_data"}
    kinds = {kind for output in outputs for kind in output.data}
    assert kinds == {"text/plain", "image/png", "application/vnd.qkv.check+json"}
    assert sorted(os.listdir(tmp_path)) == ["notebooks", "reproduced"]


def test_a_view_stays_a_view_on_its_page(command, tmp_path):
    source = "from qkv import plot\nimport numpy as np\nplot.token_view(np.eye(3), list('abc'))"
    write(tmp_path / "notebooks", "a.ipynb", ("markdown", "## D0-01"), ("code", source))
    command("reproduce", "D0-01")
    folder = tmp_path / "reproduced"
    assert not (folder / "figures").exists() or not os.listdir(folder / "figures")
    notebook = nbformat.read(folder / "notebooks" / "a.ipynb", as_version=4)
    assert {"text/html", "image/png"} <= set(notebook.cells[1].outputs[0].data)
    assert '<div class="output html">' in (folder / "notebooks" / "a.html").read_text()


def test_a_picture_that_nothing_compares_is_a_failure(command, tmp_path):
    source = "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nshown = plt.gcf()"
    later = (
        "from qkv.reproduce import check, panels\ncheck.picture('D0-02', shown, panels.lines([0, 1], [1, 2]))"
    )
    cells = [
        ("markdown", "## D0-01"),
        ("code", source),
        ("markdown", "## D0-02"),
        ("code", source),
        ("code", later),
    ]
    write(tmp_path / "notebooks", "d0_1.ipynb", *cells)
    status, out, err = command("reproduce", "D0-01", "D0-02")
    assert status == 1, err
    words = "D0-01 picture [picture]\n    expected what its panels must hold, by check.picture\n"
    assert f"d0_1.ipynb, cell 1, {words}    got      a picture that nothing compares\n" in out
    assert "2 experiments, 2 checks, 1 failed, 2 figures" in out


def test_failures_are_printed_last_with_their_place(command, tmp_path):
    write(
        tmp_path / "notebooks",
        "d0_1.ipynb",
        ("markdown", "## D0-01"),
        ("code", "from qkv.reproduce import check\ncheck.equal('D0-01', 'three', 3, 3)"),
        ("code", "check.equal('D0-01', 'a number', 3, 4)\nprint('<b>')"),
        ("markdown", "## D0-02"),
        ("code", "1 / 0"),
        ("code", "check.that('D0-02', 'never reached', True, 1)"),
    )
    status, out, err = command("reproduce", "D0-01", "D0-02", "D0-03", "--output", "results")
    assert status == 1
    assert "2 checks, ZeroDivisionError: division by zero" in err
    assert "three" not in out
    assert out.endswith(
        """
Failures:
  d0_1.ipynb, cell 2, D0-01 a number [exact]
    expected 4
    got      3
  D0-02 there is a check [coverage]
    expected at least one check
    got      no notebook made one
  D0-03 there is a check [coverage]
    expected at least one check
    got      no notebook made one
  d0_1.ipynb, cell 3: ZeroDivisionError: division by zero

"""
        + out.splitlines()[-1]
        + "\n"
    )
    assert "3 experiments, 4 checks, 3 failed, 0 figures; 1 notebook did not come to the end in" in out
    index = (tmp_path / "results" / "index.html").read_text()
    assert index.index('id="failures"') < index.index('class="document"')
    assert "cell 3: the notebook did not come to its end: ZeroDivisionError" in index
    page = (tmp_path / "results" / "notebooks" / "d0_1.html").read_text()
    assert "&lt;b&gt;" in page
    assert "<b>1 check failed:</b>" in page


class Silent:
    """A progress that says nothing."""

    def cell_done(self):
        pass

    def notebook_done(self, result):
        pass


def test_a_cell_that_hangs_is_ended(tmp_path, kernels):
    write(tmp_path, "a.ipynb", ("code", "1"), ("code", "import time; time.sleep(600)"), ("code", "2"))
    path = tmp_path / "a.ipynb"
    (result,) = execute.run([(path, execute.read(path))], 1, Silent(), timeout=1.5)
    assert (result.error, result.cell) == ("it took longer than 1.5 s and was ended", 2)
    assert result.notebook.cells[2].outputs == []
    assert kernels() == []
    assert os.listdir(tmp_path) == ["a.ipynb"]


def test_kernels_that_die_leave_the_others_alone(command, tmp_path, kernels):
    folder = tmp_path / "notebooks"
    good = "from qkv.reproduce import check\ncheck.equal('D0-01', 'a number', 3, 3)"
    write(folder, "a.ipynb", ("markdown", "## D0-01"), ("code", good))
    write(
        folder,
        "b.ipynb",
        ("markdown", "## D0-02"),
        ("code", "1"),
        ("code", "import os; os.kill(os.getpid(), 9)"),
    )
    write(folder, "c.ipynb", ("markdown", "## D0-03"), ("code", "import os; os._exit(3)"), ("code", "1"))
    status, out, _ = command("reproduce", "D0-01", "D0-02", "D0-03")
    assert status == 1
    assert "  b.ipynb, cell 2: the kernel was killed by signal 9\n" in out
    assert "  c.ipynb, cell 1: the kernel ended with status 3\n" in out
    assert "a.ipynb" not in out
    assert "2 notebooks did not come to the end" in out
    assert kernels() == []
    assert sorted(os.listdir(tmp_path)) == ["notebooks", "reproduced"]


def test_notebooks_run_side_by_side_with_their_share_of_the_threads(tmp_path):
    """Each of two notebooks waits for a file of the other: one after the other they would come to no end."""
    wait = """
import os, time
open({mine!r}, "w").close()
for _ in range(1000):
    if os.path.exists({other!r}):
        break
    time.sleep(0.05)
else:
    raise TimeoutError
print(os.environ["QKV_NUM_THREADS"], os.environ["OPENBLAS_NUM_THREADS"])
"""
    places = [str(tmp_path / name) for name in "ab"]
    for mine, other in (places, places[::-1]):
        write(tmp_path, f"{Path(mine).name}.ipynb", ("code", wait.format(mine=mine, other=other)))
    paths = sorted(tmp_path.glob("*.ipynb"))
    results = execute.run([(path, execute.read(path)) for path in paths], 5, Silent(), timeout=60)
    assert [result.path for result in results] == paths
    assert [result.error for result in results] == [None, None]
    assert [result.notebook.cells[0].outputs[0].text for result in results] == ["2 2\n", "2 2\n"]


def test_results_do_not_depend_on_the_number_of_cores(tmp_path):
    code = """
import matplotlib.pyplot as plt
import qkv
from qkv.reproduce import check
qkv.manual_seed({seed})
out, weights = qkv.scaled_dot_product_attention(*(qkv.randn(2, 3, 257, 31) for _ in range(3)), return_weights=True)
check.close("D0-18", "output", out, out.copy() + 1)
plt.imshow(weights[0, 0]);
"""
    for seed in (0, 1):
        write(tmp_path, f"{seed}.ipynb", ("code", code.format(seed=seed)))
    paths = sorted(tmp_path.glob("*.ipynb"))
    one, four = (
        execute.run([(path, execute.read(path)) for path in paths], cores, Silent(), timeout=60)
        for cores in (1, 4)
    )
    assert [result.error for result in one + four] == [None] * 4
    assert [result.records for result in one] == [result.records for result in four]
    assert all(record["difference"] for result in one for record in result.records)
    assert [p.png for result in one for p in result.pictures] == [p.png for r in four for p in r.pictures]


def test_a_user_s_number_of_threads_is_the_number_of_cores_and_a_cell_s_time_is_limited(
    monkeypatch, tmp_path, command, no_kernels
):
    seen = []
    original = execute.run

    def run(notebooks, cores, progress, timeout):
        seen.append((cores, timeout))
        return original(notebooks, cores, progress)

    monkeypatch.setattr(execute, "run", run)
    write(
        tmp_path / "notebooks",
        "a.ipynb",
        ("markdown", "## D0-01"),
        ("code", "check.equal('D0-01', 'x', 1, 1)"),
    )
    import qkv

    before = qkv.get_num_threads()
    try:
        qkv.set_num_threads(1)
        for more in ([], ["--full"], ["--timeout", "7.5"]):
            assert command("reproduce", "D0-01", *more)[0] == 0
    finally:
        qkv.set_num_threads(before)
    assert seen == [(1, execute.TIMEOUT), (1, execute.LONG_TIMEOUT), (1, 7.5)]


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize(
    ("number", "status", "words"), [(signal.SIGTERM, 143, "terminated"), (signal.SIGINT, 130, "interrupted")]
)
def test_a_run_that_is_ended_cleans_up(tmp_path, number, status, words):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    started = tmp_path / "started"
    code = f"open({str(started)!r} + str(__import__('os').getpid()), 'w')\n__import__('time').sleep(600)"
    for name in ("a.ipynb", "b.ipynb"):
        write(tmp_path / "notebooks", name, ("markdown", "## D0-01"), ("code", code))
    program = (
        "import sys, pathlib; from qkv import cli; from qkv.reproduce import registry; "
        f"registry.find_notebooks = lambda: pathlib.Path({str(tmp_path / 'notebooks')!r}); "
        "sys.exit(cli.main(['reproduce', 'D0-01']))"
    )
    environment = {**os.environ, "TMPDIR": str(temporary), "QKV_NUM_THREADS": "2"}
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        deadline = time.monotonic() + 60
        while len(list(tmp_path.glob("started*"))) < 2 and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(number)
        out, err = process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode == status, err
    assert (out, err) == ("", f"qkv: {words}; nothing was written\n")
    assert os.listdir(temporary) == []
    assert not (tmp_path / "reproduced").exists()
    for path in tmp_path.glob("started*"):
        with pytest.raises(ProcessLookupError):
            os.kill(int(path.name.removeprefix("started")), 0)


def test_jupyter_that_is_missing(command, tmp_path, monkeypatch):
    monkeypatch.setattr(execute, "NEEDED", ("nbformat", "no_such_client"))
    status, _, err = command("reproduce", "D0-03")
    assert status == 2
    assert 'needs no_such_client, which is not installed; pip install "qkv[notebooks]"' in err


def test_a_terminal_shows_a_bar_and_a_log_lines(monkeypatch, capsys):
    class Terminal:
        def isatty(self):
            return True

    assert isinstance(terminal.progress(2, 5, Terminal()), terminal.Bar)
    assert isinstance(terminal.progress(2, 5, sys.stderr), terminal.Log)
