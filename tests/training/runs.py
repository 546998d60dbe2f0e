"""A small real training, the same whenever it is built; as a program, one that can be killed and resumed.

``python runs.py FOLDER`` trains to the end, writes a checkpoint after each update and the results to FOLDER/done.npz.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import qkv
from qkv import data, nn, optim, training

SYMBOLS, WIDTH, STEPS = 5, 16, 60


class Tagger(nn.Module):
    """Says at each place which symbol is first, which only attention can know."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(SYMBOLS + 4, WIDTH)
        self.positions = nn.PositionalEncoding(WIDTH, dropout=0.1)
        self.encoder = nn.TransformerEncoderLayer(WIDTH, 2, 32, dropout=0.1)
        self.output = nn.Linear(WIDTH, SYMBOLS + 4)

    def forward(self, ids, valid_lens):
        x = self.positions(self.embedding(ids))
        return self.output(self.encoder(x, valid_lens=valid_lens))


def loss(model, batch):
    ids, lens = batch[0]
    first = np.repeat(ids[:, :1], ids.shape[1], axis=1)
    return training.token_loss(model(ids, lens), first, valid_lens=lens, label_smoothing=0.05)


def accuracy(model):
    ids, lens = data.pad(data.copy_pairs(64, symbols=SYMBOLS, seed=99))
    first = np.repeat(ids[:, :1], ids.shape[1], axis=1)
    real = qkv.masks.lengths(lens, ids.shape[1])
    found = model(ids, lens).numpy().argmax(-1) == first
    return {"accuracy": found[real].mean(), "noise": qkv.rand(1)[0]}  # noise: moves the common generator


def build(checkpoint=None, *, seed=3, **options):
    """Return a trainer and its batches."""
    qkv.manual_seed(seed)
    model = Tagger()
    optimizer = optim.AdamW(model.parameters(), lr=1e-2)
    schedule = optim.CosineSchedule(optimizer, total_steps=400, warmup_steps=10)
    options = {"checkpoint_every": 1, "evaluate": accuracy, "max_grad_norm": 1.0, **options}
    trainer = training.Trainer(model, optimizer, loss, schedule=schedule, checkpoint=checkpoint, **options)
    return trainer, data.Batches(data.copy_pairs(180, symbols=SYMBOLS, seed=seed), batch_size=16, seed=seed)


def everything(trainer):
    """Return all numbers that a run ends with."""
    state = {name: np.asarray(value) for name, value in trainer.model.state_dict().items()}
    for index, entries in trainer.optimizer.state_dict()["state"].items():
        state.update({f"optimizer.{index}.{name}": np.asarray(value) for name, value in entries.items()})
    history = trainer.history
    state.update(history.arrays())
    state["random"] = qkv.random.get_rng_state()
    state["lr"] = np.array(trainer.optimizer.lr)
    state["epoch_ends"] = np.array(history.epoch_ends)
    state["metrics"] = np.array([[e["step"], e["accuracy"], e["noise"]] for e in history.evaluations])
    return state


def main(folder):
    trainer, batches = build(folder / "run.npz")
    print("ready", flush=True)
    trainer.fit(batches, steps=STEPS, resume=True, progress=False)
    np.savez(folder / "results.npz", **everything(trainer))
    (folder / "results.npz").replace(folder / "done.npz")  # whole or not there


if __name__ == "__main__":
    main(Path(sys.argv[1]))
