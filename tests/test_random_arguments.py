"""Arguments of the random functions: sizes, types, limits, distributions and rejections."""

import math

import numpy as np
import pytest
from sweep import sweep

import qkv


def same_bits(actual, expected):
    return (
        actual.shape == expected.shape
        and actual.dtype == expected.dtype
        and actual.tobytes() == expected.tobytes()
    )


@pytest.mark.parametrize("draw", [qkv.rand, qkv.randn])
def test_sizes(draw):
    for size, shape in [
        ((), ()),
        ((5,), (5,)),
        ((2, 3), (2, 3)),
        (((2, 3),), (2, 3)),
        (([7],), (7,)),
        ((0, 3), (0, 3)),
    ]:
        drawn = draw(*size, rng=qkv.Generator(3))
        assert type(drawn) is np.ndarray
        assert drawn.shape == shape
        assert drawn.dtype == np.float32
    flat = draw(6, dtype=np.float64, rng=qkv.Generator(3))
    assert flat.dtype == np.float64
    assert same_bits(draw(2, 3, dtype=np.dtype("f8"), rng=qkv.Generator(3)), flat.reshape(2, 3))


def test_results_have_their_documented_types():
    assert qkv.randint(-3, 4, (2, 5)).dtype == np.int64
    assert qkv.randperm(5).dtype == np.int64
    assert qkv.bernoulli(0.5, (2, 5)).dtype == np.float32
    assert qkv.bernoulli(0.5, 5, dtype=bool).dtype == np.bool_
    assert qkv.bernoulli([0.5, 1.0]).dtype == np.float32
    assert qkv.normal(0, 1, (2, 5), dtype="float64").dtype == np.float64
    assert qkv.random.multinomial(np.ones((3, 5)), 2).shape == (3, 2)


def test_limits_of_the_arguments():
    assert (qkv.bernoulli(0.0, 997) == 0).all()
    assert (qkv.bernoulli(1.0, 997) == 1).all()
    assert (qkv.bernoulli(np.array([0.0, 1.0] * 499)) == [0.0, 1.0] * 499).all()
    assert (qkv.normal(1.5, 0.0, 33) == 1.5).all()
    assert (qkv.uniform(1.5, 1.5, 33) == 1.5).all()
    x = qkv.uniform(1.0, np.nextafter(np.float32(1), np.float32(2)), 997)
    assert (x == 1.0).all()  # a value that rounds to the open end is folded back
    wide = qkv.randint(-(2**63), 2**63 - 1, 997)
    assert wide.min() < -(2**61)
    assert wide.max() > 2**61
    assert set(qkv.randint(-2, 3, 997).tolist()) == {-2, -1, 0, 1, 2}
    strided = np.linspace(0, 1, 22)[::2]
    assert same_bits(
        qkv.bernoulli(strided, rng=qkv.Generator(4)), qkv.bernoulli(strided.copy(), rng=qkv.Generator(4))
    )


def test_distributions():
    """Moments within five standard errors; the bits are tested above."""
    n = 200_000
    rng = qkv.Generator(2024)
    for values, mean, variance in [
        (qkv.rand(n, rng=rng), 0.5, 1 / 12),
        (qkv.uniform(-2, 5, n, rng=rng), 1.5, 49 / 12),
        (qkv.normal(-1, 3, n, dtype="float64", rng=rng), -1.0, 9.0),
        (qkv.bernoulli(0.2, n, rng=rng), 0.2, 0.16),
        (qkv.random.exponential(4.0, n, rng=rng), 0.25, 1 / 16),
        (qkv.randint(0, 10, n, rng=rng), 4.5, 8.25),
    ]:
        x = values.astype(np.float64)
        assert abs(x.mean() - mean) < 5 * math.sqrt(variance / n)
        assert x.var() == pytest.approx(variance, rel=0.02)
    assert sorted(qkv.randperm(997, rng=rng).tolist()) == list(range(997))
    counts = np.bincount(qkv.random.multinomial([1.0, 0.0, 3.0], 40_000, True, rng=rng), minlength=3)
    assert counts[1] == 0
    assert counts[2] / counts.sum() == pytest.approx(0.75, abs=0.012)


@sweep(
    "call, error, text",
    [
        (lambda: qkv.manual_seed(1.5), TypeError, "seed must be an integer because .*; got float"),
        (lambda: qkv.Generator("1"), TypeError, "seed must be an integer because .*; got str"),
        (
            lambda: qkv.manual_seed(2**64),
            ValueError,
            "seed must be in .* because .*; got 18446744073709551616",
        ),
        (lambda: qkv.manual_seed(-(2**63) - 1), ValueError, "seed must be in .*; got -9223372036854775809"),
        (lambda: qkv.rand(2, -3), ValueError, r"rand: size must not be negative because .*; got \(2, -3\)"),
        (
            lambda: qkv.randn(2.5),
            TypeError,
            "randn: size must be integers or a tuple of integers because it is a shape; got 2.5",
        ),
        (
            lambda: qkv.normal(0, 1, "ab"),
            TypeError,
            "normal: size must be integers or a tuple of integers because it is a shape; got 'ab'",
        ),
        (
            lambda: qkv.rand(2, dtype="float16"),
            TypeError,
            "rand: dtype must be float32 or float64 .*; got float16",
        ),
        (lambda: qkv.bernoulli(0.5, 2, dtype="int64"), TypeError, "bernoulli: dtype must be .*; got int64"),
        (lambda: qkv.rand(2, rng=3), TypeError, "rand: rng must be a qkv.Generator because .*; got int"),
        (
            lambda: qkv.uniform(2, 1, 3),
            ValueError,
            "uniform: low must not be above .*; got low = 2, high = 1",
        ),
        (lambda: qkv.uniform(0, math.inf, 3), ValueError, "uniform: .*finite.*; got low = 0, high = inf"),
        (lambda: qkv.uniform(math.nan, 1, 3), ValueError, "uniform: .*; got low = nan, high = 1"),
        (lambda: qkv.normal(0, -1, 3), ValueError, "normal: std must be at least 0 because .*; got std = -1"),
        (
            lambda: qkv.randint(3, 3, 2),
            ValueError,
            "randint: low must be below high .*; got low = 3, high = 3",
        ),
        (lambda: qkv.randint(0, 1.5, 2), TypeError, "randint: high must be an integer because .*; got 1.5"),
        (
            lambda: qkv.randint(0, 2**63, 2),
            ValueError,
            "randint: high must be in .*; got 9223372036854775808",
        ),
        (lambda: qkv.randperm(-1), ValueError, "randperm: n must be at least 0; got -1"),
        (lambda: qkv.randperm("a"), TypeError, "randperm: n must be an integer because .*; got 'a'"),
        (
            lambda: qkv.bernoulli(1.5, 2),
            ValueError,
            r"bernoulli: p must be in \[0, 1\] because .*; got p = 1.5",
        ),
        (lambda: qkv.bernoulli(math.nan, 2), ValueError, r"bernoulli: p must be in \[0, 1\] .*; got p = nan"),
        (lambda: qkv.bernoulli([0.5, -1.0]), ValueError, "bernoulli: p must be in .*; got -1 at element 1"),
        (lambda: qkv.bernoulli(0.5), TypeError, "bernoulli: size must be given because .*; got size = None"),
        (
            lambda: qkv.bernoulli([0.5], 2),
            TypeError,
            "bernoulli: size must be left out because .*; got size = 2",
        ),
        (
            lambda: qkv.random.exponential(0, 2),
            ValueError,
            "exponential: rate must be above 0 .*; got rate = 0",
        ),
        (
            lambda: qkv.random.multinomial(1.0, 1),
            ValueError,
            r"multinomial: p must be \(n,\) or .*; got p \(\)",
        ),
        (
            lambda: qkv.random.multinomial([1.0], 2),
            ValueError,
            "multinomial: num_samples .*; got 2 samples of 1",
        ),
        (
            lambda: qkv.random.multinomial([1.0], -2),
            ValueError,
            "multinomial: num_samples .*; got -2 samples",
        ),
        (
            lambda: qkv.random.multinomial([1, -1], 1),
            ValueError,
            "must be finite and .*; got -1 at row 0, column 1",
        ),
        (
            lambda: qkv.random.multinomial([1, 0], 2),
            ValueError,
            "at least 2 weights above 0 .* and 1 weights above",
        ),
        (
            lambda: qkv.random.set_rng_state(np.zeros(628)),
            TypeError,
            "state must be a uint32 array .*; got float64",
        ),
        (
            lambda: qkv.random.set_rng_state(np.zeros(5, np.uint32)),
            ValueError,
            "must have 628 words .*; got 5",
        ),
        (
            lambda: qkv.random.set_rng_state(np.full(628, 700, np.uint32)),
            ValueError,
            "position 700 and flag 700",
        ),
    ],
)
def test_rejections(call, error, text):
    with pytest.raises(error, match=text):
        call()


def test_a_rejected_call_draws_nothing():
    rng = qkv.Generator(8)
    for wrong in (lambda: qkv.normal(0, -1, 50, rng=rng), lambda: qkv.randint(5, 1, 50, rng=rng)):
        with pytest.raises(ValueError, match="must be"):
            wrong()
    assert same_bits(qkv.rand(3, rng=rng), qkv.rand(3, rng=qkv.Generator(8)))


def test_a_tensor_of_probabilities():
    p = np.array([0.0, 1.0, 1.0, 0.0], np.float32)
    assert same_bits(qkv.bernoulli(qkv.tensor(p)), p)
