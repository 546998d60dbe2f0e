"""Stored results of trainings, and the run that makes them again."""

import os

import numpy as np
import pytest

import qkv
from qkv import cli, nn, optim, training
from qkv.reproduce import kept_tokens, registry, trained, trainings

BATCHES = [(x, x[:, ::-1].copy()) for x in np.random.default_rng(0).normal(size=(6, 5, 3)).astype("float32")]


def make(seed=0):
    qkv.manual_seed(seed)
    model = nn.Linear(3, 3)
    return training.Trainer(
        model, optim.Adam(model.parameters(), lr=0.1), lambda model, b: qkv.losses.mse(model(b[0]), b[1])
    )


@pytest.fixture
def stored(tmp_path, monkeypatch):
    monkeypatch.setattr(trainings, "STORED", tmp_path / "stored")
    monkeypatch.delenv(trainings.VARIABLE, raising=False)
    trainer = make()
    trainer.fit(BATCHES, epochs=30)
    trainer.history.evaluations.append({"step": 180, "epoch": 30, "exact": 0.5})
    trainings.save(tmp_path / "stored" / "mirror.npz", trainer.model, trainer.history)
    return trainer


def test_stored_results_are_shown(stored, capsys):
    trainer = make(seed=1)
    history = trained("mirror", trainer, BATCHES, epochs=30)
    assert history is trainer.history
    np.testing.assert_allclose(trainer.model.weight.numpy(), stored.model.weight.numpy(), atol=1e-3)
    assert trainer.model.weight.dtype == np.float32
    assert not trainer.model.training
    np.testing.assert_allclose(history.loss, stored.history.loss, rtol=1e-6)
    assert history.evaluations == stored.history.evaluations
    assert history.epoch_ends == stored.history.epoch_ends
    assert capsys.readouterr().out == "mirror: stored results of 180 updates, which took 0 s\n"


def test_a_full_run_trains(stored, tmp_path, capsys):
    trainer = make()
    with trainings.anew(tmp_path / "new"):
        history = trained("mirror", trainer, BATCHES, epochs=2)
    assert len(history) == 12
    np.testing.assert_array_equal(history.loss, stored.history.loss[:12])
    other = make(seed=1)
    again = trainings.load(tmp_path / "new" / "mirror.npz", other.model)
    np.testing.assert_allclose(other.model.weight.numpy(), trainer.model.weight.numpy(), atol=1e-3)
    assert len(again) == 12
    assert "mirror: 12 updates in " in capsys.readouterr().out
    assert trainings.VARIABLE not in os.environ


def test_the_vocabulary_is_that_of_the_stored_model(stored, tmp_path):
    with trainings.anew(trainings.STORED):
        assert kept_tokens("mirror", "äb") == ["ä", "b"]
    assert kept_tokens("mirror", ["other", "tokens"]) == ["ä", "b"]
    with pytest.raises(FileNotFoundError):
        kept_tokens("nothing", "ab")


def test_the_variable_comes_back(monkeypatch, tmp_path):
    monkeypatch.setenv(trainings.VARIABLE, "before")
    with trainings.anew(tmp_path):
        assert os.environ[trainings.VARIABLE] == str(tmp_path)
    assert os.environ[trainings.VARIABLE] == "before"


def test_unknown_and_damaged_results(stored):
    with pytest.raises(FileNotFoundError):
        trained("nothing", make(), BATCHES, epochs=1)
    path = trainings.STORED / "mirror.npz"
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(training.CheckpointError, match="damaged"):
        trained("mirror", make(), BATCHES, epochs=1)


def test_full_on_the_command_line(tmp_path, monkeypatch, capsys):
    pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("matplotlib")
    code = """
import numpy as np
import qkv
from qkv import nn, optim, training
from qkv.reproduce import check, trained
model = nn.Linear(2, 1)
trainer = training.Trainer(model, optim.SGD(model.parameters(), lr=0.1), lambda m, x: (m(x) ** 2).mean())
history = trained("zero", trainer, [np.ones((3, 2))], steps=50)
check.that("D0-01", "loss", history.loss[-1] < 1e-4, history.loss[-1])
"""
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_markdown_cell("# T\n## D0-01"), nbformat.v4.new_code_cell(code)]
    )
    (tmp_path / "notebooks").mkdir()
    nbformat.write(notebook, tmp_path / "notebooks" / "t.ipynb")
    monkeypatch.setattr(registry, "find_notebooks", lambda: tmp_path / "notebooks")
    monkeypatch.chdir(tmp_path)
    assert cli.main(["reproduce", "D0-01", "--full"]) == 0, capsys.readouterr().out
    assert os.listdir(tmp_path / "reproduced" / "trainings") == ["zero.npz"]
    assert cli.main(["reproduce", "D0-01"]) == 1  # nothing is stored under this name
    assert "FileNotFoundError" in capsys.readouterr().out
    assert os.listdir(tmp_path / "reproduced" / "trainings") == ["zero.npz"]
