"""The command that measures: its rows, what it writes, and how figures are judged. No test looks at a time."""

from __future__ import annotations

import importlib
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


def sweep(*arguments: object) -> tuple[int, str]:
    package = str(Path(importlib.util.find_spec("qkv").origin).parents[1])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([package, os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run(
        [sys.executable, str(FOLDER / "sweep.py"), "--seconds", "0", *map(str, arguments)],
        env=environment, capture_output=True, text=True, timeout=100, cwd=ROOT,
    )  # fmt: skip
    assert not done.stderr, done.stderr
    return done.returncode, done.stdout


def test_the_sweep_compares_every_call_and_reports_what_is_below():
    code, printed = sweep("--sizes", 1, 10, "--below", 0)
    assert code == 0
    assert "0 of" in printed.splitlines()[-1]
    code, printed = sweep("--sizes", 1000, "--dtypes", "float32", "--below", 1e9, "--only", "^(sum|vector)")
    names = [line.split("  ")[0] for line in printed.splitlines()[1:-1]]
    assert code == 1
    assert {"sum axis 0 of 32 x 31", "sum axis (0, 2) of 10 x 10 x 10", "vector @ matrix"} <= set(names)
    code, printed = sweep(
        "--sizes", 100_000, "--dtypes", "float64", "--below", 0, "--all", "--only", "gradient"
    )
    assert code == 0
    assert "gradient of x + row" in printed


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
    return printed, json.loads(only(folder, "*.json").read_text(encoding="utf8")), folder


def only(folder: Path, pattern: str) -> Path:
    (path,) = (path for path in folder.glob(pattern) if path.name != "README.md")
    return path


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
    if row["no_quiet_turn"]:
        pytest.skip("the machine had no quiet moment")
    assert row["turns"] >= 1
    assert set(row["times"]) == {"qkv", "NumPy", "sgemm"}
    assert 0 < row["cpu"]["median"] < 10 * row["times"]["qkv"]["median"]
    for timing in row["times"].values():
        assert 0 < timing["least"] <= timing["low"] <= timing["median"] <= timing["high"]
    (figure,) = row["figures"]
    if row["turns"] == 1:  # of several it is the median of their ratios, as of the invented turns below
        assert figure["median"] == pytest.approx(
            row["times"]["NumPy"]["median"] / row["times"]["qkv"]["median"]
        )
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
        assert (name in printed) == (name in head["settings"])


def test_peers_are_held_to_avx2_where_qkv_is():
    names = ["ATEN_CPU_CAPABILITY", "CT2_FORCE_CPU_ISA", "ONEDNN_MAX_CPU_ISA", "OPENBLAS_CORETYPE"]
    others = {name: value for name, value in os.environ.items() if name not in names}
    program = f"import level, os; print(*(os.environ.get(name) for name in {names}), len(level.NOTES))"
    free = "None None None None 0"
    for level, expected in {"": free, "baseline": free, "avx2": "avx2 AVX2 AVX2 Haswell 1"}.items():
        done = subprocess.run(
            [sys.executable, "-c", program],
            env={**others, "QKV_ISA": level}, capture_output=True, text=True, timeout=60, cwd=FOLDER,
        )  # fmt: skip
        assert done.stdout.strip() == expected, level


def test_the_report_and_the_printed_text_are_the_same(tiny):
    printed, _, folder = tiny
    assert only(folder, "*.md").read_text(encoding="utf8").strip() == printed.strip()
    assert "Goals met: " in printed
    assert "| scaled dot-product (2, 5, 4, 20), NumPy arrays | 1 |" in printed


def test_the_index_names_each_cpu(tiny, tmp_path):
    _, results, earlier = tiny
    index = (earlier / "README.md").read_text(encoding="utf8")
    stem = only(earlier, "*.json").stem
    assert f"[{results['head']['cpu']}]({stem}.md)" in index
    folder = shutil.copytree(earlier, tmp_path / "two")
    shutil.copy(folder / f"{stem}.json", folder / "another-cpu.json")
    run("--only", "size of the ext", "--repeats", 1, "--threads", 1, "--output", folder)
    both = (folder / "README.md").read_text(encoding="utf8")
    assert "(another-cpu.md)" in both
    assert f"({stem}.md)" in both


def test_a_table_is_measured_piece_by_piece(tiny, tmp_path):
    _, results, earlier = tiny
    folder = shutil.copytree(earlier, tmp_path / "both")
    run("--keep", "--only", "import beyond", "--repeats", 1, "--threads", 1, "--output", folder)
    both = json.loads(only(folder, "*.json").read_text(encoding="utf8"))
    names = [row["name"] for row in results["rows"]]
    assert [row["name"] for row in both["rows"]] == [names[0], "import beyond NumPy", names[1]]
    assert both["rows"][0] == results["rows"][0] | {"roofline": both["rows"][0]["roofline"]}
    head = only(folder, "*.md").read_text(encoding="utf8").splitlines()[2]
    assert head.index(results["command"]) < head.index("then, for some rows") < head.index("--keep")


@pytest.fixture
def benchmark_module(monkeypatch):
    """Import a module of the benchmarks by name."""
    monkeypatch.syspath_prepend(str(FOLDER))
    before = set(sys.modules)
    yield importlib.import_module
    for name in set(sys.modules) - before:
        if str(FOLDER) in str(getattr(sys.modules[name], "__file__", None)):
            del sys.modules[name]


@pytest.fixture
def registry(benchmark_module):
    return benchmark_module("registry")


TIMES = {"qkv": [2.0, 4.0], "plain": [1.0, 2.0], "sgemm": [1.0, 1.0], "copy": [1.0, 3.0], "fill": [0.5, 1.0],
         "slow": [20.0, 20.0], "quick": [3.0, 3.0]}  # fmt: skip


@pytest.mark.parametrize(
    ("make", "expected", "met_at", "missed_at"),
    [
        (lambda r: r.of_sgemm(0.5), [0.5, 0.25], 0.5, 0.49),
        (lambda r: r.of_copy(0.8), [0.5, 0.75], 0.8, 0.79),
        (lambda r: r.faster_than("slow", 4.0), [10.0, 5.0], 4.0, 3.9),
        (lambda r: r.faster_than_best(["slow", "absent", "quick"], 1.3), [1.5, 0.75], 1.3, 1.2),
        (lambda r: r.time_over("slow", "quick", 2.0), [20 / 3, 20 / 3], 2.0, 2.1),
        (lambda r: r.cost(1.15), [4.0, 4.0], 1.15, 1.16),
        (lambda r: r.over_fill(1.35), [2.0, 2.0], 1.35, 1.4),
    ],
    ids=["sgemm", "copy", "faster", "best", "over", "cost", "fill"],
)
def test_figures_of_invented_times(registry, make, expected, met_at, missed_at):
    goal = make(registry)
    case = registry.Case({}, flops=2.0 * registry.SGEMM**3, work=0.5)
    assert goal.figure(TIMES, case) == pytest.approx(expected)
    assert goal.met(met_at) is True
    assert goal.met(missed_at) is False


def test_a_turn_counts_if_the_product_on_both_sides_of_it_was_quick(benchmark_module):
    quiet = benchmark_module("quiet")
    pace = quiet.Pace(lambda: None, lambda: None)
    pace.seconds = [1.0, 1.0, 1.0, 1.0, 3.0, 5.0, 5.0, 5.0]
    assert pace.best() == 1.0
    assert pace.is_quiet(quiet.Turn(1.0, 1.09))
    assert not pace.is_quiet(quiet.Turn(1.0, 1.11))
    assert not pace.is_quiet(quiet.Turn(1.11, 1.0))


def test_turns_are_repeated_until_enough_were_quiet(benchmark_module):
    measure, quiet, registry = map(benchmark_module, ("measure", "quiet", "registry"))
    pace = quiet.Pace(lambda: None, lambda: None)
    pace.seconds, calls = [1.0] * 20, []
    coming = iter([1.0, 5.0, 5.0, 1.0, 1.0, 1.0, 1.0])
    pace.probe = lambda: next(coming)
    case = registry.Case({"qkv": lambda: calls.append(1) or measure.time.sleep(0.003)})
    turns = measure.interleave(case, 2, 1, 100.0, pace)
    assert [pace.is_quiet(turn) for turn in turns] == [False, False, False, True, True]


def test_a_figure_of_several_turns_is_the_median_of_their_ratios(benchmark_module):
    measure, quiet, registry = map(benchmark_module, ("measure", "quiet", "registry"))
    pace = quiet.Pace(lambda: None, lambda: None)
    pace.seconds = [1.0] * 8
    goals = (registry.faster_than("slow", 2.0),)
    row = registry.Row("turns", "tiny", lambda threads: None, goals, (), False, "each", False, None)
    facts = {"name": "turns", "subject": "tiny", "threads": 1}
    turns = [
        quiet.Turn(1.0, 1.0, {"qkv": own, "slow": slow}, {"qkv": own})
        for own, slow in ((1, 2), (2, 6), (4, 10))
    ]
    turns.append(quiet.Turn(1.0, 4.0, {"qkv": 9.0, "slow": 9.0}, {"qkv": 9.0}))
    result = measure.judge(measure.Measured(row, registry.Case({}), turns, facts), pace)
    (figure,) = result["figures"]  # of 2, 3 and 2.5; the medians of the times would give 3
    assert (result["turns"], result["disturbed"]) == (3, 1)
    assert figure["median"] == result["ratios"]["slow"]["median"] == 2.5
    assert (figure["text"], figure["met"]) == (goals[0].show(2.5), True)
    assert (result["times"]["qkv"]["median"], result["times"]["slow"]["median"]) == (2, 6)


def test_a_row_without_a_quiet_turn_is_not_judged(benchmark_module):
    measure, quiet, registry, report = map(benchmark_module, ("measure", "quiet", "registry", "report"))
    pace = quiet.Pace(lambda: None, lambda: None)
    pace.seconds = [1.0] * 8
    row = registry.Row(
        "noisy", "tiny", lambda threads: None, (registry.of_sgemm(0.5),), (), False, "each", False, None
    )
    facts = {"name": "noisy", "subject": "tiny", "threads": 1, "axis": None, "flops": 1.0, "bytes": None,
             "peak_memory": None, "note": "", "peers": []}  # fmt: skip
    turn = quiet.Turn(1.0, 4.0, {"qkv": 2.0}, {"qkv": 1.0})
    result = measure.judge(measure.Measured(row, registry.Case({}, flops=1.0), [turn], facts), pace)
    assert result["no_quiet_turn"]
    assert result["figures"] == []
    assert "no quiet turn" in report.table([result])
    assert "Goals met: 0 of 0." in report.summary([result])


def test_a_share_of_sgemm_above_all_machines_is_a_fault_of_the_benchmark(benchmark_module):
    measure, quiet, registry, report = map(benchmark_module, ("measure", "quiet", "registry", "report"))
    pace = quiet.Pace(lambda: None, lambda: None)
    pace.seconds = [1.0] * 8
    row = registry.Row(
        "wild", "tiny", lambda threads: None, (registry.of_sgemm(0.5),), (), False, "each", False, None
    )
    facts = {"name": "wild", "subject": "tiny", "threads": 1, "axis": None, "bytes": None, "peak_memory": None,
             "note": "", "peers": [], "flops": 2.0 * registry.SGEMM**3}  # fmt: skip
    for wall, fault in ((0.96, False), (0.94, True)):
        turn = quiet.Turn(1.0, 1.0, {"qkv": wall}, {"qkv": wall})
        case = registry.Case({}, flops=2.0 * registry.SGEMM**3)
        result = measure.judge(measure.Measured(row, case, [turn], facts), pace)
        (figure,) = result["figures"]
        assert figure["fault"] is fault
        assert figure["met"] is (None if fault else True)
        assert bool(report.faults([result])) is fault


def test_no_kept_result_is_impossible(benchmark_module):
    report = benchmark_module("report")
    for path in (FOLDER / "results").glob("*.json"):
        assert report.faults(json.loads(path.read_text(encoding="utf8"))["rows"]) == []


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
