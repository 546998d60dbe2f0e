"""Integers that another thread changes while an operation reads them: an error or a result, never a crash."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAM = """
import sys, threading, time
import numpy as np, qkv, qkv.torch as torch
from qkv import _core, nn
sys.setswitchinterval(1e-6)
flat, lens, starts = np.zeros(200_000, np.int64), np.ones(4000, np.int64), np.arange(0, 4001, 8)
x = np.ones((4000, 3, 2), "f4")
halves = np.zeros((2, 200_000), bool)
chosen = torch.from_numpy(halves)
wide, attend = torch.from_numpy(flat), qkv.scaled_dot_product_attention
layer, cache = nn.MultiHeadAttention(2, 1), nn.KVCache()
layer(x, cache=cache)
cases = {
    "embedding": (flat, 2**40, lambda t=nn.Embedding(1000, 8): t(flat)),
    "F.embedding": (flat, -(2**40), lambda t=torch.ones(9, 4): torch.nn.functional.embedding(wide, t)),
    "one_hot": (flat, 2**40, lambda: qkv.one_hot(flat, 8)),
    "one_hot of all classes": (flat, 300, lambda: qkv.one_hot(flat[-2000:])),
    "repeat": (flat, 2000, lambda t=qkv.tensor(np.ones((200_000, 1), "f4")): t.repeat(flat, axis=0)),
    "repeat_interleave": (flat, 2000, lambda t=torch.ones(200_000): torch.repeat_interleave(t, wide)),
    "GRU": (lens, 10**6, lambda layer=nn.GRU(2, 2): layer(x, valid_lens=lens)),
    "additive": (lens, 10**8, lambda w=np.ones(2, "f4"): qkv.additive_attention(x, x, x, w, valid_lens=lens)),
    "attention": (lens, 10**8, lambda: attend(x[:, None], x[:, None], x[:, None], valid_lens=lens)),
    "masked_softmax": (lens, 10**8, lambda: qkv.masked_softmax(x, lens)),
    "kernel_attention": (lens, 10**8, lambda: qkv.kernel_attention(x, x, x, valid_lens=lens)),
    "ragged": (starts, 10**8, lambda q=np.ones((4000, 2, 3), "f4"): attend(
        q, q, q, cu_seqlens_q=starts, cu_seqlens_k=starts)),
    "take_along_axis": (flat, 2**40, lambda t=qkv.tensor(np.ones(9, "f4")): qkv.take_along_axis(t, flat, 0)),
    "cross_entropy": (flat, 2**40, lambda t=np.ones((200_000, 3), "f4"): qkv.losses.cross_entropy(t, flat)),
    "KVCache.reorder": (lens, 2**40, lambda: cache.reorder(lens)),
    "scatter_add": (flat, 2**40, lambda t=torch.zeros(9): t.scatter_add(0, wide, torch.ones(200_000))),
    "an index": (flat, 2**40, lambda t=qkv.tensor(np.ones(9, "f4")): t[flat]),
    "an index that is set": (flat, 2**40, lambda t=qkv.tensor(np.ones(9, "f4")): t.__setitem__(flat, 1.0)),
    "a Tensor as index that is set": (flat, 2**40, lambda t=torch.ones(9): t.__setitem__(wide, 1.0)),
    "a mask": (halves, True, lambda t=qkv.tensor(np.ones(400_000, "f4")): t[halves.reshape(-1)]),
    "a Tensor as mask": (halves, True, lambda t=torch.ones(2, 200_000): t[chosen]),
    "bincount": (flat, 10**4, lambda: torch.bincount(wide)),
    "a formula's table": (lens, 2**30, lambda q=np.ones((1, 1, 4000, 2), "f4"), table=np.ones(8, "f4"):
        attend(q, q[:, :, :3], q[:, :, :3], score_mod=lambda s, b, h, i, j: s + table[lens[i] + j])),
}
for name in sys.argv[1:]:
    array, wrong, call = cases[name]
    right, stop = array[-1].copy(), threading.Event()
    def change():
        while not stop.is_set():
            array[-1] = wrong
            array[-1] = right
    thread = threading.Thread(target=change)
    thread.start()
    end, answers, refusals = time.time() + float(SECONDS), 0, 0
    with qkv.no_grad():
        while time.time() < end:
            try:
                call()
                answers += 1
            except (ValueError, IndexError, RuntimeError, MemoryError):
                refusals += 1
    stop.set()
    thread.join()
    array[-1] = right
    call()
    print(name, answers + refusals > 0, flush=True)
"""
NAMES = [
    line.strip().split('"')[1] for line in PROGRAM.splitlines() if line.startswith('    "') and '": (' in line
]


@pytest.mark.skipif(
    os.environ.get("QKV_SANITIZER") == "thread",
    reason="the race is the test's own: a copy is made of what changes",
)
@pytest.mark.parametrize("names", [NAMES[i::3] for i in range(3)])
def test_integers_that_change_while_they_are_read(names):
    program = PROGRAM.replace("SECONDS", "0.7")
    run = subprocess.run(
        [sys.executable, "-c", program, *names], capture_output=True, text=True, check=False, timeout=300
    )
    assert run.returncode == 0, (run.stdout, run.stderr)
    assert run.stdout.splitlines() == [f"{name} True" for name in names]


def test_all_kinds_of_integers_are_tried():
    assert len(NAMES) == 23
