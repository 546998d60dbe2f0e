"""The fused attention kernels: random combinations of all options, block borders, excluded content, bits."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from helpers import close, same_bits_for_any_threads
from levels import each_level, run_at

import qkv
from qkv.testing import check_gradient

attention = qkv.scaled_dot_product_attention
reference = qkv.reference.scaled_dot_product_attention


def normal(seed: int, *shape: int, dtype: str = "float64") -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def draw(seed: int, longest: int, dtype: str) -> tuple[list[np.ndarray], dict[str, Any]]:
    """Return query, key and value and a random choice of options; each option is there with probability 1/4."""
    random = np.random.default_rng(seed)
    batches, kv_heads, group = random.integers(1, 4), random.integers(1, 3), random.integers(1, 4)
    heads = kv_heads * group
    queries, keys = random.integers(1, longest, 2)
    size, value_size = random.choice([1, 3, 8, 17, 32, 65], 2)
    arrays = [
        random.standard_normal(shape).astype(dtype)
        for shape in (
            (batches, heads, queries, size),
            (batches, kv_heads, keys, size),
            (batches, kv_heads, keys, value_size),
        )
    ]

    def broadcastable() -> list[int]:
        return [n if random.integers(3) else 1 for n in (batches, heads, queries, keys)]

    def mask() -> np.ndarray:
        if random.integers(2):
            return random.random(broadcastable()) < 0.7
        bias = random.standard_normal(broadcastable())
        bias[random.random(bias.shape) < 0.2] = -np.inf
        return bias.astype(dtype)

    makers = {
        "attn_mask": mask,
        "is_causal": lambda: True,
        "scale": lambda: float(random.choice([-0.3, 0.2, 1.0])),
        "valid_lens": lambda: random.integers(
            0, keys + 1, (batches,) if random.integers(2) else (batches, queries)
        ),
        "window": lambda: tuple(int(n) for n in random.integers(-1, keys + 2, 2)),
        "softcap": lambda: float(random.uniform(0.5, 5)),
        "alibi_slopes": lambda: random.uniform(0, 1, heads).astype(dtype),
        "q_offset": lambda: random.integers(-queries, keys, batches),
        "sinks": lambda: random.standard_normal(heads).astype(dtype),
        "masked_value": lambda: float(random.choice([-1e9, -2.0, float(np.finfo(np.float32).min)])),
        "dropout_keep": lambda: random.random((batches, heads, queries, keys)) < 0.7,
    }
    options: dict[str, Any] = {name: make() for name, make in makers.items() if random.integers(4) == 0}
    if "dropout_keep" in options:
        options["dropout_p"] = 0.3
    return arrays, {"enable_gqa": True, **options}


# Of few keys, lengths can happen to be zeros and ones.
@pytest.mark.filterwarnings("ignore:scaled_dot_product_attention. valid_lens counts keys")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("longest", [9, 90, 300])
def test_any_combination_of_options_agrees_with_the_reference(longest, dtype):
    for seed in range(40 if longest < 100 else 12):
        arrays, options = draw(seed, longest, dtype)
        results = attention(*arrays, **options, return_weights=True, return_lse=True)
        expected = reference(*arrays, **options, return_weights=True, return_lse=True)
        for name, actual, wanted in zip(("output", "weights", "lse"), results, expected, strict=True):
            assert actual.dtype == dtype
            tolerance = {"float32": 2e-5, "float64": 1e-11}[dtype]
            np.testing.assert_allclose(
                actual, wanted, rtol=tolerance, atol=tolerance, err_msg=f"{name}, seed {seed}: {options}"
            )


@pytest.mark.parametrize("seed", range(40))
def test_gradient_of_any_combination_of_options(seed):
    arrays, options = draw(1000 + seed, 7 if seed % 4 else 80, "float64")
    names = [name for name in ("attn_mask", "sinks") if name in options]
    if "attn_mask" in names and not np.isfinite(options["attn_mask"]).all():
        options["attn_mask"] = np.nan_to_num(options["attn_mask"], neginf=-0.5)
    if "attn_mask" in names and options["attn_mask"].dtype == bool:
        names.remove("attn_mask")
    if abs(options.get("masked_value", 0)) > 1e5:
        options["masked_value"] = -2.0  # next to 1e9 a difference of lse has no digits

    def results(q, k, v, *rest):
        output, weights, lse = attention(
            q,
            k,
            v,
            **{**options, **dict(zip(names, rest, strict=True))},
            return_weights=True,
            return_lse=True,
        )
        return (output * 1.3).sum() + (weights * weights).sum() + qkv.where(is_finite, lse, 0.0).sum()

    is_finite = np.isfinite(attention(*arrays, **options, return_lse=True)[1])
    check_gradient(results, *arrays, *(options[name] for name in names))


@pytest.mark.parametrize(
    "shape", [(1, 7, 3), (7, 1, 3), (64, 128, 5), (65, 129, 16), (63, 127, 17), (129, 256, 1), (2, 700, 4)]
)
def test_borders_of_blocks(shape):
    queries, keys, size = shape
    q, k, v = normal(0, 2, queries, size), normal(1, 2, keys, size), normal(2, 2, keys, 5)
    close(attention(q, k, v), reference(q, k, v), "same formula")
    causal = {"is_causal": "lower_right"}
    close(attention(q, k, v, **causal), reference(q, k, v, **causal), "same formula")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("seed", range(4))
def test_masks_that_exclude_whole_blocks(seed, dtype):
    """Masks of coarse patches leave whole steps of keys to no row, to some vectors of rows, or to all."""
    random = np.random.default_rng(seed)
    batches, heads, queries, keys = 2, 3, 149, 389
    arrays = [
        normal(10 * seed + i, batches, heads, n, 11, dtype=dtype) for i, n in enumerate((queries, keys, keys))
    ]
    size = random.integers(5, 70, 2)
    patches = random.random((batches, heads if seed % 2 else 1, 149 // size[0] + 1, 389 // size[1] + 1)) < 0.4
    mask = patches.repeat(size[0], 2).repeat(size[1], 3)[:, :, :queries, :keys]
    biases = np.where(mask, 0, -np.inf).astype(dtype)
    near = "float64" if dtype == "float64" else "float32 gradient"
    options = {"window": (200, 150)} if seed == 3 else {}
    expected = reference(
        *(a.astype("float64") for a in arrays), attn_mask=mask, **options, return_weights=True
    )

    def run(attn_mask, arrays=arrays):
        tensors = [qkv.tensor(a, requires_grad=True) for a in arrays]
        output, weights = attention(*tensors, attn_mask, **options, return_weights=True)
        (output * arrays[0]).sum().backward()
        return [output.numpy(), weights.numpy(), *(t.grad.numpy() for t in tensors)]

    results = run(mask)
    close(results[0], expected[0], near)
    close(results[1], expected[1], near)
    assert not results[1][np.broadcast_to(~mask, results[1].shape)].any()
    for by_mask, by_bias in zip(results, run(biases), strict=True):
        close(by_bias, by_mask, near)
    # The order of keys does not matter, but in another one no block of them is excluded as a whole.
    order = np.argsort(random.random(keys))
    mixed = run(mask[..., order], [arrays[0], arrays[1][:, :, order], arrays[2][:, :, order]])
    if not options:
        close(mixed[0], results[0], near)
        close(mixed[2], results[2], near)
        close(mixed[3], results[3][:, :, order], near)


def test_no_queries_no_keys_no_batch():
    assert attention(np.ones((2, 0, 3)), np.ones((2, 5, 3)), np.ones((2, 5, 4))).shape == (2, 0, 4)
    output, weights, lse = attention(
        np.ones((2, 5, 3)), np.ones((2, 0, 3)), np.ones((2, 0, 4)), return_weights=True, return_lse=True
    )
    np.testing.assert_array_equal(output, np.zeros((2, 5, 4)))
    assert weights.shape == (2, 5, 0)
    np.testing.assert_array_equal(lse, np.full((2, 5), -np.inf))
    assert attention(np.ones((0, 5, 3)), np.ones((0, 2, 3)), np.ones((0, 2, 4))).shape == (0, 5, 4)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_asking_for_weights_and_lse_changes_no_bit(dtype):
    for seed in range(20):
        arrays, options = draw(2000 + seed, 150, dtype)
        alone = attention(*arrays, **options)
        output = attention(*arrays, **options, return_weights=True, return_lse=True)[0]
        assert alone.tobytes() == output.tobytes()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("options", [{}, {"window": (300, 37)}, {"is_causal": True, "dropout_p": 0.1}])
def test_weights_that_exceed_the_caches_have_the_same_bits(options, dtype):
    """Arrays of 4 MiB and more are written past the caches; those of one head are not."""
    arrays = [normal(i, 1, 5, 464, 17, dtype=dtype) for i in range(3)]
    together = attention(*arrays, **options, return_weights=True)[1]
    options = {
        name: x for name, x in options.items() if name != "dropout_p"
    }  # before which weights are taken
    for head in range(5):
        alone = attention(*(a[:, head : head + 1] for a in arrays), **options, return_weights=True)[1]
        np.testing.assert_array_equal(together[:, head : head + 1], alone)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_bits_do_not_depend_on_threads(dtype):
    shape = (2, 6, 301, 24)
    arrays = [normal(i, *shape, dtype=dtype) for i in range(4)]
    bias, sinks = normal(4, 1, 6, 301, 301, dtype=dtype), normal(5, 6, dtype=dtype)

    def run():
        tensors = [qkv.tensor(a, requires_grad=True) for a in (*arrays[:3], bias, sinks)]
        qkv.manual_seed(3)
        output = attention(*tensors[:3], tensors[3], sinks=tensors[4], is_causal=True, dropout_p=0.2)
        output.backward(arrays[3])
        return [output.numpy(), *(t.grad.numpy() for t in tensors)]

    same_bits_for_any_threads(run)


EXCLUSIONS = {
    "causal": {"is_causal": True},
    "window": {"window": (3, 2)},
    "lengths": {"valid_lens": np.full((2,), 41)},
    "lengths per query": {"valid_lens": np.tile(np.arange(67) % 53, (2, 1))},
    "boolean mask": {"attn_mask": (np.add.outer(np.arange(67), np.arange(53)) % 3 > 0)},
    "bias": {"attn_mask": np.where(np.add.outer(np.arange(67), np.arange(53)) % 3, 0.5, -np.inf).astype("f")},
    "bias per key": {"attn_mask": np.where(np.arange(53) % 4, 0.5, -np.inf).astype("f")},
    "bias and softcap": {
        "attn_mask": np.where(np.add.outer(np.arange(67), np.arange(53)) % 5, 0.5, -np.inf).astype("f"),
        "softcap": 4.0,
    },
}


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("options", EXCLUSIONS.values(), ids=EXCLUSIONS.keys())
def test_content_of_an_excluded_key_reaches_no_row_that_excludes_it(options, bad):
    q, k, v = (normal(i, 2, n, 9, dtype="float32") for i, n in enumerate((67, 53, 53)))
    weights = attention(q, k, v, **options, return_weights=True)[1]
    for j in (0, 17, 45, 52):
        spoilt_k, spoilt_v = k.copy(), v.copy()
        spoilt_k[:, j] = bad
        spoilt_v[:, j, 3] = bad
        blind = weights[..., j] == 0  # (B, Lq)
        tensors = [qkv.tensor(a, requires_grad=True) for a in (q, spoilt_k, spoilt_v)]
        output, spoilt_weights, lse = attention(*tensors, **options, return_weights=True, return_lse=True)
        output.backward(np.where(blind[..., None], 1, 0) * np.ones_like(q))
        clean, _, clean_lse = attention(q, k, v, **options, return_weights=True, return_lse=True)
        np.testing.assert_allclose(output.numpy()[blind], clean[blind], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(spoilt_weights.numpy()[blind], weights[blind], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(lse.numpy()[blind], clean_lse[blind], rtol=1e-5, atol=1e-6)
        assert np.isfinite(tensors[0].grad.numpy()[blind]).all()
        if blind.all():
            for tensor in tensors:
                assert np.isfinite(tensor.grad.numpy()).all()
            assert not tensors[1].grad.numpy()[:, j].any()
            assert not tensors[2].grad.numpy()[:, j].any()
        else:
            assert not np.isfinite(output.numpy()[~blind]).all()  # the others do see it


@pytest.mark.parametrize("invariant", [False, True])
@pytest.mark.parametrize(
    ("window", "causal", "offsets"),
    [((67, 0), False, [0, 0]), ((19, 23), False, [-151, 1009]), ((1301, 2), True, [5, 0])],
)
def test_gradients_of_long_windows(window, causal, offsets, invariant):
    """Rows are taken in groups, two heads after each other, each with the keys that its windows reach."""
    rng = np.random.default_rng(0)
    B, H, Hkv, L, D = 2, 2, 1, 2711, 3
    arrays = [rng.standard_normal((B, h, L, D)) for h in (H, Hkv, Hkv)]
    dout = rng.standard_normal((B, H, L, D))
    place = np.arange(L) + np.array(offsets)[:, None]
    distance = place[:, None, :, None] - np.arange(L)
    mask = (distance <= window[0]) & (distance >= (0 if causal else -window[1]))
    found = []
    qkv.set_reproducible(invariant)
    try:
        for options in ({"window": window, "is_causal": causal, "q_offset": offsets}, {"attn_mask": mask}):
            leaves = [qkv.tensor(x, requires_grad=True) for x in arrays]
            attention(*leaves, enable_gqa=True, **options).backward(dout)
            found.append([x.grad for x in leaves])
    finally:
        qkv.set_reproducible(False)
    for gradient, expected in zip(*found, strict=True):
        qkv.testing.assert_close(gradient, expected, rtol=1e-12, atol=1e-12)


MEMORY = """
import numpy as np
import qkv

def memory(field):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(field)) * 1024

def call(length):
    tensors = [qkv.tensor(np.ones((1, 1, length, 64), "f"), requires_grad=True) for _ in range(3)]
    output = qkv.scaled_dot_product_attention(*tensors, window=(200, 0))
    output.backward(np.ones((1, 1, length, 64), "f"))

call(512)
before = memory("VmRSS")
call(65536)
print((memory("VmHWM") - before) / 2**20)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.skipif("QKV_SANITIZER" in os.environ, reason="a sanitizer's allocator keeps what is freed")
def test_memory_of_a_long_sequence():
    """Beyond three inputs, the output and all their gradients, 16 MiB each, two passes need less than 64 MiB."""
    environment = {**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(qkv.__file__))}
    done = subprocess.run(
        [sys.executable, "-c", MEMORY], env=environment, capture_output=True, text=True, check=True
    )
    assert float(done.stdout) < 8 * 16 + 64


POSITIONS = (
    MEMORY.partition("def call")[0]
    + """
layers = [{"nhead": 4, "dim_feedforward": 8}]
distances = {"span": 16, "buckets": 16, "max_distance": 64}
for options in ({"relative_bias": {}}, {"disentangled": distances}):
    body = qkv._core.TransformerBody(layers, d_model=16, vocab_size=3, **options).eval()
    body(np.ones((1, 64), np.int64))
    before = memory("VmRSS")
    body(np.ones((1, 3001), np.int64))
    print((memory("VmHWM") - before) / 2**20)
"""
)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.skipif("QKV_SANITIZER" in os.environ, reason="a sanitizer's allocator keeps what is freed")
def test_memory_of_relative_positions():
    """The scores of four heads alone would take 137 MiB."""
    environment = {**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(qkv.__file__))}
    done = subprocess.run(
        [sys.executable, "-c", POSITIONS], env=environment, capture_output=True, text=True, check=True
    )
    assert max(map(float, done.stdout.split())) < 34


def test_dropout_stream_is_the_same_whatever_the_block():
    q, k, v = (normal(i, 1, 2, 150, 8) for i in range(3))
    qkv.manual_seed(11)
    all_rows = attention(q, k, v, dropout_p=0.4)
    qkv.manual_seed(11)
    few_rows = attention(q[:, :, :5], k, v, dropout_p=0.4)
    close(few_rows, all_rows[:, :, :5], "same formula")
    qkv.manual_seed(12)
    assert np.abs(attention(q, k, v, dropout_p=0.4) - all_rows).max() > 0.01
    kept = attention(
        np.zeros((1, 1, 300, 1)), np.zeros((1, 1, 400, 1)), np.ones((1, 1, 400, 1)), dropout_p=0.4
    )
    assert abs(kept.mean() - 1) < 0.01  # 1 / (1 - p) makes up for what is dropped
    np.testing.assert_array_equal(attention(q, k, v, dropout_p=1.0), np.zeros_like(v))


def test_scores_of_any_size():
    q = np.array([[[1e4], [-1e4], [1e-30]]], "float32")
    k = np.array([[[1e3], [0.0], [-1e3]]], "float32")
    v = np.array([[[1.0], [2.0], [3.0]]], "float32")
    output, lse = attention(q, k, v, return_lse=True)
    np.testing.assert_array_equal(output[0, :, 0], [1, 3, 2])
    np.testing.assert_allclose(lse[0], [1e7, 1e7, np.log(3)], rtol=1e-6)


@each_level()
def test_every_instruction_set(level):
    """The same tests in a process that is held to a level."""
    done = run_at(
        level,
        "import test_attention_kernel as t\n"
        "for dtype in ('float32', 'float64'):\n"
        "    t.test_any_combination_of_options_agrees_with_the_reference(90, dtype)\n"
        "for seed in range(8): t.test_gradient_of_any_combination_of_options(seed)\n"
        "t.test_borders_of_blocks((65, 133, 16))\n"
        "t.test_content_of_an_excluded_key_reaches_no_row_that_excludes_it({'is_causal': True}, float('nan'))",
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("keys", "error"), [(10**4, 5e-6), (10**6, 2e-4)])
@pytest.mark.parametrize("queries", [1, 3, 7])
def test_long_sums_of_few_rows_keep_their_digits(queries, keys, error):
    """Equal weights and equal values: each addition to one running sum would round the same way."""
    query, key = np.zeros((queries, 2), np.float32), normal(1, keys, 2, dtype="float32")
    for value in (0.7, 0.1):
        values = np.full((keys, 5), value, np.float32)
        np.testing.assert_allclose(attention(query, key, values), values[:queries], rtol=error)
        np.testing.assert_allclose(
            attention(query, key, values, return_weights=True)[0], values[:queries], rtol=error
        )
        pooled = qkv.kernel_attention(query, key, values, bandwidth=1e9)
        np.testing.assert_allclose(pooled, values[:queries], rtol=3e-6)
