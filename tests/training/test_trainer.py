"""The training loop: what it learns, what it records, what it refuses."""

from __future__ import annotations

import builtins
import math
import os
import re
import signal
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import qkv
from qkv import data, losses, nn, optim, training

sys.path.insert(0, str(Path(__file__).parent))
import runs

X = np.random.default_rng(0).normal(size=(24, 3)).astype("float32")
Y = X @ np.array([[1.0], [-2.0], [0.5]], "float32")


def linear(loss=None, *, lr=0.1, schedule=None, **options):
    qkv.manual_seed(1)
    model = nn.Linear(3, 1)
    optimizer = optim.SGD(model.parameters(), lr=lr)
    loss = loss or (lambda model, rows: losses.mse(model(X[rows]), Y[rows]))
    return training.Trainer(model, optimizer, loss, schedule=schedule and schedule(optimizer), **options)


def equal(a, b):
    assert set(a) == set(b)
    return [name for name in a if not np.array_equal(a[name], b[name], equal_nan=True)] == []


ROWS = [np.arange(i, i + 6) for i in range(0, 24, 6)]


def test_attention_learns_which_symbol_stands_first():
    trainer, batches = runs.build()
    history = trainer.fit(batches, epochs=12)
    steps, values = history.metric("accuracy")
    assert steps[0] == len(batches) == 12
    assert values[0] < 0.6
    assert values[-1] > 0.95
    assert history.epoch_losses()[-1] < 0.5 * history.epoch_losses()[0]
    assert len(history) == 12 * 12
    assert history.epoch_ends[-1] == 12 * 12
    assert trainer.model.training


def test_a_step_is_that_of_the_optimizer():
    trainer = linear(schedule=lambda o: optim.ConstantSchedule(o, warmup_steps=4))
    other = linear().model
    optimizer = optim.SGD(other.parameters(), lr=0.025)
    history = trainer.fit(ROWS[:1], steps=1)
    value = losses.mse(other(X[ROWS[0]]), Y[ROWS[0]])
    value.backward()
    optimizer.step()
    assert history.loss == [float(value)]
    assert history.lr == [0.025]
    assert math.isnan(history.grad_norm[0])
    for a, b in zip(trainer.model.parameters(), other.parameters(), strict=True):
        np.testing.assert_array_equal(a, b)
    assert trainer.optimizer.lr == 0.05  # for the next one


def test_the_schedule_warms_up_and_goes_on():
    trainer = linear(schedule=lambda o: optim.LinearSchedule(o, total_steps=6, warmup_steps=2))
    history = trainer.fit(ROWS, steps=7)
    np.testing.assert_allclose(history.lr, [0.05, 0.1, 0.075, 0.05, 0.025, 0.0, 0.0], atol=1e-12)


def test_clipping_bounds_the_step():
    free, clipped = linear(), linear(max_grad_norm=0.01)
    before = [p.numpy().copy() for p in clipped.model.parameters()]
    free.fit(ROWS, steps=1)
    history = clipped.fit(ROWS, steps=1)
    moved = math.sqrt(
        sum(
            ((a - b) ** 2).sum()
            for a, b in zip(before, map(np.asarray, clipped.model.parameters()), strict=True)
        )
    )
    assert history.grad_norm[0] > 0.1
    assert moved == pytest.approx(0.1 * 0.01, rel=1e-3)


def unequal(model, rows):
    value = losses.mse(model(X[rows]), Y[rows], reduction="sum")
    return value, len(rows)


def test_accumulated_batches_equal_one_big_batch():
    cut = [np.arange(0, 5), np.arange(5, 7), np.arange(7, 18), np.arange(18, 24)]
    several = linear(unequal, accumulate=4, max_grad_norm=1.0)
    big = linear(unequal, max_grad_norm=1.0)
    a, b = several.fit(cut, epochs=9), big.fit([np.arange(24)], epochs=9)
    assert len(a) == len(b) == 9
    np.testing.assert_allclose(a.loss, b.loss, rtol=1e-5)
    np.testing.assert_allclose(a.grad_norm, b.grad_norm, rtol=1e-5)
    for p, q in zip(several.model.parameters(), big.model.parameters(), strict=True):
        np.testing.assert_allclose(p.numpy(), q.numpy(), rtol=1e-5, atol=1e-6)
    apart = linear(unequal, max_grad_norm=1.0).fit(cut, epochs=9)
    assert len(apart) == 36


def test_the_last_update_of_an_epoch_takes_what_is_left():
    trainer = linear(unequal, accumulate=3)
    history = trainer.fit(ROWS, epochs=2)
    assert history.count == [18, 6, 18, 6]
    assert history.epoch_ends == [2, 4]


def test_padding_weighs_nothing():
    ids, lens = data.pad([[4, 5, 6], [7]])
    logits = np.random.default_rng(2).normal(size=(2, 3, 9))
    total, count = training.token_loss(logits, ids, valid_lens=lens)
    single = [losses.cross_entropy(logits[i, t], ids[i, t]) for i, t in ((0, 0), (0, 1), (0, 2), (1, 0))]
    assert count == 4
    np.testing.assert_allclose(total, sum(map(float, single)), rtol=1e-12)
    again = training.token_loss(logits, ids, ignore_index=0)
    np.testing.assert_allclose(again[0], total)
    assert again[1] == 4
    other = logits.copy()
    other[1, 1:] = 1e3
    np.testing.assert_array_equal(training.token_loss(other, ids, valid_lens=lens)[0], total)
    smooth = training.token_loss(logits, ids, valid_lens=lens, label_smoothing=0.1)[0]
    wanted = losses.cross_entropy(logits, np.where(ids == 0, -100, ids), label_smoothing=0.1, reduction="sum")
    np.testing.assert_array_equal(smooth, wanted)
    assert smooth != total


def test_a_batch_of_padding_alone_changes_nothing():
    trainer = linear(lambda model, rows: (losses.mse(model(X), Y, reduction="sum") * 0.0, 0))
    before = trainer.model.weight.numpy().copy()
    history = trainer.fit([0], steps=2)
    assert history.loss == [0.0, 0.0]
    np.testing.assert_array_equal(trainer.model.weight, before)


def test_evaluation_is_without_gradients_and_in_evaluation_mode():
    seen = []

    def evaluate(model):
        y = model(X)
        seen.append((model.training, y.requires_grad))
        return {"mean": np.float32(2.5), "n": np.int64(3), "ok": np.bool_(True), "word": "x"}

    trainer = linear(evaluate=evaluate, evaluate_every=3)
    history = trainer.fit(ROWS, steps=8)
    assert seen == [(False, False)] * 2
    assert [e["step"] for e in history.evaluations] == [3, 6]
    assert history.evaluations[0] == {"step": 3, "epoch": 0, "mean": 2.5, "n": 3, "ok": True, "word": "x"}
    assert history.metrics() == ["mean", "n", "ok"]
    assert history.metric("mean") == ([3, 6], [2.5] * 2)
    assert trainer.model.training


def test_stop_when_ends_the_training(tmp_path):
    def make():
        return linear(
            evaluate=lambda model: {"loss": float(losses.mse(model(X), Y))},
            evaluate_every=2,
            stop_when=lambda metrics: metrics["loss"] < 0.5,
            checkpoint=tmp_path / "run.npz",
        )

    history = make().fit(ROWS, epochs=100)
    values = history.metric("loss")[1]
    assert values[-1] < 0.5 <= values[-2]
    assert len(history) < 100
    again = make()
    assert len(again.fit(ROWS, epochs=100, resume=True)) == len(history)  # it was done


def test_batches_may_depend_on_the_epoch():
    asked = []

    def batches(epoch):
        asked.append(epoch)
        return ROWS[epoch:]

    history = linear().fit(batches, epochs=3)
    assert len(history) == 4 + 3 + 2
    assert set(asked) == {0, 1, 2}


def test_history_says_what_happened():
    history = linear(unequal).fit([np.arange(6), np.arange(6, 24)], epochs=2)
    assert re.fullmatch(r"History\(4 updates, 2 epochs, loss [\d.]+ -> [\d.]+\)", repr(history))
    expected = (history.loss[0] * 6 + history.loss[1] * 18) / 24
    assert history.epoch_losses()[0] == pytest.approx(expected)
    assert history.seconds > 0
    assert repr(training.History()) == "History(0 updates, 0 epochs)"


class TestInterrupt:
    def test_ctrl_c_ends_after_the_update_and_keeps_the_checkpoint(self, tmp_path):
        def loss(model, rows):
            if len(trainer.history) == 4:
                os.kill(os.getpid(), signal.SIGINT)
            return unequal(model, rows)

        trainer = linear(loss, checkpoint=tmp_path / "run.npz")
        history = trainer.fit(ROWS, epochs=50)
        assert trainer.interrupted
        assert len(history) == 5
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        rest = linear(unequal, checkpoint=tmp_path / "run.npz")
        whole = linear(unequal)
        assert len(rest.fit(ROWS, steps=20, resume=True)) == 20
        whole.fit(ROWS, steps=20)
        assert rest.history.loss == whole.history.loss
        np.testing.assert_array_equal(rest.model.weight, whole.model.weight)

    def test_a_second_ctrl_c_ends_at_once(self):
        def loss(model, rows):
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)
            return unequal(model, rows)

        with pytest.raises(KeyboardInterrupt):
            linear(loss).fit(ROWS, epochs=1)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler

    def test_it_trains_in_another_thread(self):
        trainer = linear()
        thread = threading.Thread(target=lambda: trainer.fit(ROWS, epochs=2))
        thread.start()
        thread.join()
        assert len(trainer.history) == 8


class TestProgress:
    def test_the_bar_counts_updates(self, capfd):
        pytest.importorskip("tqdm")
        linear().fit(ROWS, epochs=2, progress=True)
        shown = capfd.readouterr().err
        assert "8/8" in shown
        assert "loss" in shown

    def test_nothing_is_shown_where_nobody_looks(self, capfd):
        linear().fit(ROWS, epochs=2)
        linear().fit(ROWS, epochs=2, progress=False)
        assert capfd.readouterr() == ("", "")

    def test_tqdm_missing(self, monkeypatch):
        real = builtins.__import__
        for name in [n for n in sys.modules if n.split(".")[0] == "tqdm"]:
            monkeypatch.setitem(sys.modules, name, None)
        monkeypatch.setattr(builtins, "__import__", real)
        with pytest.raises(ImportError, match=r"tqdm must be installed.*pip install \"qkv\[notebooks\]\""):
            linear().fit(ROWS, epochs=1, progress=True)
        assert len(linear().fit(ROWS, epochs=1)) == 4


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: linear(accumulate=0), "Trainer: accumulate must be at least 1; got 0"),
        (lambda: linear(max_grad_norm=0.0), "max_grad_norm must be positive because .*; got 0.0"),
        (
            lambda: linear(
                schedule=lambda o: optim.ConstantSchedule(optim.SGD(nn.Linear(1, 1).parameters(), lr=1))
            ),
            "schedule must be of the given optimizer",
        ),
        (
            lambda: (
                linear(lambda model, rows: (model(X[rows]).sum(), {"rows": 6}))
                .fit(ROWS, steps=1)
                .metric("row")
            ),
            "History.metric: name must be one of rows; got 'row'",
        ),
        (lambda: linear(evaluate_every=2), "evaluate_every must be given with evaluate .*; got it alone"),
        (lambda: linear(stop_when=lambda m: True), "stop_when must be given with evaluate .*; got it alone"),
        (
            lambda: linear(lambda model, rows: model(X[rows])).fit(ROWS, steps=1),
            r"loss must return a Tensor of one number, .*; got a Tensor \(6, 1\)",
        ),
        (
            lambda: linear(lambda model, rows: (model(X[rows]).sum(), -6)).fit(ROWS, steps=1),
            "loss must return a count of at least 0; got -6",
        ),
        (
            lambda: linear(lambda model, rows: (model(X[rows]).sum(), "six")).fit(ROWS, steps=1),
            "loss must return a count of at least 0; got 'six'",
        ),
        (lambda: linear().fit(ROWS), "epochs or steps must be given .*; got neither"),
        (lambda: linear().fit(ROWS, epochs=-1), "epochs must be at least 1; got -1"),
        (lambda: linear().fit(ROWS, steps=0), "steps must be at least 1; got 0"),
        (lambda: linear().fit([], steps=1), "batches must have at least one batch"),
        (
            lambda: training.token_loss(np.zeros((3, 2)), [0, 1, 1], valid_lens=[2]),
            r"must be \(B, T\).*got \(3,\)",
        ),
    ],
)
def test_rejections(make, words):
    with pytest.raises(ValueError, match=words):
        make()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: linear(evaluate_every=1.5), "Trainer: evaluate_every must be an integer .*; got 1.5"),
        (lambda: linear(checkpoint_every=True), "Trainer: checkpoint_every must be an integer .*; got True"),
        (
            lambda: training.Trainer(None, linear().optimizer, print),
            "Trainer: model must be a module; got None",
        ),
        (
            lambda: training.Trainer(nn.Linear(3, 1), optim.SGD, print),
            "Trainer: optimizer must be one of qkv.optim; got type",
        ),
        (lambda: linear("mse"), "Trainer: loss must be a function; got 'mse'"),
        (lambda: linear(evaluate=3), "Trainer: evaluate must be a function; got 3"),
        (lambda: linear(max_grad_norm="1"), "Trainer: max_grad_norm must be a number; got '1'"),
        (
            lambda: linear(evaluate=lambda model: 0.5).fit(ROWS, epochs=1),
            "Trainer.fit: evaluate must return a dict of numbers; got 0.5",
        ),
        (
            lambda: linear(lambda model, rows: None).fit(ROWS, steps=1),
            "^Trainer.fit: loss must return a Tensor, or a Tensor and a count, .*; got None$",
        ),
        (
            lambda: linear(lambda model, rows: losses.mse(model(X[rows]), Y[rows]).item()).fit(ROWS, steps=1),
            "loss must return a Tensor, .*; got [0-9.]+$",
        ),
        (
            lambda: linear().fit(iter(ROWS), steps=1),
            r"^Trainer.fit: batches must be a sequence, or a function .*; got list_iterator; write list\(batches\)$",
        ),
        (
            lambda: training.Trainer(linear().optimizer, linear().model, len),
            "^Trainer: optimizer must be one of qkv.optim; got Linear$",
        ),
    ],
)
def test_rejections_of_types(make, words):
    with pytest.raises(TypeError, match=words):
        make()


def test_a_schedule_and_a_checkpoint_of_another_kind_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"^Trainer: schedule must be of the given optimizer .*; got type$"):
        linear(schedule=lambda optimizer: optim.ConstantSchedule)
    with pytest.raises(
        ValueError, match=r"^Trainer: checkpoint must be a file to be written; got the folder "
    ):
        linear(checkpoint=tmp_path)


def test_a_loss_that_is_not_a_number_stops_before_the_step():
    def loss(model, rows):
        return losses.mse(model(X[rows]), Y[rows]) * (math.nan if len(trainer.history) == 2 else 1.0)

    trainer = linear(loss)
    with pytest.raises(FloatingPointError, match=r"the loss must be finite .*; got nan in update 3"):
        trainer.fit(ROWS, epochs=1)
    assert np.isfinite(trainer.model.weight.numpy()).all()
    assert len(trainer.history) == 2


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="other systems have no such signals")
@pytest.mark.parametrize("name", ["SIGTERM", "SIGUSR1"])
def test_signals_write_the_checkpoint(name, tmp_path):
    number, path = getattr(signal, name), tmp_path / "run.npz"
    model = qkv.nn.Linear(3, 1)
    calls, before = [], signal.getsignal(number)

    def loss(model, rows):
        calls.append(path.exists())
        if len(calls) == 2:
            os.kill(os.getpid(), number)
        return qkv.losses.mse(model(rows), rows[:, :1])

    trainer = training.Trainer(
        model, qkv.optim.SGD(model.parameters(), lr=0.1), loss, checkpoint=path, checkpoint_every=1000
    )
    history = trainer.fit([np.ones((4, 3))] * 5, epochs=1, progress=False)
    assert signal.getsignal(number) == before
    assert trainer.interrupted == (name == "SIGTERM")
    assert len(history) == (2 if name == "SIGTERM" else 5)
    assert path.exists()
    assert calls == [False, False, True, True, True][: len(history)]
