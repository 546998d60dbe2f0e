"""A child that is made at any moment can use the library."""

from __future__ import annotations

import os

import pytest

from .program import output

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

FORKS = """
import warnings
warnings.simplefilter("ignore", DeprecationWarning)
busy_code, use_code, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
rng, layer, x = qkv.Generator(7), qkv.nn.MultiHeadAttention(8, 2), np.ones((1, 3, 8), "float32")
w, linear = qkv.tensor(np.ones(1009), requires_grad=True), qkv.nn.Linear(8, 8)
cycle = [2, 1]
def turn():
    cycle.reverse()
    return cycle[0]
busy, end = compile(busy_code, "busy", "eval"), threading.Event()
def keep_busy():
    while not end.is_set():
        eval(busy, globals())
workers = [threading.Thread(target=keep_busy) for _ in range(2)]
for worker in workers:
    worker.start()
hung = failed = 0
for _ in range(count):
    time.sleep(0.002)
    child = os.fork()
    if child == 0:
        try:
            eval(use_code, globals())
        except BaseException:
            os._exit(1)
        os._exit(0)
    deadline = time.monotonic() + 10
    while True:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            failed += status != 0
            break
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            hung += 1
            break
        time.sleep(0.001)
    if hung > 2:
        break
end.set()
for worker in workers:
    worker.join()
print(hung, failed)
"""

CASES = {
    "default generator": ("qkv.randn(1000)", "qkv.nn.Linear(4, 4)(np.ones((2, 4)))"),
    "own generator": ("qkv.randn(1000, rng=rng)", "qkv.randn(5, rng=rng)"),
    "number of threads": (
        "qkv.set_num_threads(turn())",
        "(qkv.set_num_threads(2), qkv.set_num_threads(1), qkv.softmax(np.ones((300, 400))))",
    ),
    "layers": ("layer(x)", "(layer(x), layer.attention_weights, layer(x).sum().backward())"),
    "backward": ("(w * 2).sum().backward()", "((w * 2).sum().backward(), w.grad.sum())"),
    "memory": (
        "(qkv.empty_cache(), qkv.relu(np.ones(100003)))",
        "(qkv.relu(np.ones(100003)), qkv.empty_cache())",
    ),
    "small products": ("linear(x)", "(linear(x), linear(x).sum().backward())"),
    "products": (
        "np.ones((300, 300)) @ qkv.tensor(np.ones((300, 300)))",
        "qkv.tensor(np.ones((300, 300))) @ np.ones((300, 300))",
    ),
}


@pytest.mark.skipif(
    os.environ.get("QKV_SANITIZER") == "address",
    reason="a thread that is not copied may hold a lock of AddressSanitizer's allocator",
)
@pytest.mark.parametrize("name", CASES)
def test_forks_while_other_threads_work(name):
    assert output(FORKS, *CASES[name], "40", timeout=100) == "0 0"


def test_the_first_use_is_in_a_child_of_a_process_with_threads():
    """What is made at its first use is not left half made by a thread that a fork does not copy."""
    program = """
import warnings
warnings.simplefilter("ignore", DeprecationWarning)
work = threading.Thread(target=lambda: qkv.nn.Linear(3, 5)(np.ones((7, 3))))
work.start()
child = os.fork()
if child == 0:
    qkv.nn.Linear(3, 5)(np.ones((7, 3)))
    os._exit(0)
work.join()
deadline = time.monotonic() + 20
while os.waitpid(child, os.WNOHANG) == (0, 0):
    if time.monotonic() > deadline:
        os.kill(child, signal.SIGKILL)
        sys.exit("the child hangs")
    time.sleep(0.001)
print("done")
"""
    for _ in range(3):
        assert output(program) == "done"
