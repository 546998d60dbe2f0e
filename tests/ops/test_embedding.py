"""Embedding rows and rotary positions."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import close, gradients, layouts, same_bits_for_any_threads

import qkv
from qkv import _core, reference
from qkv.testing import check_gradient


def embedding(weight, ids, padding_idx=None):
    return _core.embedding(weight, ids, padding_idx)


@pytest.mark.parametrize("ids", [3, [0, 6, 3, 3], [[1, 2, 3], [4, 5, 6]], np.zeros((2, 0), int)])
def test_rows(ids):
    weight = np.random.default_rng(0).normal(size=(7, 5))
    close(embedding(weight, ids), weight[np.asarray(ids, int)])
    for dtype in ("int32", "uint8"):
        close(embedding(weight, np.asarray(ids, dtype)), weight[np.asarray(ids, int)])
    check_gradient(lambda w: embedding(w, ids), weight)


@pytest.mark.parametrize(("width", "dtype"), [(509, "float32"), (512, "float32"), (251, "float64")])
def test_rows_of_a_result_larger_than_the_caches(width, dtype):
    rng = np.random.default_rng(0)
    table = rng.standard_normal((7919, width)).astype(dtype)
    ids = rng.integers(0, len(table), 17387)
    assert ids.size * width * table.itemsize >= 32 << 20
    assert np.array_equal(embedding(table, ids), table[ids])


def test_equal_ids_add_up_and_padding_gets_nothing():
    weight = qkv.tensor(np.ones((5, 3)), requires_grad=True)
    dy = np.arange(12.0).reshape(4, 3)
    embedding(weight, [2, 0, 2, 4], padding_idx=4).backward(dy)
    expected = np.zeros((5, 3))
    expected[2], expected[0] = dy[0] + dy[2], dy[1]
    close(weight.grad, expected)
    again = qkv.tensor(np.ones((5, 3)), requires_grad=True)
    embedding(again, [2, 0, 2, 4], padding_idx=-1).backward(dy)
    close(again.grad, expected)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("width", [1, 131, 259])
def test_the_gradient_of_a_frequent_id_is_summed_in_the_order_of_positions(width, dtype):
    random = np.random.default_rng(0)
    ids = np.where(random.random(70_001 if width == 1 else 5003) < 0.9, 2, random.integers(0, 5, 1))
    ids[::7] = 0
    dy = random.normal(size=(len(ids), width)).astype(dtype)
    expected = np.zeros((5, width), dtype)
    for i, row in zip(ids, dy, strict=True):
        if i != 0:
            expected[i] += row
    weight = qkv.tensor(np.ones((5, width), dtype), requires_grad=True)
    embedding(weight, ids, padding_idx=0).backward(dy)
    np.testing.assert_array_equal(weight.grad.numpy(), expected)


def test_ids_are_kept_for_the_gradient():
    weight, ids = qkv.tensor(np.ones((5, 2)), requires_grad=True), np.array([1, 1])
    y = embedding(weight, ids)
    ids[:] = 3
    y.sum().backward()
    assert weight.grad.numpy().sum(1).tolist() == [0, 4, 0, 0, 0]


def test_embedding_rejections():
    weight = np.zeros((7, 3))
    with pytest.raises(
        ValueError,
        match=r"^embedding: ids must be in 0\.\.6 because weight is \(7, 3\); got id 9 at position \(1, 2\)$",
    ):
        embedding(weight, [[0, 1, 2], [3, 4, 9]])
    with pytest.raises(ValueError, match=r"got id -1 at position \(0,\)"):
        embedding(weight, [-1])
    with pytest.raises(TypeError, match="embedding: ids must hold integers; got dtype float64"):
        embedding(weight, [1.0])
    with pytest.raises(ValueError, match=r"embedding: weight must be \(V, M\); got weight \(7,\)"):
        embedding(np.zeros(7), [1])
    with pytest.raises(ValueError, match=r"padding_idx must be in -7\.\.6 .* got padding_idx = 7"):
        embedding(weight, [1], padding_idx=7)


def test_embedding_with_any_number_of_threads():
    random = np.random.default_rng(0)
    weight, ids = random.normal(size=(53, 257)).astype("f4"), random.integers(0, 53, (31, 37))
    same_bits_for_any_threads(lambda: gradients(lambda w: embedding(w, ids), weight))


def rotary(x, cos, sin, interleaved=False):
    return _core.apply_rotary(x, cos, sin, interleaved)


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("width", [3, 2, 0])
@pytest.mark.parametrize("tables", [(5,), (2, 1, 5), (3, 5)])
def test_rotary(interleaved, width, tables):
    random = np.random.default_rng(0)
    x, angles = random.normal(size=(2, 3, 5, 7)), random.normal(size=(*tables, width))
    cos, sin = np.cos(angles), np.sin(angles)
    expected = reference.apply_rotary(x, cos, sin, interleaved=interleaved)
    close(rotary(x, cos, sin, interleaved), expected)
    for variant in layouts(x):
        close(rotary(variant, cos, sin, interleaved), expected)
    close(rotary(x.astype("f4"), cos, sin, interleaved), expected, "float32")
    check_gradient(lambda t: rotary(t, cos, sin, interleaved), x)


def test_rotation_keeps_lengths_and_the_type_of_x():
    x, angles = np.random.default_rng(0).normal(size=(5, 6)), np.random.default_rng(1).normal(size=(5, 3))
    y = rotary(x.astype("float16"), np.cos(angles), np.sin(angles))
    assert y.dtype == np.float16
    close((rotary(x, np.cos(angles), np.sin(angles)) ** 2).sum(-1), (x**2).sum(-1))
    assert rotary(np.zeros((0, 6)), np.ones((1, 3)), np.ones((1, 3))).shape == (0, 6)


def test_rotary_rejections():
    x = np.zeros((2, 5, 6))
    with pytest.raises(ValueError, match=r"^apply_rotary: x must be \(\.\.\., L, D\); got x \(6,\)$"):
        rotary(np.zeros(6), np.ones(3), np.ones(3))
    with pytest.raises(ValueError, match=r"sin must be \(5, 3\) to match cos; got sin \(5, 2\)"):
        rotary(x, np.ones((5, 3)), np.ones((5, 2)))
    with pytest.raises(ValueError, match=r"cos must broadcast to .* of x \(2, 5, 6\); got cos \(4, 3\)"):
        rotary(x, np.ones((4, 3)), np.ones((4, 3)))
    with pytest.raises(ValueError, match=r"cos must have at most 3 columns .* got cos \(5, 4\)"):
        rotary(x, np.ones((5, 4)), np.ones((5, 4)))


def test_ids_that_change_after_the_call_leave_the_gradient_alone():
    weight = qkv.tensor(np.ones((7, 5)), requires_grad=True)
    ids = qkv.tensor([1, 2, 2])
    y = embedding(weight, ids)
    ids.numpy()[1] = 10**9
    y.sum().backward()
    np.testing.assert_array_equal(weight.grad, np.repeat([[0], [1], [2], [0], [0], [0], [0]], 5, 1))
