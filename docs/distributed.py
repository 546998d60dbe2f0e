"""Draws docs/distributed.png: a training's loss on 1, 2 and 4 ranks, and who computes and who waits when.

python docs/distributed.py             # starts mpiexec itself
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import qkv
from qkv import data, distributed, models, optim, training
from qkv.distributed import trace

HERE = Path(__file__)
STEPS, LENGTH, RANKS = 200, 8192, 4
START, END = 2, 3


def train(comm):
    """Return the losses of a Transformer that learns to read dates."""
    pairs, _ = data.date_pairs(2000, seed=0)
    sources = data.Vocabulary.of([pair.source for pair in pairs])
    targets = data.Vocabulary.of([pair.target for pair in pairs])
    batches = data.Batches(
        [sources.encode(pair.source) for pair in pairs],
        [[START, *targets.encode(pair.target), END] for pair in pairs],
        batch_size=32,
    )
    qkv.manual_seed(0)
    model = models.Transformer(
        len(sources), len(targets), 32, 4, 2, 2, dim_feedforward=64, dropout=0.1, max_len=64
    )

    def loss(model, batch):
        source, target = batch
        logits = model(source.ids, target.ids[:, :-1], src_valid_lens=source.lens)
        return training.token_loss(logits, target.ids[:, 1:], valid_lens=target.lens - 1)

    optimizer = optim.Adam(model.parameters(), lr=2e-3)
    return training.Trainer(model, optimizer, loss, comm=comm).fit(batches, steps=STEPS, progress=False).loss


def attend(comm):
    """Return when this rank computed and waited in a causal attention over all ranks."""
    mine = len(distributed.positions(LENGTH, comm, is_causal=True))
    x = qkv.randn(1, 4, mine, 64)
    for _ in range(2):  # the first round makes buffers
        comm.Barrier()
        with trace.recording() as events:
            distributed.attention(x, x, x, comm, is_causal=True)
    return events


def on_ranks(folder):
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    result = {"loss": train(comm), "events": comm.gather(attend(comm) if comm.size > 1 else [])}
    if distributed.is_main():
        (Path(folder) / f"{comm.size}.json").write_text(json.dumps(result), encoding="utf8")


def draw(found):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (curves, difference, times) = plt.subplots(1, 3, figsize=(13, 3.4), layout="constrained")
    alone = np.array(found[1]["loss"])
    for (ranks, result), style in zip(found.items(), ("-", "--", ":"), strict=True):
        curves.plot(result["loss"], style, label=f"{ranks} rank{'s' * (ranks > 1)}")
        if ranks > 1:
            difference.semilogy(np.abs(np.array(result["loss"]) - alone) + 1e-9, label=f"{ranks} ranks")
    curves.set(xlabel="update", ylabel="loss", title="dates, dropout 0.1, float32")
    difference.set(
        xlabel="update",
        ylabel="difference of the loss",
        title="to one rank: rounding, amplified",
    )
    events = found[RANKS]["events"]
    first = min(begin for rank in events for _, begin, _ in rank)
    colours = {"compute": "tab:blue", "wait": "tab:orange"}
    for rank, parts in enumerate(events):
        for name, begin, end in parts:
            times.barh(
                rank, (end - begin) * 1e3, left=(begin - first) * 1e3, color=colours[name], edgecolor="white"
            )
    times.set(xlabel="ms", ylabel="rank", yticks=range(RANKS), title=f"ring steps, causal, L = {LENGTH}")
    times.invert_yaxis()
    times.legend([plt.Rectangle((0, 0), 1, 1, color=c) for c in colours.values()], colours, loc="lower right")
    curves.legend()
    difference.legend()
    figure.savefig(HERE.with_name("distributed.png"), dpi=110)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        on_ranks(sys.argv[1])
    else:
        with tempfile.TemporaryDirectory() as folder:
            for ranks in (1, 2, RANKS):
                command = ["mpiexec", "-n", str(ranks), sys.executable, str(HERE), folder]
                subprocess.run(command, check=True)
            draw({n: json.loads((Path(folder) / f"{n}.json").read_text()) for n in (1, 2, RANKS)})
