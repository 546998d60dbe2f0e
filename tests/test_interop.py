"""einops takes both kinds of Tensors; threadpoolctl and the variables of joblib limit the threads."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import qkv

try:
    import einops
except ImportError:
    einops = None
else:
    qkv.interop.register()  # for programs that imported qkv before

RANDOM = np.random.default_rng(0)


def run(program, **environment):
    path = str(Path(qkv.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": path, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


needs_einops = pytest.mark.skipif(einops is None, reason="einops is not installed")
OPERATIONS = {
    "rearrange": lambda e, x: e.rearrange(x, "b (h d) l -> b h l d", h=2),
    "rearrange list": lambda e, x: e.rearrange([x, 2 * x], "n b c l -> b (n c) l"),
    "sum": lambda e, x: e.reduce(x, "b c l -> c", "sum"),
    "mean": lambda e, x: e.reduce(x, "b c (l k) -> b l", "mean", k=5),
    "max": lambda e, x: e.reduce(x, "b c l -> b 1 l", "max"),
    "min": lambda e, x: e.reduce(x, "b c l -> 1 c 1", "min"),
    "prod": lambda e, x: e.reduce(x, "b c l -> c", "prod"),
    "repeat": lambda e, x: e.repeat(x, "b c l -> b (c n) l m", n=3, m=2),
    "einsum": lambda e, x: e.einsum(x, x, "b c l, b c k -> b l k"),
    "pack": lambda e, x: e.pack([x, x[:, 0]], "b *")[0],
    "unpack": lambda e, x: e.unpack(x, [(2,), (1, 2)], "b * l")[1],
}


@needs_einops
@pytest.mark.parametrize("kind", ["qkv", "qkv.torch"])
@pytest.mark.parametrize("name", OPERATIONS)
def test_einops(name, kind):
    operation, numbers = OPERATIONS[name], RANDOM.standard_normal((3, 4, 5))
    tensor = qkv.tensor if kind == "qkv" else qkv.torch.tensor
    x = tensor(numbers, requires_grad=True)
    y = operation(einops, x)
    assert type(y) is type(x)
    np.testing.assert_allclose(y.detach().numpy(), operation(einops, numbers), rtol=1e-12)
    y.sum().backward()
    point = qkv.tensor(numbers, requires_grad=True)
    qkv.testing.check_gradient(lambda t: operation(einops, t), numbers)
    operation(einops, point).sum().backward()
    np.testing.assert_allclose(np.asarray(x.grad), np.asarray(point.grad), rtol=1e-12)


@needs_einops
def test_einops_of_integers():
    ids = qkv.tensor(np.arange(6).reshape(2, 3))
    assert einops.rearrange(ids, "a b -> (b a)").tolist() == [0, 3, 1, 4, 2, 5]
    assert einops.reduce(ids, "a b -> b", "sum").tolist() == [3, 5, 7]
    assert einops.parse_shape(ids, "a _") == {"a": 2}


@needs_einops
@pytest.mark.parametrize("first", ["einops", "qkv", "qkv.torch"])
def test_einops_before_qkv_or_told_after_it(first):
    told = "" if first == "einops" else "qkv.interop.register();"
    program = f"import {first}, einops, qkv, qkv.torch; from einops import rearrange as r;"
    program += f"{told} print(r(qkv.tensor([[1, 2, 3], [4, 5, 6]]), 'a b -> b a').shape[0]);"
    program += "print(type(r(qkv.torch.ones(2, 3), 'a b -> b a')).__module__)"
    assert run(program) == ["3", "qkv.torch"]


@needs_einops
def test_einops_is_not_watched():
    program = "import sys; before = list(sys.meta_path); import qkv, einops\n"
    program += "print('qkv.interop.einops' in sys.modules, sys.meta_path == before)"
    assert run(program) == ["False", "True"]


def test_nothing_is_imported_for_it():
    program = "import sys, qkv; print(*(n in sys.modules for n in ('einops', 'qkv.interop.einops')))"
    assert run(program) == ["False"] * 2


@pytest.mark.parametrize("order", ["import qkv, threadpoolctl", "import threadpoolctl, qkv"])
def test_threadpoolctl(order):
    pytest.importorskip("threadpoolctl", minversion="3.2")
    program = f"""
{order}
qkv.set_num_threads(3)
for limits in (dict(limits=1), dict(limits=2, user_api="blas"), dict(limits=1, user_api="openmp")):
    with threadpoolctl.threadpool_limits(**limits):
        print(qkv.get_num_threads())
    print(qkv.get_num_threads())
print([i["version"] for i in threadpoolctl.threadpool_info() if i["internal_api"] == "qkv"] == [qkv.__version__])
"""
    assert run(program) == ["1", "3", "2", "3", "3", "3", "True"]


def test_workers_of_joblib_share_the_cpus():
    pytest.importorskip("joblib")
    program = """
import joblib
def threads():
    import qkv
    return qkv.get_num_threads()
if __name__ == "__main__":
    with joblib.parallel_config("loky", n_jobs=2, inner_max_num_threads=1):
        print(*joblib.Parallel()(joblib.delayed(threads)() for _ in range(4)))
"""
    assert run(program, QKV_NUM_THREADS="") == ["1"] * 4
