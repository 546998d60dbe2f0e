"""What ends a training before its time, what it keeps of its best moment, and what its checkpoint remembers of both."""

from __future__ import annotations

import math

import numpy as np
import pytest

import qkv
from qkv import losses, nn, optim, training

from .test_trainer import ROWS, X, Y, linear, unequal

CURVE = [
    5.0,
    3.0,
    4.0,
    2.0,
    2.0,
    2.5,
    2.0,
    1.0,
    0.5,
]  # the best within a patience of 3 is entry 3, that ends at 6


def measured(values=CURVE, name="error", **options):
    """A trainer whose evaluations give these values, one an epoch, whenever it is resumed."""

    def evaluate(model):
        return {name: values[len(trainer.history.evaluations)]}

    trainer = linear(evaluate=evaluate, **options)
    return trainer


def weights(trainer):
    return [np.array(p) for p in trainer.model.parameters()]


@pytest.mark.parametrize("cuts", [(), (1,), (5,), (2, 3, 6)])
def test_patience_ends_where_it_would_without_a_cut(tmp_path, cuts):
    options = {"patience": 3, "restore_best": True, "checkpoint": tmp_path / "run.npz", "checkpoint_every": 1}
    whole = measured(patience=3, restore_best=True)
    whole.fit(ROWS, epochs=9)
    assert [e["error"] for e in whole.history.evaluations] == CURVE[:7]
    for cut in (*cuts, 9):
        trainer = measured(**options)
        trainer.fit(ROWS, epochs=cut, resume=True)
    assert trainer.history.loss == whole.history.loss
    np.testing.assert_array_equal(trainer.model.weight, whole.model.weight)
    best = linear()
    best.fit(ROWS, epochs=4)
    for a, b in zip(weights(trainer), weights(best), strict=True):
        np.testing.assert_array_equal(a, b)


def test_the_checkpoint_keeps_the_last_and_the_best(tmp_path):
    trainer = measured(restore_best=True, checkpoint=tmp_path / "run.npz")
    trainer.fit(ROWS, epochs=6)
    last = linear()
    last.fit(ROWS, epochs=6)
    arrays, _ = training.load_arrays(tmp_path / "run.npz")
    np.testing.assert_array_equal(arrays["model.weight"], last.model.weight)
    np.testing.assert_array_equal(arrays["best.weight"], trainer.model.weight)
    assert (arrays["best.weight"] != arrays["model.weight"]).any()
    again = measured(restore_best=True, checkpoint=tmp_path / "run.npz")
    again.fit(ROWS, epochs=6, resume=True)  # nothing is left to do
    np.testing.assert_array_equal(again.model.weight, trainer.model.weight)


def test_the_largest_may_be_the_best_and_nan_never_is():
    values = [1.0, 2.0, math.nan, 1.5, 3.0]
    trainer = measured(values, mode="max", patience=3)
    assert len(trainer.fit(ROWS, epochs=5).evaluations) == 5
    assert len(measured(values, mode="max", patience=2).fit(ROWS, epochs=5).evaluations) == 4
    assert len(measured([math.nan] * 5, patience=2).fit(ROWS, epochs=5).evaluations) == 2


def test_patience_counts_nan_over_a_cut(tmp_path):
    for epochs in (1, 9):
        options = {"patience": 2, "restore_best": True, "checkpoint": tmp_path / "run.npz"}
        trainer = measured([math.nan] * 9, **options)
        trainer.fit(ROWS, epochs=epochs, resume=True)
    assert len(trainer.history.evaluations) == 2


def test_without_evaluate_the_loss_of_an_epoch_is_watched():
    trainer = linear(unequal, lr=0.0, patience=2)
    assert trainer.fit(ROWS, epochs=9).epoch_ends == [4, 8, 12]
    assert len(linear(unequal, patience=2, monitor="loss").fit(ROWS, epochs=9).epoch_ends) == 9


def test_one_of_several_metrics():
    def evaluate(model):
        n = len(trainer.history.evaluations)
        return {"up": float(n), "down": -float(n), "word": "x"}

    for monitor, epochs in (("up", 3), ("down", 6)):
        trainer = linear(evaluate=evaluate, monitor=monitor, patience=2)
        assert len(trainer.fit(ROWS, epochs=6).epoch_ends) == epochs
    for monitor in (None, "word", "upp"):
        trainer = linear(evaluate=evaluate, monitor=monitor, patience=2)
        with pytest.raises(ValueError, match=r"monitor must .* metrics \['up', 'down'\]; got "):
            trainer.fit(ROWS, epochs=6)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: linear(patience=0), "patience must be at least 1; got 0"),
        (lambda: linear(mode="least"), "mode must be min or max; got 'least'"),
        (lambda: linear(monitor="error"), "monitor must be loss without evaluate .*; got 'error'"),
        (
            lambda: optim.ReduceLROnPlateau(linear().optimizer, "least"),
            "mode must be min or max; got 'least'",
        ),
        (
            lambda: optim.ReduceLROnPlateau(linear().optimizer, factor=1.0),
            "factor must be below 1 .*; got 1.0",
        ),
        (lambda: optim.ReduceLROnPlateau(linear().optimizer, patience=-1), "patience must be at least 0"),
    ],
)
def test_rejections(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_a_run_with_another_monitor_does_not_go_on(tmp_path):
    measured(patience=3, checkpoint=tmp_path / "run.npz").fit(ROWS, epochs=1)
    trainer = measured(patience=3, mode="max", checkpoint=tmp_path / "run.npz")
    with pytest.raises(
        training.CheckpointError, match=r"same monitor and mode, None and max; got \[None, 'min'\]"
    ):
        trainer.fit(ROWS, epochs=2, resume=True)


class TestPlateau:
    @pytest.mark.parametrize(
        "options",
        [
            {"patience": 1},
            {"patience": 0, "factor": 0.5, "cooldown": 2},
            {"patience": 0, "mode": "max", "min_lr": 0.02, "threshold": 0.3, "threshold_mode": "abs"},
            {"patience": 1, "threshold": 0.2, "eps": 0.02},
        ],
    )
    def test_the_rates_are_pytorchs(self, options):
        torch = pytest.importorskip("torch")
        ours = optim.SGD(nn.Linear(3, 1).parameters(), lr=0.1)
        theirs = torch.optim.SGD(torch.nn.Linear(3, 1).parameters(), lr=0.1)
        schedule = optim.ReduceLROnPlateau(ours, **options)
        reference = torch.optim.lr_scheduler.ReduceLROnPlateau(theirs, **options)
        for value in [*CURVE, math.nan, 0.5, 0.4, 0.4, 0.4, 3.0, 3.1, 3.6, 3.6, 3.6, 3.6]:
            schedule.step(value)
            reference.step(value)
            assert ours.lr == pytest.approx(theirs.param_groups[0]["lr"])
        assert ours.lr < 0.1

    @pytest.mark.parametrize("cuts", [(), (3, 5)])
    def test_it_follows_the_evaluations(self, tmp_path, cuts):
        for cut in (*cuts, 9):
            trainer = measured(
                schedule=lambda o: optim.ReduceLROnPlateau(o, factor=0.5, patience=0),
                checkpoint=tmp_path / "run.npz",
            )
            history = trainer.fit(ROWS, epochs=cut, resume=True)
        rates = [0.1, 0.1, 0.1, 0.05, 0.05, 0.025, 0.0125, 0.00625, 0.00625]
        np.testing.assert_allclose(history.lr[::4], rates)


class Counting(optim.Schedule):
    """Falls at the third call that it is told to, which only it knows."""

    def __init__(self, optimizer):
        self.told = 0
        super().__init__(optimizer)

    def lr_at(self, n):
        return self.base_lr * 0.5 ** (self.told // 3)

    def step(self):
        self.told += 1
        super().step()


def test_what_a_schedule_of_the_users_counts_is_kept(tmp_path):
    for steps in (2, 5, 12):
        trainer = linear(schedule=Counting, checkpoint=tmp_path / "run.npz")
        history = trainer.fit(ROWS, steps=steps, resume=True)
    assert history.lr == linear(schedule=Counting).fit(ROWS, steps=12).lr
    assert history.lr[-1] == 0.1 * 0.5**3


def test_what_stop_when_counts_is_kept(tmp_path):
    def waiting():
        bad = []

        def stop(metrics):
            bad.append(metrics["error"] >= 2.0)
            return sum(bad) == 6

        return stop

    for epochs in (2, 4, 9):
        trainer = measured(stop_when=waiting(), checkpoint=tmp_path / "run.npz")
        history = trainer.fit(ROWS, epochs=epochs, resume=True)
    assert len(history.evaluations) == 6
    same = measured(stop_when=waiting(), checkpoint=tmp_path / "other.npz")
    for epochs in (2, 4, 9):
        same.fit(ROWS, epochs=epochs, resume=True)
    assert len(same.history.evaluations) == 6


@pytest.mark.parametrize("clip", [None, 1.0])
@pytest.mark.parametrize("factor", [1.0, 0.0])
def test_a_gradient_that_is_no_number_stops_before_the_step(tmp_path, clip, factor):
    def loss(model, rows):
        value = losses.mse(model(X[rows]), Y[rows])
        if len(trainer.history) == 2:  # the root's derivative at 0 is infinite; after a factor of 0 it is NaN
            value = value + qkv.sqrt((model.bias - model.bias.numpy()) * factor).sum()
        return value

    path = tmp_path / "run.npz"
    trainer = linear(loss, max_grad_norm=clip, checkpoint=path, checkpoint_every=1)
    with pytest.raises(FloatingPointError, match=r"gradients must be finite .* for bias in update 3$"):
        trainer.fit(ROWS, epochs=1)
    assert len(trainer.history) == 2
    good = linear(max_grad_norm=clip)
    good.fit(ROWS, steps=2)
    found = training.load_arrays(path)[0]["model.weight"]
    np.testing.assert_array_equal(found, good.model.weight)
    np.testing.assert_array_equal(found, trainer.model.weight)


def test_gradients_whose_squares_overflow_are_legal():
    trainer = linear(lambda model, rows: model.to("float64")(X[rows]).sum() * 1e200, lr=1e-200)
    assert len(trainer.fit(ROWS, steps=1)) == 1


def test_fewer_batches_than_were_used_are_refused(tmp_path):
    path = tmp_path / "run.npz"
    linear(checkpoint=path).fit(ROWS, steps=3)
    trainer = linear(checkpoint=path)
    with pytest.raises(
        training.CheckpointError, match=r"batches of epoch 0 must be more than the 3 .*; got 3$"
    ):
        trainer.fit(ROWS[:3], steps=9, resume=True)
    assert len(trainer.history) == 3


def test_an_optimizer_of_another_model_is_refused():
    model, other = nn.Linear(3, 1), nn.Linear(3, 1)
    for parameters in (other.parameters(), [model.weight, other.bias]):
        with pytest.raises(
            ValueError, match=r"optimizer must be over parameters of the model .* none of Linear's$"
        ):
            training.Trainer(model, optim.SGD(parameters, lr=0.1), unequal)
    part = training.Trainer(model, optim.SGD([model.weight], lr=0.1), unequal)
    assert len(part.fit(ROWS, steps=1)) == 1


def test_what_a_loss_logs(tmp_path):
    def mean(model, rows):
        return losses.mse(model(X[rows]), Y[rows]), {"rows": len(rows), "least": np.float32(rows.min())}

    def total(model, rows):
        return *unequal(model, rows), {"first": rows[0]}

    for steps in (2, 4):
        trainer = linear(mean, checkpoint=tmp_path / "run.npz")
        history = trainer.fit(ROWS, steps=steps, resume=True)
    assert history.metric("rows") == ([1, 2, 3, 4], [6.0] * 4)
    assert history.metric("least") == ([1, 2, 3, 4], [0.0, 6.0, 12.0, 18.0])
    assert history.metrics() == ["rows", "least"]
    assert history.loss == linear().fit(ROWS, steps=4).loss
    cut = [np.arange(0, 6), np.arange(6, 24)]
    assert linear(total, accumulate=2).fit(cut, epochs=1).metric("first") == ([1], [(0 * 6 + 6 * 18) / 24])
    assert linear(mean, accumulate=2).fit(cut, epochs=1).metric("least") == ([1], [3.0])
