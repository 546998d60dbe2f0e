"""A sample of the mutations: what is perturbed inside qkv turns the experiments of a short notebook red."""

import pytest

pytest.importorskip("matplotlib")

import mutations

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
    assert [id for id in table.cells if "plots" in table.red(id)] == ["D1-01", "D1-08"]


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
