"""A sample of the mutations: what is perturbed inside qkv turns the experiments of a short notebook red."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")

import mutations
from picture_perturbations import PICTURES

from qkv.reproduce import registry

NOTEBOOK = registry.find_notebooks() / "d1_1_attention_by_hand.ipynb"


@pytest.fixture(scope="module")
def table():
    return mutations.mutate(["none", "results", "gradients", "plots"], [NOTEBOOK])


def test_without_a_perturbation_all_is_green(table):
    assert [id for id, row in table.cells.items() if row["none"] != "green"] == []


def test_each_experiment_turns_red(table):
    ids = registry.ids_of(NOTEBOOK)
    assert set(table.cells) == set(ids)
    assert [id for id in ids if not table.red(id)] == []


def test_a_perturbation_turns_what_it_concerns_red(table):
    assert [id for id in table.cells if "gradients" in table.red(id)] == ["D1-02"]
    assert [id for id in table.cells if "plots" in table.red(id)] == ["D1-01", "D1-02", "D1-08"]


@pytest.mark.parametrize(
    ("notebook", "names"),
    [
        ("d0_5_bahdanau", ["heatmaps_halved", "lines_reversed", "arrows_reversed"]),
        ("d3_6_bert", ["panels_swapped", "bars_reversed", "tick_labels_rolled", "titles_rolled"]),
        ("the_documents_own_code", ["d2l_heatmaps_halved", "heatmaps_transposed", "colours_by_a_power_law"]),
    ],
)
def test_what_is_drawn_wrong_is_seen(notebook, names):
    table = mutations.mutate(names, [NOTEBOOK.with_stem(notebook)])
    assert set(table.changed) == set(names)
    assert table.unseen == []


@pytest.mark.slow
def test_whatever_is_drawn_wrong_is_seen_everywhere():
    notebooks = sorted(path for path in NOTEBOOK.parent.glob("*.ipynb") if path.stem not in mutations.LONG)
    table = mutations.mutate(PICTURES, notebooks)
    assert set(table.changed) == set(PICTURES)
    assert table.unseen == []


def test_every_perturbation_finds_what_it_changes():
    program = "from mutations import PERTURBATIONS\nfor change in PERTURBATIONS.values(): change()"
    subprocess.run([sys.executable, "-c", program], check=True, cwd=Path(mutations.__file__).parent)


def test_programs_of_textbooks_turn_red_with_the_functions_that_they_call():
    table = mutations.mutate(["none", "textbooks"], [NOTEBOOK.with_stem("the_documents_own_code")])
    assert [id for id, row in table.cells.items() if row["none"] != "green"] == []
    assert [id for id, row in table.cells.items() if row.get("textbooks", "green") == "green"] == [
        "D1-12",  # infinities and NaN
        "D2-02",  # whole numbers
        "D4-04",  # equal copies
    ]


def test_the_table_names_what_was_never_red():
    table = mutations.Table()
    records = [
        {"id": id, "what": "a check", "state": state} for id, state in (("D0-01", "failed"), ("D0-02", "ok"))
    ]
    table.add(
        "results",
        {"d0_1": {"records": records, "raised": {"D0-03": "cell 3: ValueError", "D0-01": "cell 9"}}},
    )
    table.add("masks", {"d0_1": {"records": [{**record, "state": "ok"} for record in records], "raised": {}}})
    lines = table.text(["D0-01", "D0-02", "D0-03", "D3-31"], ["D3-31"]).splitlines()
    assert lines[0] == "4 experiments, 1 of them without qkv; red at least once: 1; never: D0-02, D0-03."
    assert "| D0-01 | red | · |" in lines
    assert "| D0-02 | · | · |" in lines
    assert "| D0-03 | raised |  |" in lines
    assert "| D3-31 (without qkv) |  |  |" in lines
    assert lines[-3:] == ["Checks that no perturbation turned red: 1 of 2.", "", "- D0-02, d0_1: a check"]


def test_experiments_without_qkv_are_named():
    assert set(registry.without_qkv()) <= set(registry.experiments())
