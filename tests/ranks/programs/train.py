"""Trains a small Transformer on dates; rank 0 writes curve and parameters.

train.py FILE [OPTION=VALUE ...]
"""

import sys

import numpy as np

import qkv
from qkv import data, distributed, losses, models, optim, training

START, END = 2, 3


def communicator():
    if not distributed.environment.launched():
        return None
    from mpi4py import MPI

    return MPI.COMM_WORLD


def batches_of(size, seed=0):
    pairs, _ = data.date_pairs(300, held_out=50, seed=seed)
    sources = data.Vocabulary.of([source for source, _ in pairs])
    targets = data.Vocabulary.of([target for _, target in pairs])
    batches = data.Batches(
        [sources.encode(source) for source, _ in pairs],
        [[START, *targets.encode(target), END] for _, target in pairs],
        batch_size=size,
        seed=seed,
    )
    return batches, len(sources), len(targets)


def loss(model, batch):
    source, target = batch
    logits = model(source.ids, target.ids[:, :-1], src_valid_lens=source.lens)
    total, count = training.token_loss(logits, target.ids[:, 1:], valid_lens=target.lens - 1)
    return total, count, {"mean": total / count}


def mean_loss(model, batch):
    """The mean over items, as one number: the ranks' means count by their items."""
    source, target = batch
    logits = model(source.ids, target.ids[:, :-1], src_valid_lens=source.lens)
    each = losses.cross_entropy(logits, target.ids[:, 1:], reduction="none")
    mean = each.sum(axis=1).mean()
    return mean, {"mean": mean}


def build(dropout=0.1, dtype="float64", size=13, accumulate=2, checkpoint=None, mean=0, comm=None, seed=3):
    batches, sources, targets = batches_of(size)
    qkv.manual_seed(seed)
    model = models.Transformer(
        sources, targets, 16, 2, 1, 1, dim_feedforward=32, dropout=dropout, max_len=64, norm_first=True
    )
    model.to(dtype)
    optimizer = optim.AdamW(model.parameters(), lr=5e-3)
    schedule = optim.CosineSchedule(optimizer, total_steps=200, warmup_steps=10)
    trainer = training.Trainer(
        model,
        optimizer,
        mean_loss if mean else loss,
        schedule=schedule,
        max_grad_norm=1.0,
        accumulate=accumulate,
        evaluate=lambda model: {"noise": qkv.rand(1)[0]},
        evaluate_every=7,
        checkpoint=checkpoint,
        checkpoint_every=10,
        comm=comm,
    )
    return trainer, batches


def main(file, **options):
    steps = int(options.pop("steps", 30))
    resume = bool(int(options.pop("resume", 0)))
    threads = options.pop("threads", None)
    if threads:
        qkv.set_num_threads(int(threads))
    numbers = {"dropout": float, "size": int, "accumulate": int, "mean": int, "seed": int}
    options = {name: numbers.get(name, str)(value) for name, value in options.items()}
    comm = communicator()
    if comm is not None and comm.rank > 0:
        options["seed"] = 99  # begins with rank 0's parameters all the same
    trainer, batches = build(comm=comm, **options)
    history = trainer.fit(batches, steps=steps, resume=resume, progress=False)
    if distributed.is_main():
        save(file, trainer, history)


def save(file, trainer, history):
    state = {name: np.asarray(value) for name, value in trainer.model.state_dict().items()}
    state["random"] = qkv.random.get_rng_state()
    np.savez(file, **state, **history.arrays())


if __name__ == "__main__":
    main(sys.argv[1], **dict(option.split("=") for option in sys.argv[2:]))
