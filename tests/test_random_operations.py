"""Random calls of NumPy's functions on views of Tensors, beside NumPy in float64."""

from __future__ import annotations

import numpy as np
import pytest

import qkv
from qkv.testing import check_gradient

# Ends of the ranges, numbers without a normal form, and those at which e^x and its like leave a range.
ENDS = [0.0, -0.0, 1, -1, 0.5, 2, -2, 20, -20, 87, -88, 89, 104, 709, -745, 1e-5, -1e-9, 1e-40, 1e17, 1e300]
ENDS += [5e-324, np.inf, -np.inf, np.nan]
EXACT = [
    x for x in ENDS if not np.isfinite(x) or (x == round(x) and abs(x) < 1000)
]  # whose sums are not rounded
CLOSE = {"float32": 3e-6, "float64": 3e-13}
ONE = "negative absolute exp expm1 exp2 log log1p log2 sqrt square sin cos tanh sinh cosh sign floor rint"
TWO = "add subtract multiply divide maximum minimum logaddexp remainder floor_divide less equal"
REDUCTIONS = "sum mean max min var std cumsum argmax argmin any all"


def random_shape(rng, least=0, most=4):
    return tuple(
        rng.choice([0, 1, 2, 3, 5, 7, 11], rng.integers(least, most + 1), p=[0.04] + [0.16] * 6).tolist()
    )


def random_axis(rng, name, ndim):
    choices = [None, *range(-ndim, ndim)]
    if name not in ("cumsum", "argmax", "argmin"):
        choices.append(tuple(rng.permutation(ndim)[: rng.integers(ndim + 1)].tolist()))
    return choices[rng.integers(len(choices))]


def elementwise(rng, shape):
    function = getattr(np, rng.choice(ONE.split()))
    return [shape], function


def of_two(rng, shape):
    function = getattr(np, rng.choice(TWO.split()))
    a, b = (tuple(1 if rng.random() < 0.3 else n for n in shape) for _ in range(2))
    return [a, b[rng.integers(len(b) + 1) :]], function


def reduction(rng, shape):
    name = rng.choice(REDUCTIONS.split())
    axis = random_axis(rng, name, len(shape))
    return [shape], lambda x: getattr(np, name)(x, axis=axis)


def clipped(rng, shape):
    low, high = (None if rng.random() < 0.2 else (-0.3, np.nan)[rng.integers(2)] for _ in range(2))
    if rng.random() < 0.5:
        return [shape, shape[1:]], lambda x, y: np.clip(x, -abs(y), high)
    return [shape], lambda x: np.clip(x, low, None if high is None else 1 + high)


def moved(rng, shape):
    order = tuple(rng.permutation(len(shape)).tolist())
    turns, repeats, places = rng.integers(-9, 9), rng.integers(4), rng.random(shape) < 0.5
    steps = [lambda x: np.transpose(x, order), lambda x: np.roll(x, turns), lambda x: np.repeat(x, repeats)]
    steps += [lambda x: np.flip(x), lambda x: np.ravel(x, "F"), lambda x: np.diff(x, axis=0)]
    steps += [
        lambda x: np.sort(x, 0),
        lambda x: x[places],
        lambda x: x[..., ::-2],
        lambda x: np.where(places, x, -x),
    ]
    return [shape], steps[rng.integers(len(steps))]


def product(rng, shape):
    n, k, m = (int(size) for size in rng.choice([0, 1, 2, 3, 5, 17, 33], 3))
    batch = tuple(1 if rng.random() < 0.3 else size for size in shape[1:])
    return [(*shape[1:], n, k), (*batch, k, m)], np.matmul


def on_a_view(rng, x):
    """Return a contiguous array, and what shows these numbers in it: other order of axes, steps, places between."""
    order = rng.permutation(x.ndim)
    small = x.transpose(order)
    steps = rng.choice([1, 1, 2, -1, -3], x.ndim).tolist()
    base = np.zeros([size * abs(step) for size, step in zip(small.shape, steps, strict=True)], x.dtype)
    index = tuple(slice(None, None, step) for step in steps)
    base[index] = small
    back = tuple(np.argsort(order).tolist())
    return base, lambda t: t[index].transpose(back)


def random_numbers(rng, shape, ends):
    return rng.choice(ends, shape) if ends else rng.standard_normal(shape)


def near(got, want, dtype, ends):
    with np.errstate(all="ignore"):
        if got.dtype.kind != "f":
            return got.shape == want.shape and (got == want).all()
        want = want.astype(dtype)
        return got.shape == want.shape and np.allclose(
            got, want, 20 * CLOSE[dtype], 1e-30 if ends is ENDS else 20 * CLOSE[dtype], equal_nan=True
        )


MAKERS = [elementwise, of_two, reduction, clipped, moved, product]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("count", [200, pytest.param(10_000, marks=pytest.mark.slow)])
def test_numpys_functions_on_views(make, count):
    for seed in range(count):
        rng = np.random.default_rng([count, seed])
        shapes, function = make(rng, random_shape(rng, 1))
        dtype = str(rng.choice(["float32", "float64"]))
        ends = {product: [], reduction: EXACT}.get(make, ENDS) if rng.random() < 0.5 else []
        xs = [random_numbers(rng, shape, ends).astype(dtype) for shape in shapes]
        try:
            wants = [np.asarray(function(*(x.astype(float) for x in xs))), np.asarray(function(*xs))]
        except (ValueError, IndexError):
            wants = []
        laid = [on_a_view(rng, x) for x in xs]
        bases = [qkv.tensor(base) for base, _ in laid]
        views = [view(t) for t, (_, view) in zip(bases, laid, strict=True)]
        if not wants:
            with pytest.raises((ValueError, IndexError)):
                function(*views)
            continue
        got = np.asarray(function(*views))
        # In float32 NumPy's own rounding counts as well: remainders and differences of near numbers hang on it.
        assert any(near(got, want, dtype, ends) for want in wants), (make.__name__, seed, got, wants)
        assert got.dtype == wants[1].dtype, (make.__name__, seed)
        assert all(t.numpy().tobytes() == base.tobytes() for t, (base, _) in zip(bases, laid, strict=True))


@pytest.mark.parametrize("make", [moved, product, reduction])
def test_gradients_through_views(make):
    for seed in range(40):
        rng = np.random.default_rng(seed)
        shapes, function = make(rng, random_shape(rng, 1, 3))
        laid = [on_a_view(rng, rng.standard_normal(shape)) for shape in shapes]

        def through(*bases, laid=laid, function=function):
            return function(*(view(t) for t, (_, view) in zip(bases, laid, strict=True)))

        try:
            y = through(*(qkv.tensor(base, requires_grad=True) for base, _ in laid))
        except (ValueError, IndexError):
            continue
        if isinstance(y, qkv.Tensor) and y.requires_grad and y.size and np.isfinite(y.numpy()).all():
            check_gradient(through, *(base for base, _ in laid))


def test_digits_of_small_sums():
    """What is far below 1 keeps its digits, and halves do not overflow before the whole."""
    x = np.array([0.0, -20.0, -30.0, -80.0, 89.0], np.float32)
    for name, arguments in {"logaddexp": (x, x[:1]), "sinh": (x,), "cosh": (x,), "exp2": (x,)}.items():
        want = getattr(np, name)(*(a.astype(float) for a in arguments))
        np.testing.assert_allclose(getattr(np, name)(*map(qkv.tensor, arguments)).numpy(), want, 2e-6)
    a = qkv.tensor([np.inf, -np.inf, 0.0, -np.inf], requires_grad=True)
    b = qkv.tensor([np.inf, -np.inf, -np.inf, np.inf], requires_grad=True)
    y = np.logaddexp(a, b)
    assert y.tolist() == [np.inf, -np.inf, 0, np.inf]
    y.sum().backward()
    assert np.isfinite(a.grad.numpy()).all()
    assert np.isfinite(b.grad.numpy()).all()


def test_limits_that_are_nan():
    x = qkv.tensor([1.0, 5.0, np.nan], requires_grad=True)
    for limits in [(np.nan, None), (None, np.nan), (0.0, np.nan), (np.array([np.nan] * 3), 1.0)]:
        y = np.clip(x, *limits)
        assert np.isnan(y.numpy()).all(), limits
    assert np.isnan(qkv.clip([1.0], np.nan)).all()
    qkv.clip(x, high=np.nan).sum().backward()
    assert x.grad.tolist() == [0, 0, 0]
