"""Where memory is short: the cache is emptied first, and what cannot be had is a MemoryError."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from .program import output

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="reads the size of the process from /proc"
)
freed_at_once = pytest.mark.skipif(
    "QKV_SANITIZER" in os.environ, reason="a sanitizer's allocator keeps what is freed"
)

LIMIT = """
import resource
def leave(mib):
    size = 1024 * int(next(line for line in open("/proc/self/status") if line.startswith("VmSize")).split()[1])
    resource.setrlimit(resource.RLIMIT_AS, (size + (mib << 20), -1))
"""
FILL_CACHE = """
x = np.ones(8 << 20, "float32")
held = [qkv.relu(x) for _ in range(8)]
del held
"""


@freed_at_once
def test_memory_that_waits_in_the_cache_is_given_back_before_an_error():
    program = (
        LIMIT
        + FILL_CACHE
        + """
assert qkv.cached_bytes() >= 240 << 20
y = np.ones(30 << 20, "float32")
leave(40)
print(qkv.relu(y).shape, qkv.cached_bytes() < 200 << 20)
try:
    qkv.relu(y), qkv.relu(np.broadcast_to(np.float32(1), (1 << 30,)))
except MemoryError:
    print("MemoryError")
print(qkv.relu(x[:1000]).sum())
"""
    )
    assert output(program).splitlines() == ["(31457280,) True", "MemoryError", "1000.0"]


@pytest.mark.parametrize(
    "work", ["a @ a", "qkv.nn.Linear(67, 71)(a)", "qkv.scaled_dot_product_attention(a, a, a)"]
)
def test_the_first_product_with_little_memory(work):
    program = (
        LIMIT
        + f"""
a = qkv.tensor(np.ones((67, 67)))
f = compile({work!r}, "work", "eval")
qkv.set_num_threads(1)
leave(30)
print(eval(f).shape[0])
"""
    )
    assert output(program) == "67"


@freed_at_once
def test_random_numbers_take_memory_that_waits_in_the_cache():
    program = (
        LIMIT
        + FILL_CACHE
        + """
leave(40)
print(qkv.rand(30 << 20).shape)
try:
    qkv.rand(1 << 30)
except MemoryError as error:
    print(error)
"""
    )
    first, second = output(program).splitlines()
    assert first == "(31457280,)"
    assert "(1073741824,)" in second
