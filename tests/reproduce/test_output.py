"""The output folder: what is there survives errors, foreign files stay, one run at a time, and updates add up."""

import errno
import json
import os
import re
import subprocess
import sys

import pytest

from qkv.reproduce import execute, output, registry, results, site

from .small_notebooks import write

ONE = ("code", "check.equal('D0-01', 'a number', 3, 3)")
TWO = ("code", "check.equal('D0-02', 'another', 4, 4)\nfigure('Dots')")


@pytest.fixture
def books(tmp_path):
    """Two notebooks, each with one experiment."""
    write(tmp_path / "notebooks", "a.ipynb", ("markdown", "# A\n## D0-01"), ONE)
    write(tmp_path / "notebooks", "b.ipynb", ("markdown", "# B\n## D0-02"), TWO)
    return tmp_path / "notebooks"


def tree(folder):
    """Return the files below a folder with their content."""
    return {name: (folder / name).read_bytes() for name in output.files(folder)}


class TestUpdates:
    def test_a_filtered_run_adds_to_the_site_and_to_the_results(self, command, books, no_kernels, tmp_path):
        assert command("reproduce", "D0-01")[0] == 0
        index = (tmp_path / "reproduced" / "index.html").read_text()
        assert "D0-01" in index
        assert "have not been run into this folder" in index
        status, out, _ = command("reproduce", "D0-02")
        assert status == 0
        assert "1 experiment, 1 check, all ok, 1 figure" in out
        folder = tmp_path / "reproduced"
        index = (folder / "index.html").read_text()
        assert 'href="notebooks/a.html#D0-01"' in index
        assert 'href="notebooks/b.html#D0-02"' in index
        stored = json.loads((folder / "results.json").read_text())
        assert sorted(stored["notebooks"]) == ["a.ipynb", "b.ipynb"]
        assert sorted(stored["files"]) == output.files(folder)
        assert os.listdir(folder / "figures") == ["D0-02.png"]

    def test_a_notebook_that_runs_again_is_replaced(self, command, books, no_kernels, tmp_path):
        assert command("reproduce", "D0-01", "D0-02")[0] == 0
        write(
            books, "b.ipynb", ("markdown", "# B\n## D0-02"), ("code", "check.equal('D0-02', 'changed', 4, 5)")
        )
        assert command("reproduce", "D0-02")[0] == 1
        folder = tmp_path / "reproduced"
        page = (folder / "notebooks" / "b.html").read_text()
        assert "changed" in page
        assert "another" not in page
        assert not (folder / "figures").exists()
        assert "a number" in (folder / "notebooks" / "a.html").read_text()
        assert 'id="failures"' in (folder / "index.html").read_text()
        assert command("reproduce", "D0-01")[0] == 0  # says what this run has shown, and keeps the failure
        assert 'id="failures"' in (folder / "index.html").read_text()

    def test_a_whole_run_starts_anew(self, command, books, no_kernels, tmp_path, monkeypatch):
        two = {id: registry.Experiment(id, id, "D0") for id in ("D0-01", "D0-02")}
        monkeypatch.setattr(registry, "experiments", lambda: two)
        assert command("reproduce")[0] == 0
        folder = tmp_path / "reproduced"
        assert (folder / "notebooks" / "b.html").exists()
        (books / "b.ipynb").unlink()
        assert command("reproduce")[0] == 1  # nobody treats D0-02 any more
        assert sorted(os.listdir(folder / "notebooks")) == ["a.html", "a.ipynb"]

    def test_results_that_cannot_be_read_stop_a_filtered_run(self, command, books, no_kernels, tmp_path):
        assert command("reproduce", "D0-01")[0] == 0
        folder = tmp_path / "reproduced"
        for text in ("{", "[]", '{"format": 99, "notebooks": {}}', '{"format": 1}'):
            (folder / "results.json").write_text(text)
            before = tree(folder)
            status, _, err = command("reproduce", "D0-02")
            assert status == 2
            assert re.search(r"results of an earlier run must be readable .* got .*results\.json", err)
            assert err.count("\n") == 1
            assert tree(folder) == before

    def test_a_notebook_that_is_gone_stops_a_filtered_run(self, command, books, no_kernels, tmp_path):
        assert command("reproduce", "D0-01")[0] == 0
        (tmp_path / "reproduced" / "notebooks" / "a.ipynb").unlink()
        status, _, err = command("reproduce", "D0-02")
        assert status == 2
        assert "or a file that it names, which is damaged" in err


class TestForeignFiles:
    def test_they_stay(self, command, books, no_kernels, tmp_path):
        folder = tmp_path / "reproduced"
        assert command("reproduce", "D0-01", "D0-02")[0] == 0
        mine = {"mine.txt": b"1", "notebooks/mine.ipynb": b"2", "figures/mine.png": b"3"}
        for name, content in mine.items():
            (folder / name).write_bytes(content)
        assert command("reproduce", "D0-01", "D0-02")[0] == 0
        found = tree(folder)
        assert {name: found[name] for name in mine} == mine

    @pytest.mark.parametrize("name", ["index.html", "notebooks/a.ipynb", "assets/style.css", "results.json"])
    def test_they_are_never_replaced(self, command, books, no_kernels, tmp_path, name):
        folder = tmp_path / "out"
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text("{}")
        status, out, err = command("reproduce", "D0-01", "--output", "out")
        assert (status, out) == (2, "")
        assert re.search(r"output must be (a new folder or one that an earlier run wrote|.*)|readable", err)
        assert err.count("\n") == 1
        assert tree(folder) == {name: b"{}"}

    def test_a_figure_of_others_is_noticed_before_anything_is_replaced(
        self, command, books, no_kernels, tmp_path
    ):
        folder = tmp_path / "reproduced"
        (folder / "figures").mkdir(parents=True)
        (folder / "figures" / "D0-02.png").write_text("mine")
        status, _, err = command("reproduce", "D0-02")
        assert status == 2
        assert "which holds its own figures/D0-02.png" in err
        assert tree(folder) == {"figures/D0-02.png": b"mine"}

    def test_a_list_of_files_reaches_nothing_outside(self, tmp_path):
        (tmp_path / "out").mkdir()
        for name in ("mine", "out/other.txt"):
            (tmp_path / name).write_text("mine")
        names = ["../mine", "notebooks/../../mine", str(tmp_path / "mine")]
        assert output.own_files(tmp_path / "out", {"files": names}) == []


class TestBadFolders:
    @pytest.fixture(autouse=True)
    def nothing_runs(self, monkeypatch):
        monkeypatch.setattr(execute, "run", lambda *a: pytest.fail("a notebook ran"))

    @pytest.mark.parametrize(
        ("folder", "words"),
        [
            ("", "output must name a folder; got ''"),
            ("file", "output must be a folder; got .*file, where .*file is a file"),
            ("file/below", "output must be a folder; got .*below, where .*file is a file"),
            (".", "which holds its own notebooks/a.ipynb"),
        ],
    )
    def test_they_are_refused(self, command, books, tmp_path, folder, words):
        (tmp_path / "file").write_text("")
        status, out, err = command("reproduce", "D0-01", "--output", folder)
        assert (status, out) == (2, "")
        assert re.search(words, err)
        assert err.count("\n") == 1
        assert sorted(os.listdir(tmp_path)) == ["file", "notebooks"]

    def test_a_folder_that_cannot_be_written(self, command, books, tmp_path, monkeypatch):
        def refuse(*arguments, **options):
            raise PermissionError(errno.EACCES, "Permission denied")

        (tmp_path / "out").mkdir()
        monkeypatch.setattr(output.tempfile, "mkdtemp", refuse)
        status, _, err = command("reproduce", "D0-01", "--output", "out")
        assert status == 2
        assert re.search(r"output must be a folder that can be written; got .*out: Permission denied\n", err)

    @pytest.mark.skipif(sys.platform == "win32", reason="locks of POSIX")
    def test_a_folder_that_another_run_writes_to(self, command, books, tmp_path):
        folder = tmp_path / "out"
        program = (
            "import sys, pathlib; from qkv.reproduce import output\n"
            f"with output.locked(pathlib.Path({str(folder)!r})): print('held', flush=True); sys.stdin.read()"
        )
        with subprocess.Popen(
            [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as other:
            assert other.stdout.readline() == "held\n"
            status, _, err = command("reproduce", "D0-01", "--output", "out")
            assert status == 2
            assert re.search(
                r"another run of qkv reproduce writes to .*out; wait for it or choose another", err
            )
            other.communicate("")
        assert not folder.exists()  # made by the other run, which left nothing

    @pytest.mark.parametrize("seconds", ["0", "-1", "nan", "inf"])
    def test_a_timeout_that_is_none(self, command, books, seconds):
        status, _, err = command("reproduce", "D0-01", "--timeout", seconds)
        assert status == 2
        assert "timeout must be above 0 seconds and below 2 ** 31; got" in err

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
    def test_bad_usage_gives_status_2(self, command, arguments, words):
        status, out, err = command(*arguments)
        assert (status, out) == (2, "")
        assert re.search(words, err)

    def test_list(self, command, tmp_path):
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


class TestErrorsOnTheWay:
    """In all cases the result of the earlier run is as it was, and nothing else is left."""

    @pytest.fixture
    def earlier(self, command, books, no_kernels, tmp_path):
        assert command("reproduce", "D0-01")[0] == 0
        return tree(tmp_path / "reproduced")

    @pytest.mark.parametrize("error", [KeyboardInterrupt, OSError(errno.ENOSPC, "No space left on device")])
    @pytest.mark.parametrize("place", [1, 4, 9, 12])
    def test_while_files_are_moved(self, command, earlier, tmp_path, monkeypatch, error, place):
        replace, calls = os.replace, []

        def interrupted(source, target):
            calls.append(target)
            if len(calls) == place:
                raise error
            replace(source, target)

        monkeypatch.setattr(os, "replace", interrupted)
        status, _, err = command("reproduce", "D0-01", "D0-02")
        assert status == (130 if error is KeyboardInterrupt else 2)
        assert err.splitlines()[-1].startswith("qkv: ")
        assert tree(tmp_path / "reproduced") == earlier

    def test_while_notebooks_run(self, command, earlier, tmp_path, monkeypatch):
        def interrupted(*arguments):
            raise KeyboardInterrupt

        monkeypatch.setattr(execute, "run", interrupted)
        assert command("reproduce", "D0-02")[::2] == (130, "qkv: interrupted; nothing was written\n")
        assert tree(tmp_path / "reproduced") == earlier

    def test_what_has_come_to_its_end_is_kept(self, command, books, no_kernels, tmp_path, monkeypatch):
        """The next run of all computes the other notebooks alone, unless one has changed or was run by hand."""
        ran, run = [], execute.run

        def interrupted(notebooks, cores, progress, timeout=0):
            run(notebooks[:1], cores, progress, timeout)
            raise KeyboardInterrupt

        def whole(notebooks, cores, progress, timeout=0):
            ran[:] = [path.name for path, _ in notebooks]
            return run(notebooks, cores, progress, timeout)

        names = sorted(path.name for path in (tmp_path / "notebooks").glob("*.ipynb"))
        monkeypatch.setattr(execute, "run", interrupted)
        monkeypatch.setattr(execute, "version", lambda: "0.1")
        status, _, err = command("reproduce")
        told = (
            f"qkv: interrupted; 1 of {len(names)} notebooks are kept in reproduced; run it again to continue"
        )
        assert (status, err.splitlines()[-1]) == (130, told)
        assert [path.name for path in (tmp_path / "reproduced" / "notebooks").glob("*.ipynb")] == names[:1]
        monkeypatch.setattr(execute, "run", whole)
        command("reproduce")
        assert ran == names[1:]
        assert sorted(path.name for path in (tmp_path / "reproduced" / "notebooks").glob("*.ipynb")) == names
        command("reproduce")
        assert ran == names
        monkeypatch.setattr(execute, "run", interrupted)
        command("reproduce")
        monkeypatch.setattr(execute, "version", lambda: "0.2")
        monkeypatch.setattr(execute, "run", whole)
        command("reproduce")
        assert ran == names

    def test_a_disk_that_is_full(self, command, earlier, tmp_path, monkeypatch):
        def full(*arguments, **options):
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(site, "write", full)
        status, _, err = command("reproduce", "D0-02")
        assert status == 2
        assert re.search(
            r"qkv: .*output must be a folder that can be written; got .*: No space left on device\n$", err
        )
        assert tree(tmp_path / "reproduced") == earlier

    @pytest.mark.skipif(sys.platform != "linux", reason="mounts a small disk")
    def test_a_small_disk(self, command, books, no_kernels, tmp_path):
        folder = tmp_path / "disk"
        folder.mkdir()
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=20k", "none", folder], capture_output=True
        )
        if mounted.returncode:
            pytest.skip("needs the right to mount")
        try:
            status, _, err = command("reproduce", "D0-01", "--output", "disk")
            assert status == 2
            assert "No space left on device" in err
            assert os.listdir(folder) == []
        finally:
            subprocess.run(["umount", folder], check=True)

    def test_what_a_killed_run_left_is_removed(self, command, earlier, tmp_path):
        left = tmp_path / "reproduced" / ".qkv-reproduce-abc"
        (left / "new").mkdir(parents=True)
        (left / "new" / "index.html").write_text("half")
        assert command("reproduce", "D0-01")[0] == 0
        assert not left.exists()


def test_results_of_long_trainings_stay_until_there_are_new_ones(command, books, no_kernels, tmp_path):
    trains = """
import os, pathlib
folder = os.environ.get("QKV_REPRODUCE_FULL")
if folder:
    pathlib.Path(folder).mkdir(exist_ok=True)
    (pathlib.Path(folder) / "zero.npz").write_text("results")
check.equal("D0-01", "a number", 3, 3)
"""
    write(books, "a.ipynb", ("markdown", "# A\n## D0-01"), ("code", trains))
    assert command("reproduce", "D0-01", "--full")[0] == 0
    kept = tmp_path / "reproduced" / "trainings" / "zero.npz"
    for arguments in (["D0-01"], ["D0-02"], ["D0-01", "--full"], ["D0-01"]):
        assert command("reproduce", *arguments)[0] == 0
        assert kept.read_text() == "results"
        assert "trainings/zero.npz" in results.about(tmp_path / "reproduced")["files"]
