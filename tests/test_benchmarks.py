"""The command that measures: its rows, what it writes, and how figures are judged. No test looks at a time."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "benchmarks"
FILES = sorted(FOLDER.rglob("*.py"))
LINES = 400

pytestmark = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("matplotlib", "threadpoolctl")),
    reason="measuring needs matplotlib and threadpoolctl",
)


def run(*arguments: object, code: int = 0) -> str:
    package = str(Path(importlib.util.find_spec("qkv").origin).parents[1])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([package, os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run(
        [sys.executable, str(FOLDER), *map(str, arguments)],
        env=environment, capture_output=True, text=True, timeout=100, cwd=ROOT,
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    return done.stdout if code == 0 else done.stderr


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> tuple[str, dict, Path]:
    folder = tmp_path_factory.mktemp("results")
    printed = run(
        "--only",
        "NumPy arrays|size of the ext",
        "--repeats",
        1,
        "--threads",
        1,
        "--seconds",
        0.1,
        "--output",
        folder,
    )
    return printed, json.loads((folder / "results.json").read_text(encoding="utf8")), folder


def test_every_subject_has_rows():
    lines = run("--list").splitlines()
    subjects = {line.split(":")[0] for line in lines}
    files = {path.stem.replace("_", " ") for path in (FOLDER / "rows").glob("*.py")} - {"  init  "}
    assert subjects == files
    assert len(lines) == len(set(lines)) > 90


def test_only_takes_a_part_of_a_name_with_brackets_or_a_pattern():
    assert run("--list", "--only", "attention: attention (1, 8, 1024, 64)").count("\n") == 1
    assert run("--list", "--only", r"^minilm: MiniLM \(8, (64|256)\)").count("\n") == 2


def test_an_unknown_row_is_an_error():
    assert "no row matches nonsense" in run("--only", "nonsense", code=2)


def test_quick_is_a_part_of_all():
    every, quick = run("--list").splitlines(), run("--list", "--quick").splitlines()
    assert set(quick) < set(every)
    assert set(run("--list", "--full").splitlines()) > set(every)


def test_a_row_of_the_results(tiny):
    _, results, _ = tiny
    row = next(r for r in results["rows"] if "NumPy arrays" in r["name"])
    assert row["subject"] == "tiny"
    assert row["threads"] == 1
    assert row["turns"] == 1
    assert set(row["times"]) == {"qkv", "NumPy"}
    for timing in row["times"].values():
        assert 0 < timing["least"] <= timing["low"] <= timing["median"] <= timing["high"]
    (figure,) = row["figures"]
    assert figure["median"] == pytest.approx(row["times"]["NumPy"]["median"] / row["times"]["qkv"]["median"])
    assert figure["goal"] == "≥ 2.00"
    assert figure["met"] is (figure["median"] >= 2.0)
    assert row["ratios"]["NumPy"]["median"] == pytest.approx(figure["median"])


def test_a_row_that_measures_a_size(tiny):
    _, results, _ = tiny
    row = next(r for r in results["rows"] if "size" in r["name"])
    (figure,) = row["figures"]
    core = Path(importlib.util.find_spec("qkv._core").origin)
    assert figure["median"] == pytest.approx(core.stat().st_size / 1e6)
    assert row["times"] == {}


def test_the_head_tells_machine_settings_and_who_is_missing(tiny):
    printed, results, _ = tiny
    head = results["head"]
    assert {"cpu", "cores", "threads", "versions", "missing", "settings", "warnings"} <= set(head)
    assert head["versions"]["NumPy"]
    assert set(results["limits"]) == {"1"}
    assert all(rate > 0 for rate in results["limits"]["1"].values())
    for how in head["missing"].values():
        assert how in printed
    for name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
        assert (name in printed) == (name in os.environ)


def test_the_report_and_the_printed_text_are_the_same(tiny):
    printed, _, folder = tiny
    assert (folder / "RESULTS.md").read_text(encoding="utf8").strip() == printed.strip()
    assert "Goals met: " in printed
    assert "| scaled dot-product (2, 5, 4, 20), NumPy arrays | 1 |" in printed


def test_a_table_is_measured_piece_by_piece(tiny, tmp_path):
    _, results, earlier = tiny
    folder = shutil.copytree(earlier, tmp_path / "both")
    run("--keep", "--only", "import beyond", "--repeats", 1, "--threads", 1, "--output", folder)
    both = json.loads((folder / "results.json").read_text(encoding="utf8"))
    names = [row["name"] for row in results["rows"]]
    assert [row["name"] for row in both["rows"]] == [names[0], "import beyond NumPy", names[1]]
    assert both["rows"][0] == results["rows"][0] | {"roofline": both["rows"][0]["roofline"]}
    head = (folder / "RESULTS.md").read_text(encoding="utf8").splitlines()[2]
    assert head.index(results["command"]) < head.index("then, for some rows") < head.index("--keep")


@pytest.fixture
def registry():
    spec = importlib.util.spec_from_file_location("benchmarks_registry", FOLDER / "registry.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look for it
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


TIMES = {"qkv": [2.0, 4.0], "plain": [1.0, 2.0], "sgemm": [1.0, 1.0], "copy": [1.0, 3.0], "fill": [0.5, 1.0],
         "slow": [20.0, 20.0], "quick": [3.0, 3.0]}  # fmt: skip


@pytest.mark.parametrize(
    ("make", "expected", "met_at", "missed_at"),
    [
        (lambda r: r.of_sgemm(0.5), [0.5, 0.25], 0.5, 0.49),
        (lambda r: r.of_copy(0.8), [0.5, 0.75], 0.8, 0.79),
        (lambda r: r.faster_than("slow", 4.0), [10.0, 5.0], 4.0, 3.9),
        (lambda r: r.faster_than_best(["slow", "absent", "quick"], 1.3), [1.5, 0.75], 1.3, 1.2),
        (lambda r: r.cost(1.15), [4.0, 4.0], 1.15, 1.16),
        (lambda r: r.over_fill(1.35), [2.0, 2.0], 1.35, 1.4),
    ],
    ids=["sgemm", "copy", "faster", "best", "cost", "fill"],
)
def test_figures_of_invented_times(registry, make, expected, met_at, missed_at):
    goal = make(registry)
    case = registry.Case({}, flops=2.0 * registry.SGEMM**3, work=0.5)
    assert goal.figure(TIMES, case) == pytest.approx(expected)
    assert goal.met(met_at) is True
    assert goal.met(missed_at) is False


def test_a_figure_without_its_side_is_not_measured(registry):
    case = registry.Case({})
    assert registry.faster_than("absent", 1.0).figure(TIMES, case) == []
    assert registry.faster_than_best(["absent"], 1.0).figure(TIMES, case) == []


def test_a_figure_without_a_goal_is_not_judged(registry):
    assert registry.of_sgemm(None).met(0.1) is None


def test_sides_that_differ_are_not_timed(registry):
    registry.agree([1.0, 2.0], [1.0, 2.00001])
    with pytest.raises(AssertionError):
        registry.agree([1.0, 2.0], [1.0, 2.1])


def test_a_name_is_given_once(registry):
    registry.row("twice")(lambda threads: registry.Case({}))
    with pytest.raises(ValueError, match="name must be new"):
        registry.row("twice")


def test_explanations_belong_to_rows():
    path = FOLDER / "explanations.md"
    names = {line.split(": ", 1)[1].split("  [")[0] for line in run("--list", "--full").splitlines()}
    headings = [
        line[3:].strip() for line in path.read_text(encoding="utf8").splitlines() if line.startswith("## ")
    ]
    assert set(headings) <= names


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(FOLDER).as_posix())
def test_files_are_short(path):
    assert len(path.read_text(encoding="utf8").splitlines()) < LINES
