"""Processes that are interrupted in an operation of qkv.torch, or import it again: they end as Python's do."""

from __future__ import annotations

import subprocess
import sys

import pytest

INTERRUPTED = """
import os, signal, sys, threading, time
import qkv.torch as torch
F = torch.nn.functional
x, wide = torch.ones(1600, 1600), torch.ones(4, 900, 900)
linear = torch.nn.Linear(1600, 1600)
work = {
    "matmul": lambda: x @ x,
    "matmul method": lambda: x.matmul(x),
    "linear": lambda: F.linear(x, x),
    "Linear": lambda: linear(x),
    "bmm": lambda: torch.bmm(wide, wide),
    "backward": lambda: linear(x).sum().backward(),
    "exp": lambda: x.exp().sum(0).sort(),
    "einsum": lambda: torch.einsum("ij,jk->ik", x, x),
    "LSTM": lambda layer=torch.nn.LSTM(64, 64), t=torch.ones(50, 8, 64): layer(t),
}[sys.argv[1]]
work()
signals = int(sys.argv[2])
def send():
    for _ in range(signals):
        time.sleep(0.15)
        os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=send, daemon=True).start()
raised, end = 0, time.monotonic() + 60
while raised < signals and time.monotonic() < end:
    try:
        while time.monotonic() < end:
            work()
    except KeyboardInterrupt:
        raised += 1
print("raised", raised, work() is not None or True)
"""


def run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-X", "faulthandler", "-c", program, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


@pytest.mark.skipif(sys.platform == "win32", reason="no signals")
@pytest.mark.parametrize("signals", ["1", "5"])
@pytest.mark.parametrize("work", ["matmul", "linear", "Linear", "backward", "exp", "einsum", "LSTM"])
def test_every_interrupt_arrives(work, signals):
    done = run(INTERRUPTED, work, signals)
    assert (done.returncode, done.stdout) == (0, f"raised {signals} True\n"), done.stderr


ENDED = """
import os, signal, threading
import qkv, qkv.torch as torch
import numpy as np
x, y = torch.ones(2400, 2400), np.ones((2400, 2400))
threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
while True:
    x @ x
    qkv.matmul(y, y)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no signals")
def test_an_interrupt_that_nobody_catches_ends_the_process_as_pythons_do():
    done = run(ENDED)
    assert done.returncode == -2, done.stderr  # of SIGINT
    assert done.stderr.rstrip().endswith("KeyboardInterrupt")


HANDLED = """
import os, signal, threading, time
import qkv.torch as torch
class Told(Exception): pass
def tell(*_): raise Told("by a handler")
signal.signal(signal.SIGALRM, tell)
x = torch.ones(1600, 1600)
signal.setitimer(signal.ITIMER_REAL, 0.2)
try:
    while True: x @ x
except Told as error:
    print(error)
signal.setitimer(signal.ITIMER_REAL, 0.2)
while True: x @ x
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no signals")
def test_what_a_handler_raises_is_what_arrives():
    done = run(HANDLED)
    assert (done.returncode, done.stdout) == (1, "by a handler\n"), done.stderr
    assert done.stderr.rstrip().endswith("Told: by a handler")


AGAIN = """
import gc, importlib, sys
import qkv.torch as torch
kept = torch.ones(3, dtype=torch.int32)
def check(torch):
    assert (torch.ones(3) + 1.5).tolist() == [2.5] * 3
    assert (torch.tensor([1, 2]) * 2).dtype is torch.int64
    assert (torch.ones(2, dtype=torch.uint8) + torch.ones(2, dtype=torch.int8)).dtype is torch.int16
    assert torch.ones(2, dtype=torch.float64).sum().dtype is torch.float64
    assert repr(torch.tensor([1.5]).to(torch.int32)) == "tensor([1], dtype=torch.int32)"
check(torch)
for _ in range(3):
    if sys.argv[1] == "reload":
        importlib.reload(sys.modules["qkv.torch._dtypes"])
        gc.collect()
        assert (torch.ones(3) + 1.5).tolist() == [2.5] * 3
        assert (kept + kept).tolist() == [2] * 3
        assert str(kept.dtype) == "torch.int32"
    else:
        for name in [n for n in sys.modules if n.startswith("qkv.torch")]:
            del sys.modules[name]
        gc.collect()
        import qkv.torch as torch
        check(torch)
    assert (kept + 1).tolist() == [2] * 3
print("done")
"""


@pytest.mark.parametrize("how", ["reload", "import"])
def test_qkv_torch_is_imported_again(how):
    done = run(AGAIN, how)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
