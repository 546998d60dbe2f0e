"""Two threads against one, on a quiet machine and beside a neighbour that keeps one of the cores busy."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import machine
import numpy as np
from measure import PROBE
from peers import minilm
from registry import Case, Goal, Skip, Times, normal, ratio, row

import qkv

from . import additive, attention, pooling, recurrent, training

ONE, TWO = "1 thread", "qkv"
Call = Callable[[], Any]


def ragged() -> Call:
    tensors = [qkv.tensor(normal(16, 8, 512, 64, seed=i)) for i in range(3)]
    lens = np.random.default_rng(0).integers(64, 513, 16)
    return lambda: qkv.scaled_dot_product_attention(*tensors, valid_lens=lens)


def ours(make: Callable[[int], Case]) -> Call:
    """Take qkv's call of another row."""
    return make(1).calls["qkv"]


def attend(shape: attention.Shape, causal: bool = False) -> Call:
    return ours(partial(attention.forward, shape, causal))


def model(batch: int, length: int) -> Call:
    return partial(minilm.ours, np.random.default_rng(0).integers(1000, 30000, (batch, length), np.int32))


# What is large enough to be worth two threads, and how many times as fast they should be: calls of more than 2 ms 1.8
# times, those from 0.3 ms on 1.4 times.
LARGE: dict[str, tuple[Callable[[], Call], float]] = {
    "attention (8, 8, 128, 64)": (partial(attend, (8, 8, 128, 64)), 1.8),
    "attention (1, 12, 512, 64)": (partial(attend, (1, 12, 512, 64)), 1.8),
    "attention (1, 8, 1024, 64)": (partial(attend, (1, 8, 1024, 64)), 1.8),
    "attention (1, 8, 2048, 64)": (partial(attend, (1, 8, 2048, 64)), 1.8),
    "attention (1, 4, 4096, 128)": (partial(attend, (1, 4, 4096, 128)), 1.8),
    "attention causal (1, 8, 1024, 64)": (partial(attend, (1, 8, 1024, 64), True), 1.8),
    "attention causal (1, 8, 2048, 64)": (partial(attend, (1, 8, 2048, 64), True), 1.8),
    "attention (16, 8, 512, 64), ragged": (ragged, 1.7),
    "attention forward + backward (1, 8, 1024, 64)": (
        lambda: ours(partial(attention.backward, (1, 8, 1024, 64), False)),
        1.8,
    ),
    "additive (8, 128, 128, 256), forward + backward": (
        lambda: ours(partial(additive.attention, (8, 128, 128, 256), True)),
        1.8,
    ),
    "Nadaraya-Watson 4096 x 4096": (lambda: ours(partial(pooling.pool, False)), 1.8),
    "MiniLM (1, 32)": (partial(model, 1, 32), 1.4),
    "MiniLM (1, 128)": (partial(model, 1, 128), 1.8),
    "MiniLM (8, 64)": (partial(model, 8, 64), 1.8),
    "MiniLM (32, 32)": (partial(model, 32, 32), 1.8),
    "MiniLM (8, 256)": (partial(model, 8, 256), 1.8),
    "MiniLM (4, 512)": (partial(model, 4, 512), 1.8),
    "encoder training step (16, 64, 256)": (lambda: ours(training.step), 1.8),
    "GRU 2 x 256, (16, 32, 256), forward": (lambda: ours(partial(recurrent.gru, False)), 1.8),
    "GRU 2 x 256, (16, 32, 256), forward + backward": (lambda: ours(partial(recurrent.gru, True)), 1.8),
}
BESIDE = ("attention (1, 8, 2048, 64)", "MiniLM (4, 512)", "encoder training step (16, 64, 256)")


def faster(target: float) -> Goal:
    def figure(times: Times, case: Case) -> list[float]:
        return ratio(times, ONE, TWO)

    return Goal("times as fast as with one thread", target, figure)


def at_most(limit: float) -> Goal:
    def figure(times: Times, case: Case) -> list[float]:
        alone = float(np.median(times[ONE]))
        return [value / alone for value in times[TWO]]

    return Goal("of one thread's time without the neighbour", limit, figure, at_least=False)


def two(make: Callable[[], Call], threads: int) -> Case:
    if machine.cores() < 2:
        raise Skip("there is one core")
    call = make()
    one, both = partial(machine.set_threads, 1), partial(machine.set_threads, 2)
    return Case({ONE: call, TWO: call}, before={ONE: one, TWO: both, PROBE: both})


def neighbour(make: Callable[[], Call], threads: int) -> Case:
    """Two threads while another process spins on one core; it sleeps while one thread is measured."""
    if machine.cores() < 2 or not hasattr(os, "sched_setaffinity"):
        raise Skip("needs two cores and Linux")
    case = two(make, threads)
    spinning = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    os.sched_setaffinity(spinning.pid, {max(os.sched_getaffinity(0))})

    def alone() -> None:
        spinning.send_signal(signal.SIGSTOP)
        machine.set_threads(1)

    def beside() -> None:
        spinning.send_signal(signal.SIGCONT)
        machine.set_threads(2)

    def close() -> None:
        spinning.kill()
        spinning.wait()

    def probe() -> None:
        alone()
        machine.set_threads(2)

    case.before = {ONE: alone, TWO: beside, PROBE: probe}
    case.close = close
    return case


for _name, (_make, _target) in LARGE.items():
    row(f"two threads: {_name}", goals=[faster(_target)], threads="two")(partial(two, _make))
for _name in BESIDE:
    row(f"two threads beside a busy neighbour: {_name}", goals=[at_most(1.1)], threads="two")(
        partial(neighbour, LARGE[_name][0])
    )
