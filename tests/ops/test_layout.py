"""Transposes, joins, indices and short broadcasts: sizes that no vector, tile or block divides."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from levels import each_level, run_at
from sweep import sweep

import qkv
from qkv.testing import check_gradient

DTYPES = ["float32", "float64", "int64", "bool"]


def numbers(shape, dtype):
    x = np.random.default_rng(0).standard_normal(shape)
    return x > 0 if dtype == "bool" else (100 * x).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(3, 5, 7), (17, 2, 67), (131, 3, 37), (1, 71, 67), (5, 0, 3)])
def test_every_order_of_axes(shape, dtype):
    x = numbers(shape, dtype)
    for order in itertools.permutations(range(3)):
        np.testing.assert_array_equal(qkv.tensor(x).transpose(*order).numpy(), x.transpose(order))


TRANSPOSES = """
import numpy as np
import qkv

for dtype in ("float32", "float64", "int64"):
    for rows, columns in ((1, 71), (16, 16), (67, 131), (257, 19), (67, 515)):
        x = np.arange(3 * rows * columns).reshape(3, rows, columns).astype(dtype)
        t = qkv.tensor(x)
        np.testing.assert_array_equal(t.swapaxes(1, 2).numpy(), x.swapaxes(1, 2))
        np.testing.assert_array_equal(t.T.numpy(), x.T)
        np.testing.assert_array_equal(t[::-1, ::2].T.numpy(), x[::-1, ::2].T)
"""


@each_level()
def test_transposes_at_every_level(level):
    done = run_at(level, TRANSPOSES)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_joins(axis, dtype):
    a, b = numbers((5, 7, 3), dtype), numbers((5, 7, 3), dtype)
    tensors = [qkv.tensor(a), qkv.tensor(b)]
    np.testing.assert_array_equal(qkv.stack(tensors, axis).numpy(), np.stack([a, b], axis))
    np.testing.assert_array_equal(qkv.concatenate(tensors, axis).numpy(), np.concatenate([a, b], axis))
    one = [x[..., :1] for x in (a, b, a)]
    joined = qkv.concatenate([qkv.tensor(np.ascontiguousarray(x)) for x in one], -1)
    np.testing.assert_array_equal(joined.numpy(), np.concatenate(one, -1))


INDICES = [
    0, -1, np.int64(2), slice(None), slice(1, None, 2), slice(None, None, -1), slice(4, 1, -2), slice(9, 2), (2, -3),
    (slice(1, 4), 0), (slice(None), slice(None), 1), (1, 2, 0), (Ellipsis, 1), (None, 2), (slice(None), None),
    [1, 3, 1], np.array([[4, -1], [0, 2]]), [True, False, True, True, False], (slice(None), [0, 2]), ([0, 1], [2, 3]),
    np.array([], int), (),
]  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
@sweep("index", INDICES)
def test_indices_as_in_numpy(index, dtype):
    x = numbers((5, 7, 3), dtype)
    y = qkv.tensor(x)[index].numpy()
    assert y.shape == x[index].shape
    np.testing.assert_array_equal(y, x[index])


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_gradients_of_indices(index):
    check_gradient(lambda t: t[index], numbers((5, 7, 3), "float64"))


@pytest.mark.parametrize("index", [5, -6, (0, 7), [5], (0, 0, 0, 0), [True] * 4, 2**70])
def test_indices_out_of_range_are_refused_by_numpy_s_rules(index):
    x = numbers((5, 7, 3), "float32")
    with pytest.raises(IndexError) as expected:
        x[index]
    with pytest.raises(IndexError) as found:
        qkv.tensor(x)[index]
    assert type(found.value) is type(expected.value)


@pytest.mark.parametrize("dtype", ["float32", "int64"])
@pytest.mark.parametrize(
    "shapes",
    [((1031, 7), (7,)), ((1031, 7), (1031, 1)), ((257, 5, 3), (5, 1)), ((257, 1, 3), (5, 3)), ((3, 700, 2), (3, 1, 2)),
     ((67, 63), (1, 63)), ((67, 1), (1, 64)), ((700, 1), (1, 3)), ((11, 1, 13, 1), (1, 17, 1, 5))],
)  # fmt: skip
def test_short_broadcasts(shapes, dtype):
    a, b = (numbers(shape, dtype) for shape in shapes)
    for x, y in ((a, b), (b, a)):
        np.testing.assert_array_equal((qkv.tensor(x) - qkv.tensor(y)).numpy(), x - y)
        np.testing.assert_array_equal((qkv.tensor(x) < qkv.tensor(y)).numpy(), x < y)
        chosen = qkv.where(qkv.tensor(x) < qkv.tensor(y), qkv.tensor(x), qkv.tensor(y))
        np.testing.assert_array_equal(chosen.numpy(), np.where(x < y, x, y))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_clip_and_where_pass_nan_on(dtype):
    x = np.array([np.nan, -np.inf, -2, -0.5, 0, 0.5, 2, np.inf] * 9, dtype)
    for low, high in ((-0.5, 0.5), (None, 0.5), (-0.5, None), (0, 0)):
        np.testing.assert_array_equal(qkv.clip(x, low, high), np.clip(x, low, high))
    t = qkv.tensor(x, requires_grad=True)
    qkv.clip(t, -0.5, 0.5).sum().backward()
    np.testing.assert_array_equal(t.grad.numpy(), ~((x < -0.5) | (x > 0.5)))
    check_gradient(lambda v: qkv.clip(v, -1, 1), np.random.default_rng(1).standard_normal((5, 7)) * 2)
    condition = np.arange(72) % 3 == 0
    for a, b in ((x, x[::-1].copy()), (x, 1.0), (1.0, x), (1.0, 2.0)):
        np.testing.assert_array_equal(qkv.where(condition, a, b), np.where(condition, a, b))
    for one in (True, False):
        np.testing.assert_array_equal(qkv.where(np.array(one), x, 1.0), np.where(one, x, 1.0))
