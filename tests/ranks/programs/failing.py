"""One rank fails in the way that its name says, while the others wait for it.

failing.py KIND RANK [FOLDER]
"""

import ctypes
import os
import resource
import signal
import sys
import time

import numpy as np
from mpi4py import MPI

import qkv
from qkv.distributed import communicator

COMM = MPI.COMM_WORLD


def fail(kind):
    if kind == "raise":
        raise KeyError("no such word")
    if kind == "exit":
        os._exit(3)
    if kind == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if kind == "terminate":
        os.kill(os.getpid(), signal.SIGTERM)
    if kind == "crash":
        ctypes.string_at(0)
    if kind == "memory":
        resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
        np.ones(1 << 40, "uint8")
    if kind == "stop":
        time.sleep(600)
    assert kind in ("infinite", "system_exit", "outside"), kind


def main(kind, rank):
    qkv.manual_seed(0)
    model = qkv.nn.Linear(3, 1)
    rows = qkv.randn(8, 3)
    updates = []

    def loss(model, batch):
        updates.append(len(batch))
        if len(updates) == 3 and COMM.rank == rank:
            fail(kind)
        value = qkv.losses.mse(model(batch), batch[:, :1], reduction="sum")
        if len(updates) == 3 and kind == "infinite" and COMM.rank == rank:
            value = value * float("inf")
        return value, len(batch)

    if kind == "outside":  # of qkv's functions
        communicator.own(COMM, "test")
        if COMM.rank == rank:
            raise RuntimeError("outside of the training")
        COMM.Barrier()
    trainer = qkv.training.Trainer(model, qkv.optim.SGD(model.parameters(), lr=0.1), loss, comm=COMM)
    if kind == "system_exit":
        trainer.loss = lambda model, batch: sys.exit(5) if COMM.rank == rank else loss(model, batch)
    trainer.fit([rows], steps=5, progress=False)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
