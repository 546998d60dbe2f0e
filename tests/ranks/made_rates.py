"""Rates of a machine that is as quick for small pieces as for large ones, and the jobs that they are tried with."""

import itertools

from qkv.distributed import plan
from qkv.distributed.plan.job import Place
from qkv.distributed.plan.pieces import LENGTHS, PIECES

FLOPS, BYTES = 1e11, 1e10  # of one process in a second
CALLS, MERGING = 1e-5, 1e-10  # seconds of a step of a ring, and of each number of a rank's keys in it


def work(name, sizes):
    """Seconds of a piece on a machine that is as quick for small pieces as for large ones."""
    if name.startswith("linear"):
        rows, width = sizes
        return (6 if name.endswith("both") else 2) * rows * width**2 / FLOPS
    if name.startswith(("block", "causal")):
        length, width = sizes
        products = {"block": 4, "block_backward": 10, "causal": 2, "causal_both": 7}[name]
        return products * length**2 * width / FLOPS
    return 4 * sizes[0] / BYTES if name != "copy" else 2 * sizes[0] / BYTES


def messages_of(latency, per_byte, hidden):
    points = [[size, latency + size * per_byte] for size in (8, 4096, 1 << 20, 1 << 24)]
    return {"shift": points, "sum": points, "shift_hidden": hidden, "sum_hidden": hidden, "ring": []}


def made(counts=(1, 2, 4), cores=2, hidden=0.5, start=1.0):
    pieces = {
        n: {
            name: [
                (sizes, max(1.0, n / cores) * work(name, sizes)) for sizes in itertools.product(*piece.sizes)
            ]
            for name, piece in PIECES.items()
        }
        for n in counts
    }
    messages = {n: messages_of(1e-6, 2e-10, hidden) for n in counts if n > 1}
    machine = {"cpu": "made", "cores": cores, "threads": 1, "qkv": "0", "date": "2026-01-01"}
    rates = plan.Rates(machine, pieces, messages, start)
    for n, found in messages.items():
        found["ring"] = [[2 * length, ring(rates, n, length)] for length in LENGTHS]
    return rates


def ring(rates, ranks, length):
    """Seconds of both passes with two stretches of a length on each rank."""
    place = Place(rates, ranks, None, ranks)
    kernels_and_messages = sum(plan.Attention(2 * ranks * length, 4, 64)._passes(place, length))
    return kernels_and_messages + ranks * place.turns * (CALLS + MERGING * 2 * length * 4 * 64)


RATES = made()
JOBS = [plan.Train(), plan.Attention(), plan.Attention(causal=False), plan.Embed()]
