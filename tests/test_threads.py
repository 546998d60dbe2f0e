"""Threads of ours and of Python's, forks and Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import qkv

RNG = np.random.default_rng(0)
Q, K, V = (RNG.standard_normal((2, 3, 211, 32)).astype("float32") for _ in range(3))


@pytest.fixture(autouse=True)
def same_number_afterwards():
    before = qkv.get_num_threads()
    yield
    qkv.set_num_threads(before)


def run(program: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    path = str(Path(qkv.__file__).parents[1])
    return subprocess.run(
        [sys.executable, "-c", program, *arguments], env={**os.environ, "PYTHONPATH": path, **environment},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def test_the_number_of_threads_can_be_set():
    qkv.set_num_threads(3)
    assert qkv.get_num_threads() == 3
    expected = qkv.scaled_dot_product_attention(Q, K, V)
    for n in (1, 2, 7):
        qkv.set_num_threads(n)
        assert qkv.scaled_dot_product_attention(Q, K, V).tobytes() == expected.tobytes()
    for bad in (0, -1):
        with pytest.raises(ValueError, match=f"set_num_threads: n must be .*; got {bad}"):
            qkv.set_num_threads(bad)
    with pytest.raises(TypeError):
        qkv.set_num_threads("two")


def test_the_number_of_threads_can_change_while_another_thread_computes():
    program = """
import threading, time, numpy as np, qkv
x = np.zeros((1024, 256, 64), "float32")  # takes long enough to look for an interrupt several times
for _ in range(3):
    qkv.set_num_threads(2)
    other = threading.Thread(target=qkv.scaled_dot_product_attention, args=(x, x, x))
    other.start()
    time.sleep(0.02)
    qkv.set_num_threads(1)
    other.join()
"""
    result = run(program)
    assert result.returncode == 0, result.stderr


def test_work_goes_on_where_the_system_gives_no_thread():
    program = """
import resource, threading, numpy as np, qkv
x = np.ones((64, 128, 64), "float32")
qkv.set_num_threads(1)
expected = qkv.scaled_dot_product_attention(x, x, x)
again = qkv.scaled_dot_product_attention(x, x, x)  # from now on there is memory for one more
del again
size = 1024 * int(next(line for line in open("/proc/self/status") if line.startswith("VmSize")).split()[1])
resource.setrlimit(resource.RLIMIT_AS, (size + (2 << 20), -1))  # no room for the stack of a thread
try:
    threading.Thread(target=print).start()
except RuntimeError:
    print("no thread")
qkv.set_num_threads(2)
print((qkv.scaled_dot_product_attention(x, x, x) == expected).all())
"""
    done = run(program)
    assert done.stdout.split("\n")[:2] == ["no thread", "True"], done.stdout + done.stderr


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"OMP_NUM_THREADS": "1"}, 1),
        ({"OPENBLAS_NUM_THREADS": "1"}, 1),
        ({"OMP_NUM_THREADS": "1,4"}, 1),
        ({"OMP_NUM_THREADS": "4096", "OPENBLAS_NUM_THREADS": "1"}, 1),
        ({"QKV_NUM_THREADS": "3", "OMP_NUM_THREADS": "1"}, 3),
        *(({"OMP_NUM_THREADS": bad, "OPENBLAS_NUM_THREADS": bad}, None) for bad in ("", "x", "0", "-1")),
    ],
)
def test_the_variables_by_which_workers_share_the_cpus_limit_it(variables, expected):
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    given = {"QKV_NUM_THREADS": "", "OMP_NUM_THREADS": "", "OPENBLAS_NUM_THREADS": "", **variables}
    done = run("import qkv; print(qkv.get_num_threads())", **given)
    assert done.stdout.strip() == str(expected or cpus), done.stderr


def test_the_environment_sets_the_number():
    show = "import qkv; print(qkv.get_num_threads())"
    assert run(show, QKV_NUM_THREADS="3").stdout.strip() == "3"
    unset = {k: v for k, v in os.environ.items() if k != "QKV_NUM_THREADS"}
    blank = {"QKV_NUM_THREADS": "", "OMP_NUM_THREADS": "", "OPENBLAS_NUM_THREADS": ""}
    assert run(show, **blank).stdout.strip() == str(len(os.sched_getaffinity(0))) or unset == {}
    for bad in ("zero", "0", "-2", "2x"):
        done = run(show, QKV_NUM_THREADS=bad)
        assert done.returncode == 1, done.stdout
        assert "QKV_NUM_THREADS" in done.stderr
        assert bad in done.stderr


def test_several_python_threads_at_once():
    weight = RNG.standard_normal((64, 96)).astype("float32")

    def work(seed: int):
        x = np.random.default_rng(seed).standard_normal((2, 67, 96)).astype("float32")
        layer = qkv.nn.MultiHeadAttention(96, 4)
        for i, p in enumerate(layer.parameters()):
            p.copy_(np.random.default_rng(i).standard_normal(p.shape) / 10)
        t = qkv.tensor(x, requires_grad=True)
        y = layer(t, valid_lens=[67, 31])
        y.sum().backward()
        return (
            y.numpy().tobytes(),
            t.grad.numpy().tobytes(),
            (x @ weight.T).shape,
            layer.attention_weights.shape,
        )

    expected = [work(i) for i in range(8)]
    for _ in range(3):
        with ThreadPoolExecutor(8) as pool:
            assert list(pool.map(work, range(8))) == expected


def test_no_attention_record_and_no_grad_belong_to_their_thread():
    layer, inside, done = qkv.nn.SelfAttention(3, 2), threading.Event(), threading.Event()

    def quiet():
        with qkv.no_grad(), qkv.no_attention_record():
            inside.set()
            done.wait(10)

    thread = threading.Thread(target=quiet)
    thread.start()
    inside.wait(10)
    y = layer(np.ones((5, 3)))
    done.set()
    thread.join()
    assert y.requires_grad
    assert layer.attention_weights is not None


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_fork_leaves_a_usable_library():
    expected = qkv.scaled_dot_product_attention(Q, K, V).tobytes()
    busy = threading.Event()

    def keep_busy():
        while not busy.is_set():
            qkv.scaled_dot_product_attention(Q, K, V)

    worker = threading.Thread(target=keep_busy)
    worker.start()
    try:
        for _ in range(5):
            child = os.fork()
            if child == 0:
                same = qkv.scaled_dot_product_attention(Q, K, V).tobytes() == expected
                qkv.set_num_threads(2)
                same = same and qkv.scaled_dot_product_attention(Q, K, V).tobytes() == expected
                os._exit(0 if same else 1)
            deadline = time.monotonic() + 60
            while True:
                pid, status = os.waitpid(child, os.WNOHANG)
                if pid:
                    break
                if time.monotonic() > deadline:
                    os.kill(child, signal.SIGKILL)
                    os.waitpid(child, 0)
                    pytest.fail("the child hangs")
                time.sleep(0.01)
            assert os.waitstatus_to_exitcode(status) == 0
    finally:
        busy.set()
        worker.join()
    assert qkv.scaled_dot_product_attention(Q, K, V).tobytes() == expected


INTERRUPTED = """
import os, signal, sys, threading, time
import numpy as np
import qkv
x = np.ones((1, 1, 1024, 64), np.float32)
expected = qkv.scaled_dot_product_attention(x, x, x)
def forward(*shape):
    big = np.ones(shape, np.float32)
    return lambda: qkv.scaled_dot_product_attention(big, big, big)
def backward(*shape, bias=False):
    q, k, v = (qkv.tensor(np.ones(shape, np.float32), requires_grad=True) for _ in range(3))
    mask = qkv.tensor(np.ones(shape[2], np.float32), requires_grad=True) if bias else None
    y = qkv.scaled_dot_product_attention(q, k, v, mask).sum()
    return lambda: y.backward(retain_graph=True)
work = eval(sys.argv[1])
sent = []
def send():
    sent.append(time.monotonic())
    os.kill(os.getpid(), signal.SIGINT)
threading.Timer(0.3, send).start()
try:
    start = time.monotonic()
    while time.monotonic() < start + 60:
        work()
    print("never interrupted")
except KeyboardInterrupt:
    waited = time.monotonic() - sent[0]
    same = qkv.scaled_dot_product_attention(x, x, x).tobytes() == expected.tobytes()
    print("interrupted", "usable" if same else "broken", waited)
"""


WORK = [
    "forward(4, 16, 4096, 64)",
    "forward(1, 1, 65536, 64)",
    "backward(1, 1, 16384, 64)",
    "backward(64, 8, 512, 64, bias=True)",
]


INTERRUPTED_ONCE = """
import signal, sys, time
import numpy as np
import qkv
x = np.ones(6 * 10**7, np.float32)  # so that it is long beside the look for a signal
work = eval("lambda: " + sys.argv[1])
def duration():
    start = time.process_time()
    try:
        work()
    except KeyboardInterrupt:
        pass
    return time.process_time() - start
whole = min(duration(), duration())
shares = []
signal.signal(signal.SIGPROF, signal.default_int_handler)
for _ in range(9):  # by the processor's time, so that others' work changes nothing
    signal.setitimer(signal.ITIMER_PROF, whole / 4)
    try:
        shares.append(duration() / whole)
        signal.setitimer(signal.ITIMER_PROF, 0)
    except KeyboardInterrupt:  # behind the work
        shares.append(1)
print(min(shares), qkv.rand(2).shape)
"""


@pytest.mark.parametrize(
    "work",
    [
        "qkv.cumsum(x, 0)",
        "qkv.cumsum(x.reshape(3, -1).T, 0)",
        "qkv.randn(x.size)",
        "qkv.random.randperm(x.size // 4)",
        "qkv.randint(0, 5, (x.size,))",
    ],
)
def test_ctrl_c_ends_one_long_call(work):
    done = run(INTERRUPTED_ONCE, work)
    assert done.returncode == 0, done.stderr
    share, shape = done.stdout.split(maxsplit=1)
    assert float(share) < 0.8
    assert shape.strip() == "(2,)"


DRAWS_IN_A_HANDLER = """
import os, signal, threading
import qkv
rng = qkv.Generator(3)
drawn = []
def handler(*_):
    drawn.append(rng.get_state())
    if os.fork() == 0:
        drawn.append(qkv.rand(3, rng=rng))
        os._exit(0)
    os.wait()
signal.signal(signal.SIGUSR1, handler)
other = []
def beside():
    other.append(qkv.rand(4, rng=rng))
while not drawn:
    threading.Timer(0.1, lambda: os.kill(os.getpid(), signal.SIGUSR1)).start()
    thread = threading.Timer(0.15, beside)
    thread.start()
    x = qkv.randn(3 * 10**7, rng=rng)
    thread.join()
print(x.shape, other[0].shape)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_handler_may_draw_and_fork_during_a_draw():
    done = run(DRAWS_IN_A_HANDLER)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "(30000000,) (4,)"


@pytest.mark.parametrize("work", WORK)
def test_ctrl_c_during_attention(work):
    """One core answers within 0.1 s; the limit leaves room for a machine that is busy otherwise, or for a sanitizer."""
    done = run(INTERRUPTED, work)
    assert done.returncode == 0, done.stderr
    word, state, waited = done.stdout.split()
    assert (word, state) == ("interrupted", "usable")
    assert float(waited) < (60 if "QKV_SANITIZER" in os.environ else 5)


def test_nested_use_from_a_score_and_from_many_layers():
    class Nested(qkv.nn.Attention):
        def score(self, queries, keys):
            inner = qkv.nn.DotProductAttention()
            return inner(queries, keys, keys) @ keys.swapaxes(1, 2)

    x = RNG.standard_normal((2, 5, 7))
    y = Nested()(x, x, x)
    inner = qkv.scaled_dot_product_attention(x, x, x)
    expected = qkv.softmax(inner @ x.swapaxes(1, 2)) @ x
    np.testing.assert_allclose(y, expected, 1e-9, 1e-11)
