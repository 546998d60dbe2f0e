"""Memory that waits for the next array: how much, that it is used again, and that it can be handed back."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import qkv

MIB = 2**20


@pytest.fixture(autouse=True)
def clean_cache():
    qkv.empty_cache()
    yield
    qkv.empty_cache()


def faults() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def test_what_is_kept_is_counted_and_bounded():
    before = qkv.cached_bytes()
    held = [qkv.tensor(np.zeros(4 * MIB, "float32")) for _ in range(40)]  # 640 MiB
    assert qkv.cached_bytes() < before + 64 * MIB, "memory in use does not wait"
    del held
    assert 448 * MIB <= qkv.cached_bytes() <= 512 * MIB
    qkv.empty_cache()
    assert qkv.cached_bytes() == 0


@pytest.mark.skipif("QKV_SANITIZER" in os.environ, reason="a sanitizer touches pages of its own")
@pytest.mark.parametrize("size", [256 * 1024, 8 * MIB])
def test_repeated_calls_touch_no_fresh_pages(size):
    x = qkv.tensor(np.ones(size, "float32"), requires_grad=True)  # 1 and 32 MiB: 256 and 8192 pages
    slope = qkv.tensor(np.ones(size, "float32"))

    def step():
        qkv.gelu(qkv.softmax(x.reshape(-1, 1024)).reshape(size)).backward(slope)
        x.grad = None

    for _ in range(3):
        step()
    before = faults()
    for _ in range(10):
        step()
    assert faults() - before < 100, "of more than 5,000 if each array were fresh"


def numbers_from(program):
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": str(Path(qkv.__file__).parents[1]), "PATH": "/usr/bin:/bin"},
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    return map(int, done.stdout.split())


def measures_what_is_resident(test):
    for condition, reason in (
        ("QKV_SANITIZER" in os.environ, "a sanitizer's allocator keeps what is freed"),
        (not Path("/proc/self/statm").exists(), "reads how much memory is resident from /proc"),
    ):
        test = pytest.mark.skipif(condition, reason=reason)(test)
    return test


PROGRAM = """
import numpy as np, qkv
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096
def use(size, count):
    return [qkv.relu(qkv.tensor(np.ones(size, "float32"))) for _ in range(count)]
use(1 << 22, 3)  # after this the allocator takes blocks of up to 16 MiB from its heap
qkv.empty_cache()
start = resident()
held = use(1 << 14, 800), use(1 << 18, 50), use(1 << 22, 6)
last = qkv.tensor(np.ones(100, "float32"))  # pins the end of the heap
del held
full, kept = resident(), qkv.cached_bytes()
qkv.empty_cache()
print(start, full, kept, resident())
"""


@measures_what_is_resident
def test_emptying_the_cache_gives_memory_back_to_the_system():
    start, full, kept, end = numbers_from(PROGRAM)
    assert kept > 180 * MIB
    assert full - start > 0.9 * kept
    assert end - start < 0.1 * kept, "what waited in the cache is still resident"


PARTS = """
import numpy as np, qkv
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096
w, results = qkv.tensor(np.ones(10), requires_grad=True), []
big = np.ones((1000, 1000))
start = resident()
for _ in range(20):
    results.append(w * qkv.tensor(big)[3, :10])
qkv.empty_cache()
print(resident() - start, sum(qkv.grad(r.sum(), w).numpy().sum() for r in results).astype(int))
"""


@measures_what_is_resident
def test_a_node_keeps_no_more_of_a_part_than_the_part():
    kept, total = numbers_from(PARTS)
    assert total == 200
    assert kept < 40 * MIB, "of the 160 that were parts of"


SAVED = """
import numpy as np, qkv
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096
w, frozen = (qkv.tensor(np.ones((1024, 1024), "float32"), requires_grad=flag) for flag in (True, False))
def kept(f):
    f(w + 1)
    qkv.empty_cache()
    start = resident()
    results = [f(w + 1) for _ in range(8)]
    qkv.empty_cache()
    return (resident() - start) // 2**20
def masked(x):
    x[frozen > 2] = 0
    return qkv.softmax(x / 8)
for f in (
    lambda x: x * 2, lambda x: x / 8, lambda x: x * frozen, lambda x: x @ frozen, lambda x: x % 2,
    qkv.softmax, qkv.log_softmax, lambda x: qkv.masked_softmax(x, 3), masked, lambda x: x * w,
):
    print(kept(f))
"""
CYCLES = """
import numpy as np, qkv
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096
layers = [qkv.nn.Linear(384, 600 + 37 * i) for i in range(20)]
x = np.ones((3, 384), "float32")
def use():
    with qkv.no_grad():
        for layer in layers:
            layer(x), layer(x)
def ask():
    return [float(layer.weight.numpy()[0, 0]) for layer in layers]
weights = sum(layer.weight.nbytes for layer in layers)
use(), ask(), use()
start = resident()
for _ in range(30):
    ask(), use()
packed = resident()
ask()
plain = resident()
del layers
qkv.empty_cache()
print(weights, start, packed, plain, resident())
"""


@measures_what_is_resident
def test_what_no_gradient_needs_is_free():
    *results, product = numbers_from(SAVED)
    assert max(results) < 8 * 5, "the results have 4 MiB each; what they were computed from is free"
    assert product > 8 * 7, "a product keeps the factors that it is differentiated by"


def test_weights_that_are_packed_and_asked_back_again_and_again_take_no_more():
    weights, start, packed, plain, end = numbers_from(CYCLES)
    slack = weights // 4 + 4 * MIB
    assert packed - start < slack
    assert plain - start < slack
    assert start - end > weights // 2, "of a model that is gone, the most is given back"
