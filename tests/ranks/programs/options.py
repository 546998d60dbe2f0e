"""What a Trainer on several ranks may be asked for beside the plain training, compared with it.

options.py FOLDER
"""

import sys
from pathlib import Path

import numpy as np
from mpi4py import MPI

import qkv
from qkv import distributed, nn, optim, training

COMM = MPI.COMM_WORLD
FOLDER = Path(sys.argv[1])
ROWS = np.random.default_rng(0).normal(size=(60, 6)).astype("float32")
STEPS = 9


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(6, 16), nn.Linear(16, 1)

    def forward(self, x):
        return self.second(qkv.tanh(self.first(x)))


def total(model, rows):
    return qkv.losses.mse(model(rows), rows[:, :1] * rows[:, 1:2], reduction="sum"), len(rows)


def mean(model, rows):
    return qkv.losses.mse(model(rows), rows[:, :1] * rows[:, 1:2])


def fit(batches, loss=total, steps=STEPS, resume=False, comm=COMM, **options):
    qkv.manual_seed(1)
    model = Net()
    trainer = training.Trainer(
        model, optim.AdamW(model.parameters(), lr=0.02), loss, max_grad_norm=1.0, comm=comm, **options
    )
    history = trainer.fit(batches, steps=steps, resume=resume, progress=False)
    state = {name: np.array(value) for name, value in model.state_dict().items()}
    return {**state, "loss": np.array(history.loss)}, trainer


def assert_alike(found, wanted, **bounds):
    for name, value in wanted.items():
        np.testing.assert_allclose(found[name], value, err_msg=name, **bounds)


def bytes_of(optimizer):
    return sum(
        x.nbytes
        for entry in optimizer.state_dict()["state"].values()
        for x in entry.values()
        if hasattr(x, "nbytes")
    )


def main():
    batches = [ROWS[i : i + 12] for i in range(0, 60, 12)]
    plain, trainer = fit(batches)

    path = FOLDER / "zero.npz"
    zero, divided = fit(batches, zero=True, checkpoint=path, steps=5)
    held = COMM.allgather(bytes_of(divided.optimizer))
    assert sum(held) == bytes_of(trainer.optimizer), held
    assert max(held) < 0.9 * sum(held), held
    zero, _ = fit(batches, zero=True, checkpoint=path, resume=True)
    assert_alike(zero, plain, rtol=0)
    fit(batches, zero=True, checkpoint=path, steps=5)
    continued, _ = fit(batches, checkpoint=path, resume=True)
    assert_alike(continued, plain, rtol=0)

    narrow, _ = fit(batches, reduce_dtype="bfloat16")
    assert any((narrow[name] != plain[name]).any() for name in plain)
    assert_alike(narrow, plain, rtol=0.02, atol=0.01)

    # Rank r's own batches are the rows r, r + N, ... of those that one process has; rank 0 has one more.
    n = COMM.size
    own = [batch[COMM.rank :: n][: 2 + COMM.rank % 2] for batch in batches]
    joined = [np.concatenate([batch[r::n][: 2 + r % 2] for r in range(n)]) for batch in batches]
    if COMM.rank == 0:
        own.append(ROWS[:2])
    joined.append(ROWS[:2])
    for loss in (total, mean):
        alone, _ = fit(joined, loss, comm=None, steps=12)
        sharded, _ = fit(own, loss, steps=12, sharded=True)
        assert_alike(sharded, alone, rtol=1e-4, atol=1e-5)

    def penalised(model, batch):
        rows, scale = batch
        value, count = total(model, rows * scale)
        return value + 0.3 * (model.first.weight**2).sum(), count

    scale = np.linspace(0.5, 1.5, 6).astype("float32")
    few = [(ROWS[i : i + 6], scale) for i in range(0, 60, 6)]  # as many items as features
    alone, _ = fit(few, penalised, comm=None)
    found, _ = fit(few, penalised)
    assert_alike(found, alone, rtol=1e-4, atol=1e-5)

    def evaluate(model):
        mine = ROWS[distributed.rank() :: distributed.size()]
        return {"loss": tuple(map(float, total(model, mine))), "rank": distributed.rank()}

    _, shared = fit(batches, evaluate=evaluate, evaluate_every=STEPS)
    found = shared.history.evaluations[-1]
    assert abs(found["loss"] - float(mean(shared.model, ROWS))) < 1e-5, found
    assert found["rank"] == 0

    if COMM.rank == 0:
        print("done")


if __name__ == "__main__":
    main()
