"""The registry of experiments: what is expected, which notebook makes it, how a person chooses."""

import json

import pytest

from qkv.reproduce import registry
from qkv.reproduce.registry import UnknownExperimentError


def write(path, *cells):
    path.write_text(json.dumps({"cells": [{"cell_type": kind, "source": source} for kind, source in cells]}))


def test_the_registry_names_every_experiment_once():
    known = registry.experiments()
    assert {id: sum(e.document == id for e in known.values()) for id in registry.documents()} == {
        "D0": 33,
        "D1": 24,
        "D2": 15,
        "D3": 34,
        "D4": 13,
        "X": 10,
        "T": 12,
    }
    assert all(e.title and id.startswith(e.document + "-") for id, e in known.items())
    assert list(known) == list(dict.fromkeys(known))


def test_ids_choose_documents_patterns_and_experiments():
    known = list(registry.experiments())
    assert registry.select([], known) == known
    assert registry.select(["D0-18", "d0-03"], known) == ["D0-03", "D0-18"]
    assert registry.select(["D2"], known) == [f"D2-{i:02}" for i in range(15)]
    assert registry.select(["D4-0*"], known) == [f"D4-0{i}" for i in range(1, 10)]
    assert registry.select(["x"], known) == [
        "X-MHA",
        "X-CE",
        "X-ACT",
        "X-OPT",
        "X-CLIP",
        "X-GRU",
        "X-SCORES",
        "X-MASKS",
        "X-KINDS",
        "X-COST",
    ]
    for wrong in ("D0-99", "D9", "D7-*", ""):
        with pytest.raises(UnknownExperimentError, match=f"--list' shows; got '{wrong}'".replace("*", r"\*")):
            registry.select(["D0-18", wrong], known)


def test_notebooks_are_found_by_their_headings_and_checks(tmp_path):
    write(
        tmp_path / "b.ipynb",
        ("markdown", ["# Title\n", "## D0-04 and D0-05: kernels\n", "text about D0-01"]),
        ("code", 'check.close("D0-06", "x", 1.0, 1.0)  # like D0-02'),
    )
    write(tmp_path / "a.ipynb", ("markdown", "## D0-05"), ("code", "check.figure('F-D0-03', fig)"))
    found = {id: [path.name for path in paths] for id, paths in registry.notebooks_by_id(tmp_path).items()}
    assert found == {
        "D0-05": ["a.ipynb", "b.ipynb"],
        "D0-03": ["a.ipynb"],
        "D0-04": ["b.ipynb"],
        "D0-06": ["b.ipynb"],
    }


def test_the_folder_of_notebooks(tmp_path, monkeypatch):
    package = tmp_path / "python" / "qkv" / "reproduce"
    package.mkdir(parents=True)
    monkeypatch.setattr(registry, "__file__", str(package / "registry.py"))
    assert registry.find_notebooks() == tmp_path / "python" / "qkv" / "notebooks"
    (tmp_path / "notebooks").mkdir()
    assert registry.find_notebooks() == tmp_path / "notebooks"
    installed = tmp_path / "site-packages" / "qkv" / "reproduce"
    installed.mkdir(parents=True)
    monkeypatch.setattr(registry, "__file__", str(installed / "registry.py"))
    assert registry.find_notebooks() == tmp_path / "site-packages" / "qkv" / "notebooks"
