"""Other Python threads run while qkv computes."""

from __future__ import annotations

import re

import pytest

from stress.program import output

# Counts how often another thread runs within calls of the work. A thread that must wait for the end of each call counts
# at most once or twice per call.
COUNT = """
x = np.random.default_rng(0).standard_normal((1 << 21,))
t = qkv.tensor(x)
rows = t.reshape(2048, 1024)
labels = qkv.tensor(np.arange(1 << 21))
works = {
    "exp": lambda: qkv.exp(t),
    "log": lambda: qkv.log(x),
    "clip": lambda: qkv.clip(t, 0, 1),
    "where": lambda: qkv.where(x > 0, t, 0.0),
    "logsumexp": lambda: qkv.logsumexp(rows, -1),
    "add": lambda: t + x,
    "power": lambda: abs(t) ** 1.5,
    "compare": lambda: t < x,
    "negate": lambda: -t,
    "sum": lambda: rows.sum(0),
    "mean": lambda: rows.mean(1),
    "max": lambda: rows.max(),
    "integers": lambda: (labels * 3).max(),
    "transpose": lambda: rows.transpose(1, 0).copy(),
    "slice": lambda: t[::-1].copy(),
    "take": lambda: t[labels],
    "astype": lambda: t.astype("float32"),
    "concatenate": lambda: qkv.concatenate([t, t]),
    "stack": lambda: qkv.stack([t, t]),
    "change": lambda: t.__imul__(1.0),
    "copy_": lambda: t.copy_(t),
    "numpy": lambda: np.exp(t),
    "positions": lambda: qkv.sinusoidal_positions(2048, 512),
}
work = works[sys.argv[1]]
qkv.set_num_threads(1)
work()
inside, stop, ticks = threading.Event(), threading.Event(), []
counting = [False]
def count():
    while not stop.is_set():
        if counting[0]:
            ticks.append(1)
        time.sleep(0.0002)
thread = threading.Thread(target=count)
thread.start()
sys.setswitchinterval(10)  # nobody gives the interpreter away but by waiting
calls = 0
end = time.monotonic() + 20
while len(ticks) < 40 and time.monotonic() < end:
    counting[0] = True
    work()
    counting[0] = False
    calls += 1
stop.set()
thread.join()
print(len(ticks), calls)
"""

WORKS = re.findall(r'^    "(\w+)": lambda', COUNT, re.M)


@pytest.mark.parametrize("work", WORKS)
def test_other_threads_run_during(work):
    ticks, calls = map(int, output(COUNT, work).split())
    assert ticks >= 40, f"{ticks} ticks in {calls} calls"
