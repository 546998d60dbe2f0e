"""The random stream against PyTorch's digits (tests/data/rng_vectors.json) and against itself."""

import copy
import json
import math
import pickle
import threading
from pathlib import Path

import numpy as np
import pytest
from levels import each_level, run_at

import qkv

VECTORS = json.loads((Path(__file__).parent / "data" / "rng_vectors.json").read_text())["cases"]
SEEDS = (0, 123, 789, 2569213096)
# Vectors of PyTorch builds without AVX2 describe another arithmetic than the promised one.
OTHER_BUILD = [case for case in VECTORS if case["args"].get("fma") is False]


def sequence(rng):
    steps = [qkv.randn(3, rng=rng), qkv.rand(2, rng=rng), qkv.randn(2, rng=rng)]
    return np.concatenate([*steps, qkv.randn(17, rng=rng), qkv.randn(1, rng=rng)])


def words(rng, n):
    pairs = [rng.random64() for _ in range(n // 2)]
    return np.array([word for pair in pairs for word in (pair >> 32, pair & 0xFFFFFFFF)])


def words_behind(rng, skip, n):
    words(rng, skip)
    return words(rng, n)


def bounded(fan):
    return {"low": -1 / math.sqrt(fan), "high": 1 / math.sqrt(fan)}


def linear_bias(rng):
    qkv.rand(6, rng=rng)
    return qkv.uniform(**bounded(3), size=2, rng=rng)


def gru_parameter(position):
    shapes = [(6, 2), (6, 2), (6,), (6,)]

    def draw(rng):
        return [qkv.uniform(**bounded(2), size=shape, rng=rng) for shape in shapes][position]

    return draw


def glorot(gain):
    return gain * math.sqrt(2.0 / (4 + 3))


# Function named in the file -> how qkv draws it.
DRAWS = {
    "mt19937_u32": words,
    "mt19937_u32_at_624": words_behind,
    "rand": lambda rng, n, dtype: qkv.rand(n, dtype=dtype, rng=rng),
    "randn": lambda rng, n, dtype: qkv.randn(n, dtype=dtype, rng=rng),
    "uniform_": lambda rng, n, lo, hi, dtype: qkv.uniform(lo, hi, n, dtype=dtype, rng=rng),
    "normal_": lambda rng, n, mean, std, dtype: qkv.normal(mean, std, n, dtype=dtype, rng=rng),
    "exponential_": lambda rng, n, lambd, dtype: qkv.random.exponential(lambd, n, dtype=dtype, rng=rng),
    "randint": lambda rng, low, high, n: qkv.randint(low, high, n, rng=rng),
    "randperm": lambda rng, n: qkv.randperm(n, rng=rng),
    "bernoulli_": lambda rng, n, p: qkv.bernoulli(p, n, rng=rng),
    "dropout_mask": lambda rng, n, p, note: qkv.bernoulli(1.0 - p, n, rng=rng),
    "bernoulli(tensor of 0.5, float32)": lambda rng, n: qkv.bernoulli(np.full(n, 0.5, np.float32), rng=rng),
    "multinomial": lambda rng, p, num_samples, replacement, dtype: qkv.random.multinomial(
        np.array(p, dtype), num_samples, replacement, rng=rng
    ),
    "sequence randn(3), rand(2), randn(2), randn(17), randn(1)": sequence,
    "nn.Linear(3,2).weight": lambda rng: qkv.uniform(**bounded(3), size=(2, 3), rng=rng),
    "nn.Linear(3,2).bias": linear_bias,
    "xavier_uniform_(4,3)": lambda rng: qkv.uniform(
        -math.sqrt(3.0) * glorot(1.0), math.sqrt(3.0) * glorot(1.0), (4, 3), rng=rng
    ),
    "xavier_normal_(4,3)": lambda rng: qkv.normal(0.0, glorot(1.0), (4, 3), rng=rng),
    "nn.Embedding(3,2)": lambda rng: qkv.randn(3, 2, rng=rng),
    "nn.Embedding(9,8)": lambda rng: qkv.randn(9, 8, rng=rng),
    "nn.GRU(2,2).weight_ih_l0": gru_parameter(0),
    "nn.GRU(2,2).weight_hh_l0": gru_parameter(1),
    "nn.GRU(2,2).bias_ih_l0": gru_parameter(2),
    "nn.GRU(2,2).bias_hh_l0": gru_parameter(3),
}


def expected_values(case):
    values = [float.fromhex(v) for v in case["values"]] if case["kind"] == "hex" else case["values"]
    return np.array(values).reshape(case["shape"])


def same_bits(actual, expected):
    return (
        actual.shape == expected.shape
        and actual.dtype == expected.dtype
        and actual.tobytes() == expected.tobytes()
    )


@pytest.mark.parametrize("name", sorted({case["fn"] for case in VECTORS}))
def test_equals_pytorch(name):
    cases = [case for case in VECTORS if case["fn"] == name and case["args"].get("fma") is not False]
    assert {case["seed"] for case in cases} == set(SEEDS)
    for case in cases:
        actual = DRAWS[name](qkv.Generator(case["seed"]), **case["args"])
        assert actual.dtype == case["args"].get("dtype", actual.dtype) or name == "multinomial", case
        assert same_bits(actual, expected_values(case).astype(actual.dtype)), case


def test_vectors_tell_arithmetics_apart():
    """The comparison is sharp enough to see where another build of PyTorch rounds."""
    differing = 0
    for case in OTHER_BUILD:
        args = {key: value for key, value in case["args"].items() if key != "fma"}
        actual = DRAWS[case["fn"]](qkv.Generator(case["seed"]), **args)
        np.testing.assert_allclose(actual, expected_values(case), rtol=1e-5, atol=1e-7)
        differing += not same_bits(actual, expected_values(case).astype(actual.dtype))
    assert 0 < differing < len(OTHER_BUILD)


@each_level("baseline", "avx2")
def test_bits_do_not_depend_on_the_instruction_set(level):
    program = (
        "import hashlib, qkv; rng = qkv.Generator(5); h = hashlib.sha256()\n"
        "for n in (1, 15, 16, 31, 997):\n"
        "  for t in ('float32', 'float64'):\n"
        "    for x in (qkv.uniform(-0.3, 0.7, n, dtype=t, rng=rng),\n"
        "              qkv.normal(1, 0.1, n, dtype=t, rng=rng),\n"
        "              qkv.bernoulli(0.3, n, dtype=t, rng=rng),\n"
        "              qkv.bernoulli(0.3, n, dtype='bool', rng=rng)):\n"
        "      h.update(x.tobytes())\n"
        "print(h.hexdigest())"
    )

    forced, free = run_at(level, program), run_at(None, program)
    assert len(forced.stdout.strip()) == 64, forced.stderr
    assert forced.stdout == free.stdout


def words_used(draw):
    """How many 32-bit words `draw(rng)` takes from the stream."""
    reference, used = qkv.Generator(31), qkv.Generator(31)
    stream = words(reference, 4096)
    draw(used)
    following = words(used, 6)
    (found,) = [k for k in range(len(stream) - 6) if (stream[k : k + 6] == following).all()]
    return found


@pytest.mark.parametrize(
    ("draw", "expected"),
    [
        (lambda rng: qkv.rand(13, rng=rng), 13),
        (lambda rng: qkv.rand(13, dtype="float64", rng=rng), 26),
        (lambda rng: qkv.randn(13, rng=rng), 28),
        (lambda rng: (qkv.randn(13, rng=rng), qkv.randn(1, rng=rng)), 28),
        (lambda rng: qkv.randn(48, rng=rng), 48),
        (lambda rng: qkv.randn(47, rng=rng), 63),
        (lambda rng: qkv.randn(47, dtype="float64", rng=rng), 126),
        (lambda rng: qkv.randint(0, 2**28 - 1, 7, rng=rng), 7),
        (lambda rng: qkv.randint(0, 2**28, 7, rng=rng), 14),
        (lambda rng: qkv.randperm(11, rng=rng), 10),
        (lambda rng: qkv.randperm(0, rng=rng), 0),
        (lambda rng: qkv.bernoulli(0.3, 19, rng=rng), 38),
        (lambda rng: qkv.bernoulli(0.3, 19, dtype="bool", rng=rng), 38),
        (lambda rng: qkv.bernoulli(np.full((3, 5), 0.3, np.float32), rng=rng), 15),
        (lambda rng: qkv.bernoulli(np.full((3, 5), 0.3), rng=rng), 30),
        (lambda rng: qkv.random.exponential(2.0, 5, rng=rng), 10),
        (lambda rng: qkv.random.multinomial([1.0] * 7, 3, rng=rng), 14),
        (lambda rng: qkv.random.multinomial([1.0] * 7, 3, True, rng=rng), 6),
        (lambda rng: qkv.random.multinomial([1.0] * 7, 1, True, rng=rng), 14),
        (lambda rng: qkv.rand(0, rng=rng), 0),
    ],
)
def test_words_taken_from_the_stream(draw, expected):
    assert words_used(draw) == expected


@pytest.mark.parametrize("chunks", [(1, 4, 6), (624, 1, 623), (511, 2, 1200), (1023, 1, 1025)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_pieces_are_one_stream(chunks, dtype):
    whole = qkv.rand(sum(chunks), dtype=dtype, rng=qkv.Generator(7))
    rng = qkv.Generator(7)
    assert same_bits(np.concatenate([qkv.rand(n, dtype=dtype, rng=rng) for n in chunks]), whole)
    masks = qkv.Generator(7)
    pieces = np.concatenate([qkv.bernoulli(0.4, n, dtype="bool", rng=masks) for n in chunks])
    assert (pieces == (qkv.rand(sum(chunks), dtype="float64", rng=qkv.Generator(7)) < 0.4)).all()


def test_low_half_of_the_seed_counts():
    first = qkv.rand(5, rng=qkv.Generator(5))
    assert same_bits(qkv.rand(5, rng=qkv.Generator(2**32 + 5)), first)
    assert not same_bits(qkv.rand(5, rng=qkv.Generator(6)), first)
    assert same_bits(qkv.rand(5, rng=qkv.Generator(-1)), qkv.rand(5, rng=qkv.Generator(2**64 - 1)))
    assert same_bits(qkv.rand(5, rng=qkv.Generator(np.int64(5))), first)


def test_manual_seed_restarts_the_default_stream():
    assert isinstance(qkv.manual_seed(123), qkv.Generator)
    first = [qkv.rand(3), qkv.randn(3), qkv.randint(0, 9, 4), qkv.randperm(5), qkv.bernoulli(0.5, 6)]
    rng = qkv.Generator(123)
    kwargs = {"rng": rng}
    other = [
        qkv.rand(3, **kwargs),
        qkv.randn(3, **kwargs),
        qkv.randint(0, 9, 4, **kwargs),
        qkv.randperm(5, **kwargs),
        qkv.bernoulli(0.5, 6, **kwargs),
    ]
    assert all(same_bits(a, b) for a, b in zip(first, other, strict=True))
    assert same_bits(qkv.normal(2.0, 3.0, 5), qkv.normal(2.0, 3.0, 5, rng=rng))
    assert same_bits(qkv.uniform(2.0, 3.0, 5), qkv.uniform(2.0, 3.0, 5, rng=rng))
    qkv.randn(1)
    qkv.manual_seed(123)  # a kept normal is forgotten
    assert same_bits(qkv.rand(3), first[0])
    assert same_bits(qkv.randn(3), first[1])


def test_rng_leaves_the_default_stream_alone():
    qkv.manual_seed(1)
    whole = qkv.rand(8)
    qkv.manual_seed(1)
    first = qkv.rand(3)
    qkv.randn(40, rng=qkv.Generator(2))
    assert same_bits(np.concatenate([first, qkv.rand(5)]), whole)


def test_unseeded_generators_differ():
    assert qkv.Generator().random64() != qkv.Generator().random64()


def copy_by_state(rng):
    other = qkv.Generator(0)
    other.set_state(rng.get_state())
    return other


@pytest.mark.parametrize(
    "duplicate", [copy_by_state, copy.deepcopy, lambda rng: pickle.loads(pickle.dumps(rng))]
)
@pytest.mark.parametrize("before", [0, 3, 17, 700])
def test_copies_continue_the_stream(duplicate, before):
    rng = qkv.Generator(42)
    qkv.randn(before, rng=rng)
    qkv.rand(2, rng=rng)
    other = duplicate(rng)
    for n in (1, 2, 20, 1300, 5):
        assert same_bits(qkv.randn(n, rng=other), qkv.randn(n, rng=rng))
    qkv.rand(1, rng=other)
    assert not same_bits(qkv.rand(5, rng=other), qkv.rand(5, rng=rng))  # two streams, not one


def test_state_of_the_default_generator():
    qkv.manual_seed(9)
    qkv.randn(3)
    state = qkv.random.get_rng_state()
    first = qkv.randn(7)
    assert state.shape == (628,)
    assert state.dtype == np.uint32
    qkv.random.set_rng_state(state)
    assert same_bits(qkv.randn(7), first)
    other = qkv.Generator(1)
    qkv.random.set_rng_state(state, other)
    assert same_bits(qkv.randn(7, rng=other), first)


def test_threads_share_a_stream_without_losing_words():
    rng = qkv.Generator(11)
    parts = []
    workers = [
        threading.Thread(target=lambda: parts.extend(qkv.rand(613, rng=rng) for _ in range(50)))
        for _ in range(4)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    whole = qkv.rand(200 * 613, rng=qkv.Generator(11)).reshape(200, 613)
    key = [part[:4].tobytes() for part in parts]
    assert sorted(key) == sorted(row[:4].tobytes() for row in whole)
    assert sorted(part.tobytes() for part in parts) == sorted(row.tobytes() for row in whole)


def both_ways(kind, n, dtype, rng, torch):
    """(ours, PyTorch's) for one kind of call."""
    empty = torch.empty(n, dtype=getattr(torch, dtype))
    if kind == "rand":
        return qkv.rand(n, dtype=dtype, rng=rng), torch.rand(n, dtype=empty.dtype)
    if kind == "randn":
        return qkv.randn(n, dtype=dtype, rng=rng), torch.randn(n, dtype=empty.dtype)
    if kind == "uniform":
        return qkv.uniform(-0.7, 0.2, n, dtype=dtype, rng=rng), empty.uniform_(-0.7, 0.2)
    if kind == "normal":
        return qkv.normal(0.3, 0.02, n, rng=rng), torch.normal(0.3, 0.02, (n,))
    if kind == "bernoulli":
        return qkv.bernoulli(0.9, n, dtype=dtype, rng=rng), empty.bernoulli_(0.9)
    if kind == "randint":
        return qkv.randint(-5, 1000, n, rng=rng), torch.randint(-5, 1000, (n,))
    return qkv.randperm(n, rng=rng), torch.randperm(n)


def test_equals_installed_pytorch():
    """Any order and mix of sizes, where PyTorch is installed and runs its AVX2 code."""
    torch = pytest.importorskip("torch")
    if torch.backends.cpu.get_cpu_capability() not in ("AVX2", "AVX512"):
        pytest.skip("PyTorch runs its code without AVX2")
    order = np.random.default_rng(6)
    kinds = ["rand", "randn", "uniform", "normal", "bernoulli", "randint", "randperm"]
    torch.manual_seed(77)
    rng = qkv.Generator(77)
    for _ in range(400):
        n = int(order.choice([1, 2, 3, 7, 15, 16, 17, 31, 33, 100, 624, 1025]))
        kind, dtype = str(order.choice(kinds)), str(order.choice(["float32", "float64"]))
        ours, theirs = both_ways(kind, n, dtype, rng, torch)
        assert same_bits(ours, theirs.numpy()), (kind, n, dtype)
