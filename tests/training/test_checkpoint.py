"""Checkpoints: written whole or not at all, resumed to the bit, refused where they are damaged."""

from __future__ import annotations

import json
import os
import pickle
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import qkv
from qkv import losses, nn, optim, training

sys.path.insert(0, str(Path(__file__).parent))
import runs


def differing(a, b):
    assert set(a) == set(b)
    return [name for name in a if not np.array_equal(a[name], b[name], equal_nan=True)]


@pytest.fixture(scope="module")
def unbroken():
    trainer, batches = runs.build()
    trainer.fit(batches, steps=runs.STEPS)
    return runs.everything(trainer)


@pytest.mark.parametrize("cuts", [(1,), (11, 12, 13), (7, 24, 59, 60)])
def test_a_resumed_run_has_the_bits_of_an_unbroken_one(tmp_path, unbroken, cuts):
    for cut in (*cuts, runs.STEPS):
        trainer, batches = runs.build(tmp_path / "run.npz")
        trainer.fit(batches, steps=cut, resume=True)
        assert len(trainer.history) == cut
    assert differing(runs.everything(trainer), unbroken) == []


def test_the_checkpoint_replaces_the_start(tmp_path, unbroken):
    trainer, batches = runs.build(tmp_path / "run.npz")
    trainer.fit(batches, steps=20)
    other, _ = runs.build(tmp_path / "run.npz", seed=4)
    other.fit(batches, steps=runs.STEPS, resume=True)
    assert differing(runs.everything(other), unbroken) == []


def test_without_resume_a_run_starts_anew(tmp_path, unbroken):
    for _ in range(2):
        trainer, batches = runs.build(tmp_path / "run.npz")
        trainer.fit(batches, steps=9)
    np.testing.assert_array_equal(trainer.history.loss, unbroken["loss"][:9])


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_killed_again_and_again_and_resumed(tmp_path, unbroken):
    """A process that writes after every update is killed at random moments, so also in the middle of writing."""
    program = [sys.executable, str(Path(runs.__file__)), str(tmp_path)]
    moments = random.Random(5)
    kills, done = 0, tmp_path / "done.npz"
    while not done.exists():
        assert kills < 40, "the run makes no progress"
        process = subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert process.stdout.readline() == "ready\n", process.stderr.read()
        if kills < 6:
            time.sleep(moments.uniform(0.0, 0.15 if kills % 2 else 0.03))
            process.send_signal(signal.SIGKILL)
            kills += process.wait() == -signal.SIGKILL
        assert process.wait() in (0, -signal.SIGKILL), process.stderr.read()
        process.stdout.close()
        process.stderr.close()
        if (tmp_path / "run.npz").exists():
            training.load_arrays(tmp_path / "run.npz")  # whole at every moment
    assert kills >= 2
    with np.load(done) as found:
        assert differing(dict(found), unbroken) == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("call", ["write", "fsync", "replace"])
def test_killed_while_it_writes(tmp_path, call, monkeypatch):
    """The process dies in the middle of the file, before it is on the disk, or before it has its name."""
    path = tmp_path / "run.npz"
    training.save_arrays(path, {"x": np.arange(5)}, {"step": 1})
    program = f"""
import os, signal, numpy as np
from qkv import training
def die(*args, **kwargs): os.kill(os.getpid(), signal.SIGKILL)
if {call!r} == "write":
    write_array = np.lib.format.write_array
    def half(file, table, **options):
        write_array(file, table[: len(table) // 2], **options); die()
    np.lib.format.write_array = half
else:
    os.{call if call != "write" else "fsync"} = die
training.save_arrays({str(path)!r}, {{"x": np.arange(5000)}}, {{"step": 2}})
"""
    result = subprocess.run([sys.executable, "-c", program])
    assert result.returncode == -signal.SIGKILL
    arrays, facts = training.load_arrays(path)
    np.testing.assert_array_equal(arrays["x"], np.arange(5))
    assert facts == {"step": 1}
    assert [name.startswith(".run.npz.") for name in sorted(os.listdir(tmp_path))] == [True, False]
    training.save_arrays(path, {"x": np.arange(7)}, {"step": 3})
    assert os.listdir(tmp_path) == ["run.npz"]


class TestFiles:
    CONTENT = {  # noqa: RUF012
        "float": np.array([[1.5, -0.0, np.nan], [np.inf, 5e-324, 2**53 + 1.0]]),
        "half": np.arange(3, dtype="float16"),
        "integer": np.array(-(2**63)),
        "empty": np.zeros((0, 3), "float32"),
        "bool": np.array([True, False]),
        "with.dots/and slash": np.arange(4)[::-2],
    }

    def test_what_is_read_is_what_was_written(self, tmp_path):
        facts = {"a": [1, 0.1, None, True, {"ü": "\n"}], "nan": float("inf")}
        training.save_arrays(tmp_path / "x.npz", self.CONTENT, facts)
        arrays, found = training.load_arrays(tmp_path / "x.npz")
        assert found == facts
        assert arrays.keys() == self.CONTENT.keys()
        for name, table in self.CONTENT.items():
            assert arrays[name].dtype == table.dtype
            assert arrays[name].shape == table.shape
            assert arrays[name].tobytes() == table.tobytes()

    def test_numpy_opens_it_without_pickle(self, tmp_path):
        training.save_arrays(tmp_path / "x.npz", {"w": np.ones(2)}, {"k": 1})
        with np.load(tmp_path / "x.npz", allow_pickle=False) as archive:
            np.testing.assert_array_equal(archive["w"], np.ones(2))
            assert json.loads(json.loads(archive["facts"].tobytes())["facts"]) == {"k": 1}

    def test_every_cut_and_every_flipped_byte_is_noticed(self, tmp_path):
        path = tmp_path / "x.npz"
        training.save_arrays(path, {"w": np.arange(5.0), "v": np.arange(3)}, {"k": 1})
        whole = path.read_bytes()
        before = training.load_arrays(path)
        for size in range(0, len(whole), 17):
            path.write_bytes(whole[:size])
            with pytest.raises(
                training.CheckpointError, match=rf"x.npz must be a whole file.*got {size} bytes"
            ):
                training.load_arrays(path)
        harmless = 0
        for place in range(len(whole)):
            path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x15]) + whole[place + 1 :])
            try:
                arrays, facts = training.load_arrays(path)
            except training.CheckpointError:
                continue
            harmless += 1  # bytes of the archive that no content depends on, such as its date
            assert facts == before[1]
            for name in arrays:
                np.testing.assert_array_equal(arrays[name], before[0][name])
        assert harmless < 0.4 * len(whole)

    def test_no_pickle_is_ever_opened(self, tmp_path):
        class Evil:
            def __reduce__(self):
                return (os.system, ("touch " + str(tmp_path / "owned"),))

        (tmp_path / "x.npz").write_bytes(pickle.dumps(Evil()))
        with pytest.raises(training.CheckpointError):
            training.load_arrays(tmp_path / "x.npz")
        with (tmp_path / "y.npz").open("wb") as file:
            np.savez(file, facts=np.array([Evil()], dtype=object))
        with pytest.raises(training.CheckpointError):
            training.load_arrays(tmp_path / "y.npz")
        assert not (tmp_path / "owned").exists()

    def test_other_files_are_refused(self, tmp_path):
        np.savez(tmp_path / "x.npz", w=np.ones(3))
        with pytest.raises(training.CheckpointError, match="damaged or of another kind"):
            training.load_arrays(tmp_path / "x.npz")
        with pytest.raises(FileNotFoundError):
            training.load_arrays(tmp_path / "missing.npz")

    def test_another_format_is_refused(self, tmp_path, monkeypatch):
        monkeypatch.setattr("qkv.training.checkpoint.FORMAT", 7)
        training.save_arrays(tmp_path / "x.npz", {}, {})
        monkeypatch.undo()
        with pytest.raises(training.CheckpointError, match=r"must have format 1 .*; got 7"):
            training.load_arrays(tmp_path / "x.npz")

    @pytest.mark.parametrize(
        ("arrays", "words"),
        [
            ({"facts": np.ones(1)}, "got 'facts' with dtype float64"),
            ({"x": np.array([None])}, "got 'x' with dtype object"),
            ({"x": np.array(["a"])}, "got 'x' with dtype <U1"),
        ],
    )
    def test_what_cannot_be_written(self, tmp_path, arrays, words):
        with pytest.raises(ValueError, match=words):
            training.save_arrays(tmp_path / "x.npz", arrays, {})
        assert os.listdir(tmp_path) == []

    def test_a_failed_write_leaves_the_old_file(self, tmp_path):
        training.save_arrays(tmp_path / "x.npz", {}, {"n": 1})
        with pytest.raises(TypeError):
            training.save_arrays(tmp_path / "x.npz", {}, {"n": object()})
        assert training.load_arrays(tmp_path / "x.npz") == ({}, {"n": 1})


class TestForeign:
    def test_a_checkpoint_of_another_kind_of_run(self, tmp_path):
        trainer, batches = runs.build(tmp_path / "run.npz")
        trainer.fit(batches, steps=1)
        other, _ = runs.build(tmp_path / "run.npz", accumulate=2)
        with pytest.raises(
            training.CheckpointError, match=r"the same kind of run, .*'accumulate': 2.*; got .*: 1"
        ):
            other.fit(batches, steps=2, resume=True)

    def test_a_checkpoint_of_another_size(self, tmp_path):
        def make(width):
            model = nn.Linear(width, 1)
            return training.Trainer(
                model,
                optim.Adam(model.parameters()),
                lambda model, x: model(x).sum(),
                checkpoint=tmp_path / "run.npz",
            )

        make(3).fit([np.ones((1, 3))], steps=1)
        other = make(5)
        before = other.model.weight.numpy().copy()
        with pytest.raises(training.CheckpointError, match=r"same model and optimizer; got .*weight"):
            other.fit([np.ones((1, 5))], steps=2, resume=True)
        np.testing.assert_array_equal(other.model.weight, before)

    def test_a_damaged_checkpoint_is_not_overwritten(self, tmp_path):
        path = tmp_path / "run.npz"
        trainer, batches = runs.build(path)
        trainer.fit(batches, steps=1)
        path.write_bytes(path.read_bytes()[:-100])
        with pytest.raises(training.CheckpointError, match="damaged"):
            trainer.fit(batches, steps=2, resume=True)
        assert path.exists()


def test_arrays_need_no_facts(tmp_path):
    layer = nn.Linear(3, 2)
    training.save_arrays(tmp_path / "layer.npz", layer.state_dict())
    arrays, facts = training.load_arrays(tmp_path / "layer.npz")
    assert facts == {}
    other = nn.Linear(3, 2)
    other.load_state_dict(arrays)
    assert other.weight.numpy().tobytes() == layer.weight.numpy().tobytes()


# Its parameters were listed in order of creation once; now a module's own come first.
class Between(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.scale = nn.Parameter(np.full(4, 2.0, np.float32))
        self.second = nn.Linear(4, 1, bias=False)

    def forward(self, x):
        return self.second(self.first(x) * self.scale)


def between(path):
    x = np.random.default_rng(0).normal(size=(12, 3)).astype("float32")
    y = x.sum(1, keepdims=True)
    qkv.manual_seed(1)
    model = Between()
    optimizer = optim.Adam(model.parameters(), 0.05)
    trainer = training.Trainer(
        model, optimizer, lambda m, rows: losses.mse(m(x[rows]), y[rows]), checkpoint=path
    )
    trainer._run = lambda: {**training.Trainer._run(trainer), "model": "Net"}
    return trainer


@pytest.mark.parametrize("older", [True, False])
def test_states_find_their_parameters_by_name(tmp_path, older):
    batches = [np.arange(6), np.arange(6, 12)]
    whole = between(None)
    whole.fit(batches, steps=6)
    path = tmp_path / "run.npz"
    if older:
        shutil.copy(Path(__file__).parent.parent / "data" / "checkpoint_older.npz", path)
    else:
        between(path).fit(batches, steps=3)
    resumed = between(path)
    if not older:  # listed in another order than when they were stored
        resumed.optimizer = optim.Adam(resumed.model.parameters()[::-1], 0.05)
    resumed.fit(batches, steps=6)
    for (name, a), (_, b) in zip(
        whole.model.named_parameters(), resumed.model.named_parameters(), strict=True
    ):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5, err_msg=name)
