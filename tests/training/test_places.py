"""Where checkpoints go, under which names arrays are kept, and which batches a loop goes over."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import qkv
from qkv import data, training

NAMES = [
    "allow_pickle", "file", "args", "kwds", "x", "x.npy", "x.npy.npy", ".npy", "", "a/b", "../x", "/etc/x", "a\\b",
    "./a", "gewöhnlich", "数", "🙂", "a b\n", ".", "..", "facts.npy", "n" * 60000, "weight", "arr_0",
]  # fmt: skip


def test_every_name_comes_back(tmp_path):
    path = tmp_path / "all.npz"
    arrays = {name: np.arange(3.0) + i for i, name in enumerate(NAMES)}
    training.save_arrays(path, arrays, {"n": len(NAMES)})
    found, facts = training.load_arrays(path)
    assert list(found) == NAMES
    assert facts == {"n": len(NAMES)}
    for name in NAMES:
        np.testing.assert_array_equal(found[name], arrays[name])
    assert sorted(p.name for p in tmp_path.iterdir()) == ["all.npz"]
    with np.load(path) as archive:
        np.testing.assert_array_equal(archive["weight"], arrays["weight"])


@pytest.mark.parametrize("name", NAMES)
def test_one_name_comes_back(tmp_path, name):
    arrays = {name: np.array([[1, 2], [3, 4]], ">i4").T}
    training.save_arrays(tmp_path / "one.npz", arrays)
    found, facts = training.load_arrays(tmp_path / "one.npz")
    assert list(found) == [name]
    np.testing.assert_array_equal(found[name], arrays[name])
    assert facts == {}


@pytest.mark.parametrize("name", ["facts", "a\0b", "\ud800", "ü" * 40000])
def test_names_that_cannot_be_kept_are_refused(tmp_path, name):
    with pytest.raises(ValueError, match=r"^save_arrays: (names|arrays) must"):
        training.save_arrays(tmp_path / "no.npz", {name: np.ones(2)})
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ValueError, match=r"^save_arrays: arrays must have different names"):
        training.save_arrays(tmp_path / "no.npz", {1: np.ones(2), "1": np.ones(2)})


def trainer_of(checkpoint):
    model = qkv.nn.Linear(3, 1)
    return training.Trainer(
        model, qkv.optim.SGD(model.parameters(), 0.1), lambda m, x: (m(x) ** 2).mean(), checkpoint=checkpoint
    )


def test_a_checkpoint_that_cannot_be_written_is_told_before_the_first_step(tmp_path, monkeypatch):
    with pytest.raises(
        FileNotFoundError, match=rf"^Trainer: the folder of checkpoint must exist; .*{tmp_path}/runs$"
    ):
        trainer_of(tmp_path / "runs" / "one.npz")
    with pytest.raises(FileNotFoundError, match=r"/runs$"):
        trainer_of(str(tmp_path / "runs" / ".." / "runs" / "one.npz"))
    (tmp_path / "file").write_text("")
    with pytest.raises(
        NotADirectoryError, match=rf"^Trainer: checkpoint must be in a folder; .*{tmp_path}/file$"
    ):
        trainer_of(tmp_path / "file" / "one.npz")
    with pytest.raises(ValueError, match="got the folder"):
        trainer_of(tmp_path)
    (tmp_path / "link.npz").symlink_to(tmp_path / "gone" / "one.npz")
    with pytest.raises(FileNotFoundError, match=r"/gone$"):
        trainer_of(tmp_path / "link.npz")
    monkeypatch.setattr("os.access", lambda *_: False)
    with pytest.raises(PermissionError, match=r"^Trainer: the folder of checkpoint must be writable; got "):
        trainer_of(tmp_path / "one.npz")
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    trainer_of("one.npz").fit([np.ones((5, 3))], epochs=1)
    assert (tmp_path / "one.npz").exists()


def test_each_loop_goes_over_the_next_epoch():
    batches = data.Batches(np.arange(12), batch_size=5, seed=0)
    loops = [[b[0].tolist() for b in batches] for _ in range(4)]
    assert loops == [[b[0].tolist() for b in batches(epoch)] for epoch in range(4)]
    assert loops[0] != loops[1] != loops[2]
    assert all(sorted(np.concatenate(loop).tolist()) == list(range(12)) for loop in loops)
    plain = data.Batches(np.arange(12), batch_size=5, shuffle=False)
    assert [[b[0].tolist() for b in plain] for _ in range(2)] == [[b[0].tolist() for b in plain(0)]] * 2
    one, other = iter(batches), iter(batches)  # begun at once
    assert next(one)[0].tolist() == batches(4)[0][0].tolist()
    assert next(other)[0].tolist() == batches(5)[0][0].tolist()
    again = pickle.loads(pickle.dumps(batches))
    assert next(iter(again))[0].tolist() == batches(6)[0][0].tolist()


def test_a_training_asks_for_epochs_by_number(tmp_path):
    """Loops over the same batches in between change nothing, nor does a resumption."""

    def weights(loops, cut):
        qkv.manual_seed(1)
        batches = data.Batches(qkv.randn(12, 3), batch_size=5, seed=3)
        model = qkv.nn.Linear(3, 1)
        trainer = training.Trainer(
            model, qkv.optim.Adam(model.parameters(), 0.1), lambda m, b: ((m(b[0]) - 1) ** 2).mean(),
            checkpoint=tmp_path / f"{loops}{cut}.npz",
        )  # fmt: skip
        for _ in range(loops):
            list(batches)
        if cut:
            trainer.fit(batches, epochs=2)
            list(batches)
        trainer.fit(batches, epochs=4, resume=cut)
        return model.weight.numpy().tobytes()

    assert len({weights(loops, cut) for loops in (0, 3) for cut in (False, True)}) == 1
