"""Something goes wrong on one rank of a job.

disturbed.py JOB RANK MOMENT KIND FOLDER

MOMENT is `import` (after a communicator was asked for), `start` (of the job), `inside` (in the middle of it),
`between` (two of its calls) or `evaluate`. What is a disagreement has no moment of its own.
"""

import ctypes
import os
import resource
import signal
import sys
import time
from pathlib import Path

import numpy as np
from mpi4py import MPI

import qkv
from qkv import cli, distributed, models, nn, optim, training

JOB, RANK, MOMENT, KIND, FOLDER = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4], Path(sys.argv[5])
COMM = MPI.COMM_WORLD
ODD = COMM.rank == RANK
STEPS = 4


def fail():
    if KIND == "raise":
        raise KeyError("no such word")
    if KIND == "sys_exit":
        sys.exit(5)
    if KIND == "sys_exit_text":
        sys.exit("no such file")
    if KIND == "ends":
        raise SystemExit
    if KIND == "exit":
        os._exit(3)
    if KIND == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if KIND == "crash":
        ctypes.string_at(0)
    if KIND == "memory":
        resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
        np.ones(1 << 40, "uint8")
    if KIND == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    if KIND == "sleep":
        time.sleep(600)
    if KIND == "loop":
        while True:
            pass
    if KIND == "loop_in_c":  # the interpreter is held
        ctypes.PyDLL(None).sleep(600)


def moment(name):
    if ODD and name == MOMENT:
        fail()


def odd(kind, usual, other):
    """Return `other` on the rank that disagrees in this."""
    return other if ODD and kind == KIND else usual


def train(comm):
    model = nn.Linear(3, 1)
    if odd("frozen", False, True):
        model.bias.requires_grad = False
    rows = np.arange(96, dtype="float32").reshape(32, 3) / 96
    batches = [rows[i : i + 8] for i in range(0, 32, 8)]
    if odd("order", False, True):
        batches.reverse()
    if odd("last batch", False, True):
        batches[-1] = batches[-1][:5]
    if odd("fewer batches", False, True):
        batches.pop()
    calls = []

    def loss(model, batch):
        calls.append(batch)
        if len(calls) == 3:
            moment("inside")
        return qkv.losses.mse(model(batch), batch[:, :1], reduction="sum"), len(batch)

    def evaluate(model):
        moment("evaluate")
        optimizer.param_groups[0]["lr"] = odd("rate changes", 0.1, 0.2)
        return {"loss": 1.0}

    optimizer = optim.SGD(model.parameters(), lr=odd("rate", 0.1, 0.2))
    trainer = training.Trainer(
        model, optimizer, loss, evaluate=evaluate, evaluate_every=2, comm=odd("no comm", comm, None)
    )
    for _ in range(odd("fewer calls", 2, 1)):
        trainer.fit(batches, steps=odd("steps", STEPS, STEPS + 1), progress=False)
        moment("between")


def attend(comm):
    length = odd("length", 12, 24)
    mine = distributed.positions(length, comm, is_causal=True)
    q = qkv.tensor(np.ones((1, 2, len(mine), 4), "float32"), requires_grad=True)
    for i in range(odd("fewer calls", 4, 3)):
        out = distributed.attention(q, q, q, comm, is_causal=odd("order", True, False))
        if i == 2:
            moment("inside")
        if not odd("no backward pass", False, True):
            out.sum().backward()
        moment("between")


def language_model(comm):
    mine = distributed.positions(12, comm, is_causal=True)
    model = models.CausalLM(16, 8, odd("heads", 2, 4), 1, comm=odd("no comm", comm, None))
    optimizer = optim.SGD(model.parameters(), lr=0.1)

    def loss(m, batch):
        moment("inside")
        return training.token_loss(m(batch[0]), batch[1])

    def split(ids, rank, size):
        return ids[:, mine], ids[:, mine + 1]

    trainer = training.Trainer(model, optimizer, loss, comm=comm, split=split)
    ids = np.arange(26).reshape(2, 13) % 16 + odd("ids", 0, 1) % 16
    trainer.fit([ids % 16] * 3, epochs=1, progress=False)
    moment("between")
    trainer.fit([ids % 16] * 3, epochs=1, progress=False)


def embed(comm):
    from qkv.models.sentences import embed as command

    command.CHUNK = 3
    encode = command.SentenceEncoder.encode

    def slowly(self, *arguments):
        moment("inside")
        return encode(self, *arguments)

    command.SentenceEncoder.encode = slowly
    model = odd("model", "model", "other model")
    texts = odd("texts", odd("no texts", "texts.txt", "missing.txt"), "other.txt")
    output = odd("output", "vectors.npy", "others.npy")
    options = ["--bogus"] if odd("option", False, True) else []
    status = cli.main(
        [
            "embed",
            "--model",
            str(FOLDER / model),
            str(FOLDER / texts),
            "--output",
            str(FOLDER / output),
            "--batch-size",
            "2",
            *options,
        ]
    )
    moment("between")
    sys.exit(status)


distributed.rank()
moment("import")
if JOB == "raw":
    COMM.Barrier()
    sys.exit()
moment("start")
{"train": train, "attend": attend, "language_model": language_model, "embed": embed}[JOB](COMM)
