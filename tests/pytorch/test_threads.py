"""Threads of both libraries, and what surrounds a call in PyTorch: workers, forks, compilers, autocast."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading

import pytest
import torch
from torch.utils.data import DataLoader

from qkv import _core, pytorch

attend = pytorch.scaled_dot_product_attention


@pytest.fixture
def torch_threads():
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def limit_now():
    """The limit of this thread."""
    before = _core.limit_threads(7)
    _core.limit_threads(before)
    return before


def test_a_limit_is_of_the_thread_that_set_it():
    assert _core.limit_threads(3) > 100  # none
    seen = []
    thread = threading.Thread(target=lambda: seen.append(limit_now()))
    thread.start()
    thread.join()
    assert seen[0] > 100
    assert _core.limit_threads(10**6) == 3
    with pytest.raises(ValueError, match="limit_threads: n must be at least 1; got 0"):
        _core.limit_threads(0)


WORKERS = """
import os, qkv
from qkv import _core

def ticks():  # of the CPU, by each thread
    tasks = {}
    for task in os.listdir("/proc/self/task"):
        fields = open(f"/proc/self/task/{task}/stat").read().rpartition(")")[2].split()
        tasks[task] = int(fields[11]) + int(fields[12])
    return tasks

qkv.set_num_threads(4)
x = qkv.randn(8, 4, 1024, 16)
before = set(ticks())
for limit in (1, 3, 4):
    _core.limit_threads(limit)
    qkv.scaled_dot_product_attention(x, x, x)
    print(len(set(ticks()) - before))
_core.limit_threads(2)
first = ticks()
qkv.scaled_dot_product_attention(*3 * [qkv.randn(8, 4, 3000, 16)])  # one piece of work
last = ticks()
print(sorted(last[task] - first[task] for task in set(last) - before))
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/task"), reason="the system does not list threads")
def test_no_more_threads_work_than_the_limit_allows():
    found = subprocess.run([sys.executable, "-c", WORKERS], capture_output=True, text=True, check=True)
    *workers, spent = found.stdout.splitlines()
    assert workers == ["0", "2", "3"]
    first, second, third = json.loads(spent)
    assert first + second <= 2 + third // 4


BORROWED = """
import os, sys, torch
from qkv import pytorch
from qkv.pytorch import threads

if not threads.borrow():
    sys.exit("no")
torch.set_num_threads(2)
x = torch.randn(8, 4, 257, 16, requires_grad=True)
torch.exp(torch.ones(1 << 20))  # PyTorch's threads are there
before = set(os.listdir("/proc/self/task"))
y = pytorch.scaled_dot_product_attention(x, x, x)
(dx,) = torch.autograd.grad(y.sum(), x)
print(len(set(os.listdir("/proc/self/task")) - before))
torch.set_num_threads(1)
z = pytorch.scaled_dot_product_attention(x, x, x)
print(torch.equal(y, z), torch.equal(dx, torch.autograd.grad(z.sum(), x)[0]))
torch.set_num_threads(2)
child = os.fork()
if not child:  # it has none of these threads, and PyTorch's own work would wait for them
    q = x.detach()
    z = pytorch.scaled_dot_product_attention(q, q, q)
    os._exit(0 if z.numpy().tobytes() == y.detach().numpy().tobytes() else 1)
print(os.waitpid(child, 0)[1])
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/task"), reason="the system does not list threads")
def test_pytorchs_threads_do_the_work_of_its_calls():
    environment = {**os.environ, "QKV_NUM_THREADS": "2"}
    found = subprocess.run(
        [sys.executable, "-c", BORROWED], capture_output=True, text=True, env=environment, timeout=60
    )
    if found.stderr.strip() == "no":
        pytest.skip("PyTorch's OpenMP library is not GNU's")
    assert found.stdout.splitlines() == ["0", "True True", "0"], found.stderr


def test_a_call_takes_as_many_threads_as_pytorch(torch_threads):
    limits = []

    @pytorch.function
    def f(x):
        limits.append(limit_now())
        return x * x

    before = limit_now()
    for n in (1, 2):
        torch_threads(n)
        x = torch.ones(3, requires_grad=True)
        f(x).sum().backward()
    assert limits == [1, 2]
    assert limit_now() == before


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, i):
        x = torch.full((2, 64, 8), float(i), requires_grad=True)
        y = attend(x, x, x)
        y.sum().backward()
        return y.detach(), x.grad


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_workers_of_a_loader_compute(context):
    x = torch.ones(2, 64, 8)
    attend(x, x, x)  # threads of both libraries are there when the workers begin
    loader = DataLoader(Rows(), batch_size=2, num_workers=2, multiprocessing_context=context, timeout=100)
    found = torch.cat([y for y, _ in loader])
    torch.testing.assert_close(found, torch.arange(4.0)[:, None, None, None].expand(4, 2, 64, 8))


def test_threads_of_python_and_of_autograd_compute_side_by_side():
    x = torch.randn(2, 2, 65, 8)

    def loss():
        q = x.clone().requires_grad_()
        attend(q, q, q, is_causal=True).square().sum().backward()
        return q.grad

    expected, found = loss(), []
    threads = [threading.Thread(target=lambda: found.append(loss())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert all(torch.equal(y, expected) for y in found)


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")  # by PyTorch itself
def test_compile_breaks_its_graph_and_computes():
    def f(x):
        return attend(x.sin(), x, x).cos()

    x = torch.randn(2, 5, 4, requires_grad=True)
    y = torch.compile(f, backend="eager")(x)
    torch.testing.assert_close(y, f(x))
    torch.testing.assert_close(torch.autograd.grad(y.sum(), x)[0], torch.autograd.grad(f(x).sum(), x)[0])


def test_autocast_computes_in_its_dtype():
    linear, x = torch.nn.Linear(8, 8), torch.randn(2, 5, 8)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        q = linear(x)
        y = attend(q, q, q)
    assert y.dtype == torch.bfloat16
    y.float().sum().backward()
    assert linear.weight.grad.dtype == torch.float32
