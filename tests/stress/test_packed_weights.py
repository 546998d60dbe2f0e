"""Matrices whose memory goes and comes back while other threads, children and handlers of signals use them."""

from __future__ import annotations

import os

import pytest

from .program import output

START = """
qkv.manual_seed(0)
def made():
    return qkv.nn.Sequential(qkv.nn.Linear(192, 160), qkv.nn.GELU(), qkv.nn.Linear(160, 192))
net, same = made(), made()
same.load_state_dict(net.state_dict())
weight, fixed = net[0].weight, same[0].weight.numpy()
x = np.random.default_rng(0).standard_normal((5, 192)).astype("float32")
with qkv.no_grad():
    expected = net(x).numpy()
same(x).sum().backward()
slope = same[0].weight.grad.numpy()
def infer():
    with qkv.no_grad():
        assert (net(x).numpy() == expected).all()
def look():
    assert (weight.numpy() == fixed).all()
def train():
    found, = qkv.grad(net(x).sum(), [weight])
    assert (np.asarray(found) == slope).all()
def keep():
    assert all((np.asarray(p) == np.asarray(q)).all() for p, q in zip(net.state_dict().values(), same.parameters()))
counts = [0, 0]
def count():
    counts[bool(qkv._core.in_panels(weight))] += 1
    time.sleep(0.0001)
"""

WORKS = {
    "inference": "infer, infer, infer",
    "training": "infer, train, train",
    "views": "infer, infer, look, look",
    "all": "infer, infer, train, look, keep",
}


@pytest.mark.parametrize("name", WORKS)
def test_threads(name):
    program = f"{START}\ntogether({WORKS[name]}, count, seconds=2)\ninfer(), infer(), print(sum(counts) > 5)"
    assert output(program) == "True"


def test_threads_that_all_infer_give_the_memory_back():
    program = (
        f"{START}\ntogether(infer, infer, seconds=1)\ninfer(), infer(), print(qkv._core.in_panels(weight))"
    )
    assert output(program) == "True"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_children_have_the_numbers():
    program = f"""{START}
import warnings
warnings.simplefilter("ignore", DeprecationWarning)
end = threading.Event()
def busy():
    while not end.is_set():
        infer(), look(), train()
threads = [threading.Thread(target=busy) for _ in range(2)]
for thread in threads:
    thread.start()
statuses = []
for _ in range(30):
    time.sleep(0.002)
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        look(), infer(), infer(), look(), train()
        os._exit(0)
    statuses.append(os.waitpid(child, 0)[1])
end.set()
for thread in threads:
    thread.join()
print(sum(statuses))
"""
    assert output(program) == "0"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="signals of Windows come between calls")
def test_a_handler_that_infers_leaves_what_it_interrupts_alone():
    program = f"""{START}
large = np.random.default_rng(0).standard_normal((60000, 192)).astype("float32")
with qkv.no_grad():
    whole = same(large).numpy()
calls = []
def handler(*_):
    infer(), infer()
    calls.append(1)
signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.03, 0.03)
for _ in range(4):
    net[0].weight.numpy()
    with qkv.no_grad():
        assert np.allclose(qkv.gelu(large @ net[0].weight.T + net[0].bias) @ net[2].weight.T + net[2].bias, whole,
                           atol=1e-3)
signal.setitimer(signal.ITIMER_REAL, 0, 0)
print(len(calls) > 0)
"""
    assert output(program) == "True"
