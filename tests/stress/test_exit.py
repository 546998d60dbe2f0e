"""A process that ends while daemon threads compute ends in order."""

from __future__ import annotations

import pytest

from .program import run

WORK = {
    "small calls": "layer(x)",
    "large calls": "qkv.scaled_dot_product_attention(big, big, big)",
    "products": "matrix @ matrix",
    "double products": "qkv.tensor(np.ones((50, 60, 60))) @ np.ones((50, 60, 60))",
    "backward": "layer(x).sum().backward()",
    "random numbers": "qkv.randn(100000)",
    "a score in Python": "distance(x, x, x)",
    "a forward in Python": "module(x)",
    "functions": "qkv.softmax(np.ones((300, 500)))",
}

PROGRAM = """
layer, x = qkv.nn.MultiHeadAttention(8, 2), np.ones((1, 3, 8), "float32")
big, matrix = np.ones((1, 8, 256, 64), "float32"), qkv.tensor(np.ones((700, 700), "float32"))
class Distance(qkv.nn.Attention):
    def score(self, queries, keys):
        return -((queries[:, :, None] - keys[:, None]) ** 2).sum(axis=-1)
class Loop(qkv.nn.Module):
    def forward(self, x):
        return sum(i for i in range(1000))
distance, module = Distance(), Loop()
code = compile(sys.argv[1], "work", "eval")
def work():
    while True:
        eval(code, globals())
for _ in range(3):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.05)
print("ending")
"""


@pytest.mark.parametrize("name", WORK)
def test_daemon_threads_that_compute_do_not_abort_the_process(name):
    for _ in range(5):
        done = run(PROGRAM, WORK[name])
        assert (done.returncode, done.stdout.strip()) == (0, "ending"), done.stderr[-2000:]
